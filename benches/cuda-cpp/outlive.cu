// What blocks that outlive bursts keep from other sizes: seven sizes, six launches each of 2^20 blocks in a heap of 16 GiB, of which one in 1,009 lives on; then
// launches of 5 KiB, 5 GiB at once. Tells how many requests got NULL, how many blocks did not keep their content, and what is left once all is freed.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -rdc=true -maxrregcount=64 -I include -I . outlive.cu scatterheap.cu X.o -L lib -lscatterheap -o outlive

#include <scatterheap/heap.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

using Handle = scatterheap_handle;
using Count = unsigned long long;

constexpr uint32_t THREADS = 1 << 20, BLOCK = 256, KEEP = 1009, KEPT = (THREADS + KEEP - 1) / KEEP;
constexpr int BURSTS = 6, LAUNCHES = 7;

// Each thread allocates a block and writes its first and last eight bytes.
__global__ void allocate(const __grid_constant__ Handle heap, uint64_t **blocks, size_t bytes, Count *nulls) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    auto *block = static_cast<uint64_t *>(scatterheap_malloc(&heap, bytes));
    blocks[index] = block;
    if (block != nullptr) {
        block[0] = uint64_t(block) ^ 77;
        block[bytes / 8 - 1] = uint64_t(block) ^ 78;
    } else {
        atomicAdd(nulls, 1ull);
    }
}

// Each thread verifies its block and frees it, but that every so many keep theirs, if any do.
__global__ void release(const __grid_constant__ Handle heap, uint64_t **blocks, size_t bytes, uint32_t keep, uint64_t **kept, Count *faults) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    auto *block = blocks[index];
    const bool keeps = keep != 0 && index % keep == 0;
    if (keeps) {
        kept[index / keep] = block;
    }
    if (block == nullptr) {
        return;
    }
    if (block[bytes / 8 - 1] != (uint64_t(block) ^ 78) || block[0] != (uint64_t(block) ^ 77)) {
        atomicAdd(faults, 1ull);
    }
    if (!keeps) {
        scatterheap_free(&heap, block);
    }
}

int main() {
    scatterheap::Heap heap("16GiB", "cuda:0");
    uint64_t **blocks = nullptr, **kept = nullptr;
    Count *counts = nullptr;
    cudaMalloc(&blocks, THREADS * sizeof *blocks);
    cudaMalloc(&kept, size_t(KEPT) * sizeof *kept * 64);
    cudaMallocManaged(&counts, 2 * sizeof *counts);
    counts[0] = counts[1] = 0;
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<size_t> sizes;
    for (const size_t bytes : {192, 384, 512, 768, 1024, 1536, 2048}) {
        for (int burst = 0; burst < BURSTS; ++burst) {
            allocate<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, bytes, counts);
            release<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, bytes, KEEP, kept + size_t(KEPT) * sizes.size(), counts + 1);
            sizes.push_back(bytes);
        }
        cudaDeviceSynchronize();
        std::printf("%zu B: nulls %llu faults %llu free pages %llu\n", bytes, counts[0], counts[1], Count(heap.snapshot().free_pages));
    }
    for (int launch = 0; launch < LAUNCHES; ++launch) {
        cudaEventRecord(begin);
        allocate<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, 5120, counts);
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        float milliseconds = 0;
        cudaEventElapsedTime(&milliseconds, begin, end);
        release<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, 5120, 0, kept, counts + 1);
        cudaDeviceSynchronize();
        std::printf("5120 B: %.3f ms nulls %llu faults %llu\n", milliseconds, counts[0], counts[1]);
    }
    for (size_t burst = 0; burst < sizes.size(); ++burst) {
        cudaMemset(blocks, 0, THREADS * sizeof *blocks);
        cudaMemcpy(blocks, kept + KEPT * burst, KEPT * sizeof *blocks, cudaMemcpyDeviceToDevice);
        release<<<THREADS / BLOCK, BLOCK>>>(heap.handle(), blocks, sizes[burst], 0, kept, counts + 1);
    }
    cudaDeviceSynchronize();
    const scatterheap_occupancy left = heap.snapshot();
    std::printf("end: nulls %llu faults %llu used %llu misuses %llu free %llu largest %llu error %s\n", counts[0], counts[1], Count(left.used_blocks),
                Count(left.misuses), Count(left.free_pages), Count(left.largest_request), cudaGetErrorString(cudaGetLastError()));
    return counts[0] != 0 || counts[1] != 0 || left.used_blocks != 0;
}
