// How long the whole malloc family takes that is called from CUDA C++ across the link: medians of launches in which each of 2^20 threads makes one call,
// as rows of the table that `scatterheap bench` writes (test, allocator, size, n, metric, value). The argument is the allocator's name there. Contents are
// verified before.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -rdc=true -maxrregcount=64 -I include -I . family.cu scatterheap.cu X.o -L lib -lscatterheap -o family

#include <scatterheap/heap.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using Handle = scatterheap_handle;

constexpr uint32_t THREADS = 1 << 20, BLOCK = 256, LAUNCHES = 31, WARM = 10, ALIGNMENT = 64;

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

enum class Call { Malloc, Calloc, Aligned, Realloc, Free };

constexpr const char *NAMES[] = {"malloc_us", "calloc_us", "aligned_us", "realloc_us", "free_us"};

template <Call call>
__global__ void make_calls(const __grid_constant__ Handle heap, void **blocks, const uint32_t *sizes, uint32_t factor) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t bytes = size_t(sizes[index]) * factor;
    if constexpr (call == Call::Malloc) {
        blocks[index] = scatterheap_malloc(&heap, bytes);
    } else if constexpr (call == Call::Calloc) {
        blocks[index] = scatterheap_calloc(&heap, 1, bytes);
    } else if constexpr (call == Call::Aligned) {
        blocks[index] = scatterheap_aligned_alloc(&heap, ALIGNMENT, bytes);
    } else if constexpr (call == Call::Realloc) {
        blocks[index] = scatterheap_realloc(&heap, blocks[index], bytes);
    } else {
        scatterheap_free(&heap, blocks[index]);
    }
}

__device__ uint8_t content(uint32_t thread, size_t place) { return uint8_t(thread * 37 + place * 11 + 1); }

// Counts the threads whose block was not zero, or did not keep its content while it grew and shrank. Of the threads of a warp those of a mask take part.
__global__ void verify(const __grid_constant__ Handle heap, const uint32_t *sizes, uint32_t mask, unsigned long long *faults) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if ((mask >> index % 32 & 1) == 0) {
        return;
    }
    const size_t bytes = sizes[index];
    bool is_right = true;
    auto *block = static_cast<uint8_t *>(scatterheap_calloc(&heap, bytes, 1));
    for (size_t place = 0; place < bytes; ++place) {
        is_right &= block[place] == 0;
        block[place] = content(index, place);
    }
    for (const size_t resized : {3 * bytes, bytes / 3 + 1}) {
        block = static_cast<uint8_t *>(scatterheap_realloc(&heap, block, resized));
        for (size_t place = 0; place < bytes && place < resized; ++place) {
            is_right &= block[place] == content(index, place);
        }
    }
    scatterheap_free(&heap, block);
    if (!is_right) {
        atomicAdd(faults, 1ull);
    }
}

struct Bench {
    scatterheap::Heap &heap;
    void **blocks;
    uint32_t *sizes;
    cudaEvent_t begin, end;
    std::vector<float> times[5];

    template <Call call>
    void launch(uint32_t factor, bool counts) {
        check(cudaEventRecord(begin));
        make_calls<call><<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, sizes, factor);
        check(cudaGetLastError());
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        if (counts) {
            times[int(call)].push_back(milliseconds * 1000);
        }
    }

    // Allocates by a function, makes the blocks four times as large, and frees them.
    template <Call call>
    void round(bool counts) {
        launch<call>(1, counts);
        const bool counts_rest = counts && call == Call::Malloc;
        launch<Call::Realloc>(4, counts_rest);
        launch<Call::Free>(1, counts_rest);
    }

    // Contents, by whole warps, parts of them, and single lanes. Twice, so that blocks have held something.
    void check_contents() {
        unsigned long long *faults = nullptr, found = 0;
        check(cudaMalloc(&faults, sizeof *faults));
        check(cudaMemset(faults, 0, sizeof *faults));
        for (const uint32_t mask : {~0u, ~0u, 0x7fff7fffu, 0x24924924u, 0x80000000u}) {
            verify<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), sizes, mask, faults);
            check(cudaGetLastError());
        }
        check(cudaMemcpy(&found, faults, sizeof found, cudaMemcpyDeviceToHost));
        check(cudaFree(faults));
        if (found != 0) {
            std::fprintf(stderr, "%llu threads found something else in their blocks\n", found);
            std::exit(1);
        }
    }

    void run(const std::string &name, uint32_t least, uint32_t most) {
        std::vector<uint32_t> wanted(THREADS);
        uint32_t random = 1;
        for (auto &size : wanted) {
            random = random * 1664525 + 1013904223;
            size = least + (random >> 8) % (most - least + 1);
        }
        check(cudaMemcpy(sizes, wanted.data(), THREADS * sizeof(uint32_t), cudaMemcpyHostToDevice));
        for (auto &each : times) {
            each.clear();
        }
        check_contents();
        for (uint32_t number = 0; number < WARM + LAUNCHES; ++number) {
            round<Call::Malloc>(number >= WARM);
            round<Call::Calloc>(number >= WARM);
            round<Call::Aligned>(number >= WARM);
        }
        for (int call = 0; call < 5; ++call) {
            std::sort(times[call].begin(), times[call].end());
            std::printf("%s,%s,%u,%u,%s,%.2f\n", least == most ? "uniform" : "mixed", name.c_str(), most, THREADS,
                        NAMES[call], times[call][times[call].size() / 2]);
        }
    }
};

int main(int, char **arguments) {
    scatterheap::Heap heap("16GiB", "cuda:0");
    Bench bench{heap, nullptr, nullptr, {}, {}, {}};
    check(cudaMalloc(&bench.blocks, THREADS * sizeof(void *)));
    check(cudaMalloc(&bench.sizes, THREADS * sizeof(uint32_t)));
    check(cudaEventCreate(&bench.begin));
    check(cudaEventCreate(&bench.end));
    const std::string name = arguments[1] != nullptr ? arguments[1] : "linked";
    for (uint32_t size : {16u, 64u, 256u}) {
        bench.run(name, size, size);
    }
    bench.run(name, 16, 64);
    bench.run(name, 16, 512);
    bench.run(name, 1, 2000);
    const scatterheap_occupancy occupancy = heap.snapshot();
    if (occupancy.failures != 0 || occupancy.used_blocks != 0 || occupancy.misuses != 0) {
        std::fprintf(stderr, "%" PRIu64 " requests failed, %" PRIu64 " blocks were lost, %" PRIu64 " frees were refused\n", occupancy.failures,
                     occupancy.used_blocks, occupancy.misuses);
        return 1;
    }
}
