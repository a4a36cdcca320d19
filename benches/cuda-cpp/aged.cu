// Shows when the warps of a launch begin and end in an aged heap. 70 % of 16 GiB is filled with blocks of 16 to 8192 bytes, of which a quarter is replaced seven times; then launches
// allocate 2 GiB or so at once and free it. Of the last launch of each size, which reads the clock and is a little slower, it prints, for twentieths of its time, how many warps began,
// ended and were in malloc, and how many threads returned from it; and how many warps took how long. NULLs and faults are those of all launches until then.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -rdc=true -maxrregcount=32 -I include aged.cu scatterheap.cu X.o -L lib -lscatterheap -o aged
//     ./aged [SEED]

#include <scatterheap/heap.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

using Handle = scatterheap_handle;
using Count = unsigned long long;

constexpr uint64_t CAPACITY = 16ull << 30;
constexpr uint32_t BLOCK = 256, WARP = 32, MOST_THREADS = 1 << 20, PARTS = 20;
constexpr int REPLACEMENTS = 7, LAUNCHES = 12;

struct Sizes {
    uint32_t least, most;
};

// Which blocks a launch of `threads` is about: those `step` apart, from `first` on, round `count` of them.
struct Places {
    uint32_t threads, step, first, count;

    __device__ uint32_t of(uint32_t thread) const { return (uint64_t(thread) * step + first) % count; }
};

// When a thread called malloc, and when it returned, in nanoseconds.
struct Times {
    uint64_t begin, end;
};

__host__ __device__ uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ uint32_t size_of(Sizes sizes, uint32_t thread, uint32_t seed) {
    const uint64_t chance = mix(thread * 2654435761u ^ mix(seed));
    return sizes.least + uint32_t(chance * (sizes.most - sizes.least + 1) >> 32);
}

__device__ uint64_t now() {
    uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

__global__ void allocate(const __grid_constant__ Handle heap, void **blocks, Places places, Sizes sizes, uint32_t seed, Count *nulls, Times *times) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= places.threads) {
        return;
    }
    const uint64_t begin = now();
    auto *block = static_cast<uint64_t *>(scatterheap_malloc(&heap, size_of(sizes, thread, seed)));
    if (times != nullptr) {
        times[thread] = {begin, now()};
    }
    blocks[places.of(thread)] = block;
    if (block != nullptr) {
        *block = uint64_t(block);
    } else {
        atomicAdd(nulls, 1ull);
    }
}

__global__ void release(const __grid_constant__ Handle heap, void **blocks, Places places, Count *faults) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= places.threads) {
        return;
    }
    auto *block = static_cast<uint64_t *>(blocks[places.of(thread)]);
    if (block != nullptr) {
        if (*block != uint64_t(block)) {
            atomicAdd(faults, 1ull);
        }
        scatterheap_free(&heap, block);
    }
}

void show(const std::vector<Times> &times) {
    const auto earlier = [](const Times &a, const Times &b) { return a.begin < b.begin; };
    const auto sooner = [](const Times &a, const Times &b) { return a.end < b.end; };
    const uint64_t begin = std::min_element(times.begin(), times.end(), earlier)->begin;
    const uint64_t end = std::max_element(times.begin(), times.end(), sooner)->end;
    const auto part = [&](uint64_t time) { return uint32_t((time - begin) * PARTS / (end - begin + 1)); };
    std::vector<uint32_t> begun(PARTS), ended(PARTS), inside(PARTS), threads(PARTS), by_time(64);
    for (size_t first = 0; first < times.size(); first += WARP) {
        const auto from = times.begin() + first, to = from + WARP;
        const uint64_t warp_begin = std::min_element(from, to, earlier)->begin, warp_end = std::max_element(from, to, sooner)->end;
        std::for_each(from, to, [&](const Times &thread) { ++threads[part(thread.end)]; });
        ++begun[part(warp_begin)];
        ++ended[part(warp_end)];
        for (uint32_t place = part(warp_begin); place <= part(warp_end); ++place) {
            ++inside[place];
        }
        uint32_t log2 = 0;
        while (1ull << log2 < warp_end - warp_begin) {
            ++log2;
        }
        ++by_time[log2];
    }
    std::printf("  %.3f ms; warps begun, ended, in malloc, threads served, in each twentieth:\n", double(end - begin) / 1e6);
    for (uint32_t place = 0; place < PARTS; ++place) {
        std::printf("  %6u %6u %6u %8u\n", begun[place], ended[place], inside[place], threads[place]);
    }
    std::printf("  warps that took up to 2^n ns:");
    for (size_t log2 = 0; log2 < by_time.size(); ++log2) {
        if (by_time[log2] != 0) {
            std::printf(" %zu: %u", log2, by_time[log2]);
        }
    }
    std::printf("\n");
}

