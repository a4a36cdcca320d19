// scatterheap as a plug-in of `scatterheap bench`, called from CUDA C++ across the link: what that costs beside the
// benchmark's own kernels, into which malloc and free are inlined. With BOUND the heap is the bound one, else the
// kernels take its handle. With SCATTERHEAP_INLINE malloc and free are inlined here too.

#include <scatterheap/heap.hpp>
#include <scatterheap_peer.h>

#include <cstdio>
#include <memory>
#include <string>

#ifdef SCATTERHEAP_INLINE
#define WAY "inlined"
#else
#define WAY "linked"
#endif
#ifndef REGISTERS
#define REGISTERS ""
#endif

#ifdef BOUND
#define NAME "bound_" WAY REGISTERS
#define MALLOC(bytes) scatterheap_bound_malloc(bytes)
#define FREE(block) scatterheap_bound_free(block)
#else
#define NAME WAY REGISTERS
#define MALLOC(bytes) scatterheap_malloc(&heap, bytes)
#define FREE(block) scatterheap_free(&heap, block)
#endif

using Handle = scatterheap_handle;

__global__ void allocate_uniform(const __grid_constant__ Handle heap, void **blocks, uint32_t size, uint32_t n) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n) {
        blocks[index] = MALLOC(size);
    }
}

__global__ void allocate_mixed(const __grid_constant__ Handle heap, void **blocks, const uint32_t *sizes, uint32_t n) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n) {
        blocks[index] = MALLOC(sizes[index]);
    }
}

__global__ void release(const __grid_constant__ Handle heap, void **blocks, uint32_t n) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n) {
        FREE(blocks[index]);
    }
}

__global__ void allocate_of_warps(const __grid_constant__ Handle heap, void **blocks, uint32_t size, uint32_t warps) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index % 32 == 0 && index / 32 < warps) {
        blocks[index / 32] = MALLOC(size);
    }
}

__global__ void release_of_warps(const __grid_constant__ Handle heap, void **blocks, uint32_t warps) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index % 32 == 0 && index / 32 < warps) {
        FREE(blocks[index / 32]);
    }
}

__global__ void churn(const __grid_constant__ Handle heap, uint32_t least, uint32_t most, uint32_t n, uint32_t rounds,
                      uint32_t seed, uint32_t *failures) {
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t random = (seed ^ index * 0x9E3779B9u) | 1;
    for (uint32_t round = 0; index < n && round < rounds; ++round) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        const uint32_t size = least + random % (most - least + 1);
        volatile uint8_t *block = static_cast<uint8_t *>(MALLOC(size));
        if (block == nullptr) {
            atomicAdd(&failures[0], 1);
            continue;
        }
        // Its ends alone: to write all of it would time the memory.
        const auto first = static_cast<uint8_t>(index), last = static_cast<uint8_t>(~index);
        block[0] = first;
        block[size - 1] = last;
        if (block[size - 1] != last || (size > 1 && block[0] != first)) {
            atomicAdd(&failures[1], 1);
        }
        FREE(const_cast<uint8_t *>(block));
    }
}

static std::unique_ptr<scatterheap::Heap> heap;
static Handle handle;

// Gets the handle of the heap as it is now. What is thrown here the caller turns into a result.
static void take_handle() {
    handle = heap->handle();
#ifdef BOUND
    scatterheap::bind(*heap);
#endif
}

template <typename... Parameters, typename... Arguments>
static int launch(void (*kernel)(Parameters...), uint64_t threads, uint32_t dim, void *stream, Arguments... arguments) {
    const auto blocks = static_cast<uint32_t>(threads == 0 ? 1 : (threads + dim - 1) / dim);
    kernel<<<blocks, dim, 0, static_cast<cudaStream_t>(stream)>>>(handle, arguments...);
    return cudaGetLastError();
}

template <typename Body>
static int guarded(Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return cudaErrorUnknown;
    }
}

const char *peer_name(void) { return NAME; }

int peer_init(size_t bytes) {
    return guarded([=] {
        int device = 0;
        cudaGetDevice(&device);
        heap = std::make_unique<scatterheap::Heap>(std::to_string(bytes), "cuda:" + std::to_string(device));
        take_handle();
    });
}

int peer_alloc(void **blocks, const uint32_t *sizes, uint32_t size, uint32_t n, uint32_t dim, void *stream) {
    if (sizes == nullptr) {
        return launch(allocate_uniform, n, dim, stream, blocks, size, n);
    }
    return launch(allocate_mixed, n, dim, stream, blocks, sizes, n);
}

int peer_free(void **blocks, uint32_t n, uint32_t dim, void *stream) {
    return launch(release, n, dim, stream, blocks, n);
}

int peer_alloc_warp(void **blocks, uint32_t size, uint32_t warps, void *stream) {
    return launch(allocate_of_warps, warps * 32ull, 256, stream, blocks, size, warps);
}

int peer_free_warp(void **blocks, uint32_t warps, void *stream) {
    return launch(release_of_warps, warps * 32ull, 256, stream, blocks, warps);
}

int peer_churn(uint32_t least, uint32_t most, uint32_t n, uint32_t rounds, uint32_t seed, uint32_t *failures,
               void *stream) {
    return launch(churn, n, 256, stream, least, most, n, rounds, seed, failures);
}

int peer_reset(void *) {
    return guarded([] {
        heap->reset();
        take_handle();
    });
}

void peer_destroy(void) { heap.reset(); }
