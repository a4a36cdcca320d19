// Calls everything that kernels can call, in each of the ways there are; compiled and linked by a test.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

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

struct alignas(64) Line {
    double values[8];
    __device__ ~Line() {}
};

struct alignas(64) OwnLine {
    double values[8];
    SCATTERHEAP_NEW_AND_DELETE
};

template <typename T>
static __device__ bool is_aligned(const T *object) {
    return object != nullptr && reinterpret_cast<unsigned long long>(object) % alignof(T) == 0;
}

/* Aligned to more than malloc promises; in a heap with tags blocks of malloc lie 16 bytes behind multiples of 64. */
__global__ void aligned(const __grid_constant__ scatterheap_handle heap, unsigned long long *out) {
    Line *line = new (&heap) Line;
    Line *plain = new Line;
    Line *lines = new Line[3];
    OwnLine *own = new OwnLine;
    OwnLine *owns = new OwnLine[3];
    if (!is_aligned(line) || !is_aligned(plain) || !is_aligned(lines) || !is_aligned(own) || !is_aligned(owns)) {
        *out = 0;
    }
    scatterheap_delete(&heap, line);
    delete plain;
    delete[] lines;
    delete own;
    delete[] owns;
}

struct Counted {
    int value;
    unsigned long long *ended;
    __device__ Counted() : value(7), ended(nullptr) {}
    __device__ ~Counted() {
        if (ended != nullptr) {
            atomicAdd(ended, 1ull);
        }
    }
};

/* Arrays whose objects have a destructor: each thread's three are made, and ended once. */
__global__ void arrays(const __grid_constant__ scatterheap_handle heap, unsigned long long *ended) {
    Counted *counted = scatterheap_new_array<Counted>(&heap, 3);
    for (int index = 0; counted != nullptr && index < 3; ++index) {
        counted[index].ended = counted[index].value == 7 ? ended : nullptr;
    }
    scatterheap_delete_array(&heap, counted, 3);
    Line *lines = scatterheap_new_array<Line>(&heap, 3);
    if (!is_aligned(lines)) {
        *ended = 0;
    }
    scatterheap_delete_array(&heap, lines, 3);
    scatterheap_delete_array<Counted>(&heap, nullptr, 3);
}

/* More than can be; the heap counts a failure for each thread. */
__global__ void impossible_arrays(const __grid_constant__ scatterheap_handle heap, unsigned long long *out) {
    if (scatterheap_new_array<Counted>(&heap, ~0ull / 8) != nullptr) {
        *out = 1;
    }
}

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

struct alignas(64) HostLine {
    double values[8];
};

template <typename T>
static bool host_is_aligned(const T *object) {
    return object != nullptr && reinterpret_cast<size_t>(object) % alignof(T) == 0;
}

/* The library makes objects in place, for which a compiler first tries the `new` with an alignment. */
static bool containers_are_right() {
    std::vector<HostLine> lines(3);
    lines.push_back(HostLine());
    const std::shared_ptr<HostLine> shared = std::make_shared<HostLine>();
    return host_is_aligned(lines.data()) && host_is_aligned(shared.get());
}

/* The library's memory resources ask for alignments down to 1. */
static bool small_alignments_are_right() {
    const std::pmr::string text(100, 'x');
    void *block = ::operator new(8, std::align_val_t(2));
    ::operator delete(block, std::align_val_t(2));
    return text.size() == 100;
}

/* Of the host, all is as it was. */
static bool host_is_right() {
    int *value = new int(3);
    void *block = malloc(10);
    HostLine *line = new HostLine;
    const bool right = value != nullptr && block != nullptr && host_is_aligned(line) && containers_are_right() &&
                       small_alignments_are_right();
    free(block);
    delete value;
    delete line;
    return right;
}

/* The current device, as heaps are told it. */
static std::string here() { return "cuda:" + std::to_string(scatterheap::current_device()); }

/* Whether objects are aligned, and given back, in a heap that a text describes. */
static bool are_aligned(const char *options, unsigned long long *out) {
    scatterheap::BoundHeap heap(options);
    *out = 1;
    aligned<<<4, 64>>>(heap.handle(), out);
    const scatterheap_occupancy after = heap.snapshot();
    heap.check_invariants();
    return *out == 1 && after.used_blocks == 0 && after.failures == 0 && after.misuses == 0;
}

