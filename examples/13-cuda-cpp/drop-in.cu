// A program that uses malloc and free in kernels: every thread makes a list of its own length, with a block for each
// entry, and ends it. With WITH_SCATTERHEAP it is the same program but for an include and a line of the host.
//
//   drop-in [THREADS] [MILLISECONDS]    the second is what the other one took: prints the ratio

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#ifdef WITH_SCATTERHEAP
#include <scatterheap/heap.hpp>
#include <scatterheap/replace_malloc.cuh>
#endif

struct Entry {
    Entry *next;
    unsigned value;
};

constexpr unsigned LONGEST = 8;

__global__ void make_lists(Entry **lists, unsigned threads, unsigned *failures) {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= threads) {
        return;
    }
    Entry *list = nullptr;
    for (unsigned count = 0; count <= index % LONGEST; ++count) {
        auto *entry = static_cast<Entry *>(malloc(sizeof(Entry)));
        if (entry == nullptr) {
            atomicAdd(failures, 1);
            break;
        }
        *entry = {list, index + count};
        list = entry;
    }
    lists[index] = list;
}

__global__ void end_lists(Entry **lists, unsigned threads, unsigned *failures) {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= threads) {
        return;
    }
    unsigned expected = index + index % LONGEST;
    for (Entry *entry = lists[index]; entry != nullptr; --expected) {
        if (entry->value != expected) {
            atomicAdd(failures, 1);
        }
        Entry *next = entry->next;
        free(entry);
        entry = next;
    }
    if (expected + 1 != index) {
        atomicAdd(failures, 1);
    }
}

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "error: %s\n", cudaGetErrorString(status));
        std::exit(1);
    }
}

int main(int count, char **arguments) try {
    const long threads = count > 1 ? std::atol(arguments[1]) : 65536;
    if (threads < 1 || threads > 1 << 24) {
        std::fprintf(stderr, "error: `%s` is no number of threads from 1 to %d\n", arguments[1], 1 << 24);
        return 1;
    }
    const unsigned total = static_cast<unsigned>(threads), dim = 256, grid = (total + dim - 1) / dim;

#ifdef WITH_SCATTERHEAP
    scatterheap::BoundHeap heap("1GiB");
#else
    check(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 30));
#endif

    Entry **lists = nullptr;
    unsigned *failures = nullptr, failed = 0;
    check(cudaMalloc(&lists, total * sizeof *lists));
    check(cudaMalloc(&failures, sizeof *failures));
    check(cudaMemset(failures, 0, sizeof *failures));
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<float> times;
    // The first round makes everything ready, and is not counted.
    for (int round = 0; round < 6; ++round) {
        check(cudaEventRecord(begin));
        make_lists<<<grid, dim>>>(lists, total, failures);
        end_lists<<<grid, dim>>>(lists, total, failures);
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        check(cudaGetLastError());
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        if (round > 0) {
            times.push_back(milliseconds);
        }
    }
    check(cudaMemcpy(&failed, failures, sizeof failed, cudaMemcpyDeviceToHost));
    std::sort(times.begin(), times.end());
    const float median = times[times.size() / 2];
    std::printf("%u threads made and ended %u lists: %.4f ms, %u failures\n", total, total, median, failed);
    if (count > 2) {
        std::printf("%.1f times as fast as the other, which took %s ms\n", std::atof(arguments[2]) / median, arguments[2]);
    }
    return failed == 0 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
