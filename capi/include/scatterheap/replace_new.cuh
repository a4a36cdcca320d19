/* Replaces new and delete in kernels by those of the bound heap (scatterheap_bind). In code of the host they do what they
 * did. As with CUDA's own, an object is made at NULL, and the kernel faults, if there is no memory; use
 * SCATTERHEAP_NEW_AND_DELETE or `new (&heap) T` where that may be.
 *
 * Include this in each file whose kernels use them. CUDA's manual does not promise that its operators can be replaced;
 * nvcc 13.0 replaces those that a file defines. `new` of types that are aligned to more than 16 bytes stays CUDA's.
 */
#ifndef SCATTERHEAP_REPLACE_NEW_CUH
#define SCATTERHEAP_REPLACE_NEW_CUH

#include <cstdlib>
#include <new>

#include <scatterheap.h>

static inline __host__ __device__ void *scatterheap_replaced_new(size_t bytes) {
#ifdef __CUDA_ARCH__
    return scatterheap_bound_malloc(bytes);
#else
    for (;;) {
        if (void *block = (malloc)(bytes == 0 ? 1 : bytes)) {
            return block;
        }
        std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            throw std::bad_alloc();
        }
        handler();
    }
#endif
}

static inline __host__ __device__ void scatterheap_replaced_delete(void *block) noexcept {
#ifdef __CUDA_ARCH__
    scatterheap_bound_free(block);
#else
    (free)(block);
#endif
}

// Each file needs its own, or nvcc would not replace them there.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 2620
inline __host__ __device__ void *operator new(size_t bytes) { return scatterheap_replaced_new(bytes); }
inline __host__ __device__ void *operator new[](size_t bytes) { return scatterheap_replaced_new(bytes); }
inline __host__ __device__ void operator delete(void *block) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete[](void *block) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete(void *block, size_t) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete[](void *block, size_t) noexcept { scatterheap_replaced_delete(block); }
#pragma nv_diagnostic pop

#endif