/* Whether arrays are made, ended and given back, and what cannot be is refused. */
static bool arrays_are_right(unsigned long long *out) {
    scatterheap::Heap heap("16MiB");
    out[0] = out[1] = 0;
    arrays<<<4, 64>>>(heap.handle(), &out[0]);
    const scatterheap_occupancy after = heap.snapshot();
    impossible_arrays<<<1, 32>>>(heap.handle(), &out[1]);
    const scatterheap_occupancy last = heap.snapshot();
    return out[0] == 4 * 64 * 3 && after.used_blocks == 0 && after.failures == 0 && after.misuses == 0 && out[1] == 0 &&
           last.failures == 32;
}

/* Whether the bound heap of the current device serves its kernels; it is emptied. */
static bool bound_is_right(scatterheap::BoundHeap &heap, unsigned long long *out) {
    out[0] = out[1] = out[2] = out[3] = 0;
    with_bound<<<4, 64>>>(out);
    const scatterheap_occupancy after = heap.snapshot();
    heap.check_invariants();
    return out[0] == 1 && out[1] == 1 && out[2] == 1 && out[3] == 3 && after.used_blocks == 0 &&
           after.failures + after.misuses == 0;
}

/* Whether a heap that takes another one's place is bound when the other one goes. */
static bool replaced_is_right(unsigned long long *out) {
    std::unique_ptr<scatterheap::BoundHeap> heap(new scatterheap::BoundHeap("16MiB"));
    heap.reset(new scatterheap::BoundHeap("32MiB"));
    return bound_is_right(*heap, out);
}

/* Whether all is right on the current device. */
static bool device_is_right(unsigned long long *out) {
    const bool third = are_aligned("16MiB", out) && are_aligned("16MiB,harden=tags", out);
    const bool fourth = arrays_are_right(out);
    const bool fifth = replaced_is_right(out);
    scatterheap::BoundHeap heap("16MiB");
    with_handle<<<1, 32>>>(heap.handle(), out);
    const scatterheap_occupancy after = heap.snapshot();
    const bool first = out[0] >= 100 && out[1] == 1 && after.used_blocks == 0 && after.failures + after.misuses == 0;
    heap.reset();
    const bool second = bound_is_right(heap, out);
    std::printf("%s: handle: %s, bound: %s, aligned: %s, arrays: %s, replaced: %s\n", here().c_str(),
                first ? "right" : "WRONG", second ? "right" : "WRONG", third ? "right" : "WRONG",
                fourth ? "right" : "WRONG", fifth ? "right" : "WRONG");
    return first && second && third && fourth && fifth;
}

/* Whether each device keeps its bound heap, whatever is done while another one is current. The current one is 0 then. */
static bool devices_are_apart(int count, unsigned long long *out) {
    std::vector<std::unique_ptr<scatterheap::BoundHeap>> heaps;
    for (int device = 0; device < count; ++device) {
        cudaSetDevice(device);
        heaps.push_back(std::make_unique<scatterheap::BoundHeap>("16MiB"));
    }
    bool right = true;
    for (int device = 0; device < count; ++device) {
        heaps[(device + 1) % count]->reset();
        cudaSetDevice(device);
        right = bound_is_right(*heaps[device], out) && right;
    }
    cudaSetDevice(0);
    try {
        scatterheap::bind(*heaps[count - 1]);
        right = count == 1 && right;
    } catch (const scatterheap::Error &error) {
        right = count > 1 && std::string(error.what()).find("was used on cuda:0") != std::string::npos && right;
    }
    // The last one goes while device 0 is current, whose heap stays bound.
    if (count > 1) {
        heaps.pop_back();
        right = scatterheap::current_device() == 0 && bound_is_right(*heaps[0], out) && right;
    }
    std::printf("%d devices: %s\n", count, right ? "right" : "WRONG");
    return right;
}

int main() {
    if (!host_is_right()) {
        return 1;
    }
    try {
        // Where there is no GPU it says so.
        scatterheap::Heap("1MiB");
        int count = 0;
        scatterheap::check_cuda(cudaGetDeviceCount(&count), "the devices cannot be counted");
        unsigned long long *out = nullptr;
        scatterheap::check_cuda(cudaMallocManaged(&out, 8 * sizeof *out), "no managed memory");
        bool right = true;
        for (int device = 0; device < count; ++device) {
            cudaSetDevice(device);
            right = device_is_right(out) && right;
        }
        return devices_are_apart(count, out) && right ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 3;
    }
}
