// Calls everything that kernels can call, in each of the ways there are; compiled and linked by a test.
#include <cstdio>
#include <cstdlib>

#include <scatterheap/heap.hpp>
#include <scatterheap/replace_new.cuh>

#include <scatterheap/replace_malloc.cuh>

struct Own {
    int value;
    SCATTERHEAP_NEW_AND_DELETE
};

struct Plain {
    int value;
    __device__ ~Plain() {}
};

__global__ void with_handle(const __grid_constant__ scatterheap_handle heap, unsigned long long *out) {
    void *block = scatterheap_malloc(&heap, 10);
    block = scatterheap_realloc(&heap, block, 100);
    out[0] = scatterheap_usable_size(&heap, block);
    scatterheap_free(&heap, block);
    scatterheap_free(&heap, scatterheap_malloc_tagged(&heap, 10, 7));
    scatterheap_free(&heap, scatterheap_calloc(&heap, 10, 10));
    scatterheap_free(&heap, scatterheap_aligned_alloc(&heap, 256, 10));
    scatterheap_warp_free(&heap, scatterheap_warp_malloc(&heap, 1000));
    Plain *plain = new (&heap) Plain;
    out[1] = plain != nullptr;
    scatterheap_delete(&heap, plain);
}

__global__ void with_bound(unsigned long long *out) {
    void *block = malloc(10);
    block = realloc(block, 100);
    out[0] = block != nullptr;
    free(block);
    free(calloc(10, 10));
    free(scatterheap_bound_aligned_alloc(256, 10));
    Own *own = new Own;
    out[1] = own != nullptr;
    delete own;
    Plain *plain = new Plain[3];
    out[2] = plain != nullptr;
    delete[] plain;
    int *value = new int(3);
    out[3] = *value;
    delete value;
}

int main() {
    // Of the host, all is as it was.
    int *value = new int(3);
    void *block = malloc(10);
    const bool good = value != nullptr && block != nullptr;
    free(block);
    delete value;
    if (!good) {
        return 1;
    }
    try {
        scatterheap::BoundHeap heap("16MiB");
        unsigned long long *out = nullptr;
        cudaMallocManaged(&out, 8 * sizeof *out);
        with_handle<<<1, 32>>>(heap.handle(), out);
        const scatterheap_occupancy after = heap.snapshot();
        const bool first = out[0] >= 100 && out[1] == 1 && after.used_blocks == 0;
        heap.reset();
        with_bound<<<4, 64>>>(out);
        const scatterheap_occupancy last = heap.snapshot();
        const bool second = out[0] == 1 && out[1] == 1 && out[2] == 1 && out[3] == 3 && last.used_blocks == 0;
        heap.check_invariants();
        std::printf("handle: %s, bound: %s, %llu failures, %llu misuses\n", first ? "right" : "WRONG",
                    second ? "right" : "WRONG", static_cast<unsigned long long>(after.failures + last.failures),
                    static_cast<unsigned long long>(after.misuses + last.misuses));
        return first && second && after.failures + last.failures + after.misuses + last.misuses == 0 ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 3;
    }
}
