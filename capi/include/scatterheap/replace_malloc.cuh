/* Replaces malloc, free, calloc and realloc in kernels by those of the bound heap (scatterheap_bind). In code of the
 * host they stay what they were.
 *
 * Include this in each file whose kernels call them, after all other headers. They are macros, so names that something
 * else has, as in `pool.free(block)`, need brackets: `(pool.free)(block)`; and `std::malloc` becomes `malloc`. All files
 * whose kernels pass blocks to each other must include it, or none: the heaps do not know each other's blocks.
 */
#ifndef SCATTERHEAP_REPLACE_MALLOC_CUH
#define SCATTERHEAP_REPLACE_MALLOC_CUH

#include <cstdlib>

#include <scatterheap.h>

static inline __host__ __device__ void *scatterheap_replaced_malloc(size_t bytes) {
#ifdef __CUDA_ARCH__
    return scatterheap_bound_malloc(bytes);
#else
    return malloc(bytes);
#endif
}

static inline __host__ __device__ void *scatterheap_replaced_calloc(size_t count, size_t bytes) {
#ifdef __CUDA_ARCH__
    return scatterheap_bound_calloc(count, bytes);
#else
    return calloc(count, bytes);
#endif
}

static inline __host__ __device__ void *scatterheap_replaced_realloc(void *block, size_t bytes) {
#ifdef __CUDA_ARCH__
    return scatterheap_bound_realloc(block, bytes);
#else
    return realloc(block, bytes);
#endif
}

static inline __host__ __device__ void scatterheap_replaced_free(void *block) {
#ifdef __CUDA_ARCH__
    scatterheap_bound_free(block);
#else
    free(block);
#endif
}

#define malloc(bytes) scatterheap_replaced_malloc(bytes)
#define calloc(count, bytes) scatterheap_replaced_calloc(count, bytes)
#define realloc(block, bytes) scatterheap_replaced_realloc(block, bytes)
#define free(block) scatterheap_replaced_free(block)

#endif
