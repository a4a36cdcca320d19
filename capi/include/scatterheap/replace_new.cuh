/* Replaces new and delete in kernels by those of the bound heap (scatterheap_bind). In code of the host they do what they
 * did. As with CUDA's own, an object is made at NULL, and the kernel faults, if there is no memory; use
 * SCATTERHEAP_NEW_AND_DELETE or `new (&heap) T` where that may be.
 *
 * Include this in each file whose kernels use them. CUDA's manual does not promise that its operators can be replaced;
 * nvcc 13.0 replaces those that a file defines.
 */
#ifndef SCATTERHEAP_REPLACE_NEW_CUH
#define SCATTERHEAP_REPLACE_NEW_CUH

#include <cstdlib>
#include <new>

#include <scatterheap.h>

#ifndef __CUDA_ARCH__
/* Memory of the host at a multiple of `alignment`, which is 0 for what malloc gives; NULL if there is none. */
static inline void *scatterheap_host_memory(size_t bytes, size_t alignment) {
    if (alignment == 0) {
        return (malloc)(bytes == 0 ? 1 : bytes);
    }
    // posix_memalign refuses less.
    const size_t allowed = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    void *block = nullptr;
    return posix_memalign(&block, allowed, bytes == 0 ? 1 : bytes) == 0 ? block : nullptr;
}
#endif

/* The same, of the bound heap in a kernel; of the host as its `new` has to: it throws if there is no memory. */
static inline __host__ __device__ void *scatterheap_replaced_new(size_t bytes, size_t alignment) {
#ifdef __CUDA_ARCH__
    return alignment == 0 ? scatterheap_bound_malloc(bytes) : scatterheap_bound_aligned_alloc(alignment, bytes);
#else
    for (;;) {
        if (void *block = scatterheap_host_memory(bytes, alignment)) {
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
inline __host__ __device__ void *operator new(size_t bytes) { return scatterheap_replaced_new(bytes, 0); }
inline __host__ __device__ void *operator new[](size_t bytes) { return scatterheap_replaced_new(bytes, 0); }
inline __host__ __device__ void operator delete(void *block) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete[](void *block) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete(void *block, size_t) noexcept { scatterheap_replaced_delete(block); }
inline __host__ __device__ void operator delete[](void *block, size_t) noexcept { scatterheap_replaced_delete(block); }
#ifdef __cpp_aligned_new
inline __host__ __device__ void *operator new(size_t bytes, std::align_val_t alignment) {
    return scatterheap_replaced_new(bytes, static_cast<size_t>(alignment));
}
inline __host__ __device__ void *operator new[](size_t bytes, std::align_val_t alignment) {
    return scatterheap_replaced_new(bytes, static_cast<size_t>(alignment));
}
inline __host__ __device__ void operator delete(void *block, std::align_val_t) noexcept {
    scatterheap_replaced_delete(block);
}
inline __host__ __device__ void operator delete[](void *block, std::align_val_t) noexcept {
    scatterheap_replaced_delete(block);
}
inline __host__ __device__ void operator delete(void *block, size_t, std::align_val_t) noexcept {
    scatterheap_replaced_delete(block);
}
inline __host__ __device__ void operator delete[](void *block, size_t, std::align_val_t) noexcept {
    scatterheap_replaced_delete(block);
}
#endif
#pragma nv_diagnostic pop

#endif