int main(int argc, char **argv) {
    scatterheap::Heap heap("16GiB", "cuda:0");
    uint32_t seed = argc > 1 ? uint32_t(std::atoi(argv[1])) : 1;
    const Sizes all = {16, 8192};
    const uint32_t kept_count = uint32_t(CAPACITY / 10 * 7 / ((all.least + all.most) / 2) / (4 * BLOCK) * (4 * BLOCK));
    void **kept = nullptr, **blocks = nullptr;
    Times *times = nullptr;
    Count *counts = nullptr;
    cudaMalloc(&kept, kept_count * sizeof *kept);
    cudaMalloc(&blocks, MOST_THREADS * sizeof *blocks);
    cudaMalloc(&times, MOST_THREADS * sizeof *times);
    cudaMallocManaged(&counts, 2 * sizeof *counts);
    counts[0] = counts[1] = 0;
    allocate<<<kept_count / BLOCK, BLOCK>>>(heap.handle(), kept, {kept_count, 1, 0, kept_count}, all, seed, counts, nullptr);
    for (int turn = 0; turn < REPLACEMENTS; ++turn) {
        uint32_t step = mix(++seed) % kept_count | 1;
        while (std::gcd(step, kept_count) != 1) {
            step += 2;
        }
        const Places quarter = {kept_count / 4, step, mix(~seed) % kept_count, kept_count};
        release<<<quarter.threads / BLOCK, BLOCK>>>(heap.handle(), kept, quarter, counts + 1);
        allocate<<<quarter.threads / BLOCK, BLOCK>>>(heap.handle(), kept, quarter, all, seed, counts, nullptr);
    }
    cudaDeviceSynchronize();
    std::printf("aged: nulls %llu faults %llu free pages %llu\n", counts[0], counts[1], Count(heap.snapshot().free_pages));
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    const struct {
        Sizes sizes;
        uint32_t threads;
    } cases[] = {{{2048, 2048}, 1 << 20}, {{4096, 4096}, 1 << 19}, {{8192, 8192}, 1 << 18}, {{16, 512}, 1 << 20}, {{16, 4096}, 1 << 20}, {{16, 8192}, 1 << 19}};
    for (const auto &[sizes, threads] : cases) {
        const Places places = {threads, 1, 0, threads};
        std::vector<float> took(LAUNCHES);
        Count free_inside = 0;
        for (float &milliseconds : took) {
            const bool is_last = &milliseconds == &took.back();
            cudaEventRecord(begin);
            allocate<<<threads / BLOCK, BLOCK>>>(heap.handle(), blocks, places, sizes, seed, counts, is_last ? times : nullptr);
            cudaEventRecord(end);
            cudaEventSynchronize(end);
            cudaEventElapsedTime(&milliseconds, begin, end);
            free_inside = Count(heap.snapshot().free_pages);
            release<<<threads / BLOCK, BLOCK>>>(heap.handle(), blocks, places, counts + 1);
            cudaDeviceSynchronize();
        }
        std::sort(took.begin(), took.end());
        std::printf("%u to %u B, %u threads: median %.3f ms, nulls %llu faults %llu, free pages %llu and %llu\n", sizes.least, sizes.most, threads, took[LAUNCHES / 2],
                    counts[0], counts[1], free_inside, Count(heap.snapshot().free_pages));
        std::vector<Times> of_threads(threads);
        cudaMemcpy(of_threads.data(), times, threads * sizeof(Times), cudaMemcpyDeviceToHost);
        show(of_threads);
    }
    const cudaError_t error = cudaGetLastError();
    std::printf("%s\n", cudaGetErrorString(error));
    return error != cudaSuccess || counts[0] != 0 || counts[1] != 0;
}
