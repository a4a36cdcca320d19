/* What kernels in CUDA C++ call. scatterheap.h includes this where nvcc compiles.
 *
 * Functions take the address of a handle first, which the host gets by scatterheap_heap_handle. It may lie in any memory
 * that the thread can read. Give it to kernels as `const __grid_constant__ scatterheap_handle heap`: then `&heap` is the
 * address of the kernel's argument, where without `__grid_constant__` each thread would make a copy on its stack. Or
 * bind a heap once, by scatterheap_bind, and call the functions with `bound` in their names.
 *
 * Lanes of a warp may call in any divergence; those that call together share the work. Blocks are aligned to 16 bytes,
 * last until they are freed, also beyond the kernel, and any thread of the device may use and free them. cudaMemcpy and
 * cudaMemset take their addresses. NULL means that nothing fitting is left, which the heap counts.
 *
 * A pointer that a thread of the same launch is to use must be handed over by release and acquire.
 *
 * Define SCATTERHEAP_INLINE before the first include and scatterheap_malloc and scatterheap_free become a part of the
 * kernels that call them: some 700 and 1,200 instructions for each call, and no registers to save. See docs/cuda-cpp.md.
 */
#ifndef SCATTERHEAP_DEVICE_CUH
#define SCATTERHEAP_DEVICE_CUH

#include <scatterheap.h>
#include <scatterheap/layout.h>

#include <new>
#include <type_traits>

#include <cuda_runtime_api.h>

extern "C" {

/* Allocates `bytes` bytes; NULL for none. */
__device__ void *scatterheap_malloc(const scatterheap_handle *heap, size_t bytes);

/* The same, for a site of the program, a number of the caller's choosing: in a heap with harden=tags the host groups blocks by
 * it (scatterheap_heap_leaks). */
__device__ void *scatterheap_malloc_tagged(const scatterheap_handle *heap, size_t bytes, unsigned int site);

/* Allocates `count` times `bytes` bytes of zeroes. */
__device__ void *scatterheap_calloc(const scatterheap_handle *heap, size_t count, size_t bytes);

/* Makes a block `bytes` bytes large, somewhere else if need be; if there is no room, gives NULL and leaves it as it is.
 * NULL as a block is allocated anew; no bytes free it. */
__device__ void *scatterheap_realloc(const scatterheap_handle *heap, void *block, size_t bytes);

/* Allocates `bytes` bytes at a multiple of `alignment`, a power of two. */
__device__ void *scatterheap_aligned_alloc(const scatterheap_handle *heap, size_t alignment, size_t bytes);

/* Frees a block; nothing for NULL. What is no live block of this heap is refused and counted. */
__device__ void scatterheap_free(const scatterheap_handle *heap, void *block);

/* Bytes of a block that may be used: as many as were asked for, at least. */
__device__ size_t scatterheap_usable_size(const scatterheap_handle *heap, const void *block);

/* The heap that scatterheap_bind named, on each device. Defined in share/scatterheap/scatterheap.cu, which is built
 * into the program. */
extern __constant__ scatterheap_handle scatterheap_bound;

/* Makes a heap the bound one of the current device, for launches from now on; NULL unbinds. Call it again after a reset.
 * cudaErrorInvalidValue means that the heap has no handle for that device, and scatterheap_last_error() says why. */
cudaError_t scatterheap_bind(scatterheap_heap *heap);

/* The library has this if it is of the sources that the device functions are of: it lays out what they read. */
extern const unsigned char SCATTERHEAP_LAYOUT;
}

/* Asks for it from each file that may have kernels, so that a program does not start with another library. Not by a
 * variable: the linker may leave out one that nothing reads. */
static __attribute__((constructor)) void scatterheap_ask_for_layout() {
    const volatile unsigned char *const volatile asked = &SCATTERHEAP_LAYOUT;
    static_cast<void>(asked);
}

#ifdef SCATTERHEAP_INLINE
#include <scatterheap/inline.cuh>
#define scatterheap_malloc(heap, bytes) scatterheap_inline_malloc(heap, bytes)
#define scatterheap_free(heap, block) scatterheap_inline_free(heap, block)
#endif

/* ------------------------------------------------------------------ the bound heap; NULL where none is */

static inline __device__ bool scatterheap_is_bound() {
    return scatterheap_bound.words[0] != 0;
}

static inline __device__ void *scatterheap_bound_malloc(size_t bytes) {
    return scatterheap_is_bound() ? scatterheap_malloc(&scatterheap_bound, bytes) : nullptr;
}

static inline __device__ void *scatterheap_bound_calloc(size_t count, size_t bytes) {
    return scatterheap_is_bound() ? scatterheap_calloc(&scatterheap_bound, count, bytes) : nullptr;
}

static inline __device__ void *scatterheap_bound_realloc(void *block, size_t bytes) {
    return scatterheap_is_bound() ? scatterheap_realloc(&scatterheap_bound, block, bytes) : nullptr;
}

static inline __device__ void *scatterheap_bound_aligned_alloc(size_t alignment, size_t bytes) {
    return scatterheap_is_bound() ? scatterheap_aligned_alloc(&scatterheap_bound, alignment, bytes) : nullptr;
}

static inline __device__ void scatterheap_bound_free(void *block) {
    if (scatterheap_is_bound()) {
        scatterheap_free(&scatterheap_bound, block);
    }
}

/* ------------------------------------------------------------------ one block for a warp */

/* The same mask, but ptxas does not take it for the same in all lanes that execute an instruction together, as it does with
 * that of __activemask(): lanes of several groups may, and then some would wait for mates that have gone on. */
static inline __device__ unsigned int scatterheap_own_mask(unsigned int mask) {
    if (mask == 0xffffffffu) {
        return mask;
    }
    unsigned int own;
    asm volatile("{ .reg .b32 lane; mov.u32 lane, %%lanemask_eq; or.b32 %0, %1, lane; }" : "=r"(own) : "r"(mask));
    return own;
}

/* Allocates one block for the lanes of `mask`, which all call this with the same mask and heap; the lowest lane's size
 * counts. All get its address. */
static inline __device__ void *scatterheap_warp_malloc(const scatterheap_handle *heap, size_t bytes,
                                                       unsigned int mask = 0xffffffffu) {
    mask = scatterheap_own_mask(mask);
    const int leader = __ffs(static_cast<int>(mask)) - 1;
    unsigned int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    unsigned long long block = 0;
    if (static_cast<int>(lane) == leader) {
        block = reinterpret_cast<unsigned long long>(scatterheap_malloc(heap, bytes));
    }
    return reinterpret_cast<void *>(__shfl_sync(mask, block, leader));
}

/* Frees the block of a warp, once all lanes of `mask` are here and what they did to it is done. */
static inline __device__ void scatterheap_warp_free(const scatterheap_handle *heap, void *block,
                                                    unsigned int mask = 0xffffffffu) {
    mask = scatterheap_own_mask(mask);
    const int leader = __ffs(static_cast<int>(mask)) - 1;
    unsigned int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    __syncwarp(mask);
    if (static_cast<int>(lane) == leader) {
        scatterheap_free(heap, block);
    }
}

/* ------------------------------------------------------------------ new and delete */

/* `new (&heap) T(...)`: gives NULL, and makes no T, if there is no memory. A T that is aligned to more than 16 bytes needs
 * C++17: before, a compiler does not tell of the alignment. */
inline __device__ void *operator new(size_t bytes, const scatterheap_handle *heap) noexcept {
    return scatterheap_malloc(heap, bytes);
}

inline __device__ void operator delete(void *block, const scatterheap_handle *heap) noexcept {
    scatterheap_free(heap, block);
}

#ifdef __cpp_aligned_new
// Templates, for which no argument is converted. g++ takes a function for `::new (pointer) T` of an aligned T too, if the
// pointer is a `void *`, and then refuses the conversion: containers of the host would not compile.
template <typename Handle>
using scatterheap_if_handle = std::enable_if_t<std::is_same<Handle, scatterheap_handle>::value>;

template <typename Handle, typename = scatterheap_if_handle<Handle>>
inline __device__ void *operator new(size_t bytes, std::align_val_t alignment, const Handle *heap) noexcept {
    return scatterheap_aligned_alloc(heap, static_cast<size_t>(alignment), bytes);
}

template <typename Handle, typename = scatterheap_if_handle<Handle>>
inline __device__ void operator delete(void *block, std::align_val_t, const Handle *heap) noexcept {
    scatterheap_free(heap, block);
}
#endif

/* `new (&heap) T[n]` is not there, since nobody could end it: where T has a destructor the address that it gives is not that of
 * the block. Use scatterheap_new_array. */
__device__ void *operator new[](size_t bytes, const scatterheap_handle *heap) = delete;

/* Ends what `new (&heap) T(...)` made. Nothing for NULL. It takes the pointer that `new` gave, of the type that was made: a base
 * that lies elsewhere in the object is at no block's address, and the free is refused and counted. */
template <typename T>
static inline __device__ void scatterheap_delete(const scatterheap_handle *heap, T *object) {
#ifndef __cpp_aligned_new
    static_assert(alignof(T) <= 16, "`new (&heap) T` of a T aligned to more than 16 bytes gives less before C++17: compile with "
                                    "-std=c++17, or use scatterheap_aligned_alloc and scatterheap_free");
#endif
    if (object != nullptr) {
        object->~T();
        scatterheap_free(heap, const_cast<void *>(static_cast<const volatile void *>(object)));
    }
}

/* Makes `count` objects side by side, as `new T[count]` does; gives NULL, and makes none, if there is no memory or `count` is
 * 0. T may be aligned to anything. */
template <typename T>
static inline __device__ T *scatterheap_new_array(const scatterheap_handle *heap, size_t count) {
    const size_t most = static_cast<size_t>(-1);
    // More than any heap has, if that is no number: then the heap counts the failure.
    const size_t bytes = count > most / sizeof(T) ? most : count * sizeof(T);
    T *first = static_cast<T *>(alignof(T) <= 16 ? scatterheap_malloc(heap, bytes)
                                                 : scatterheap_aligned_alloc(heap, alignof(T), bytes));
    for (size_t index = 0; first != nullptr && index < count; ++index) {
        ::new (static_cast<void *>(first + index)) T;
    }
    return first;
}

/* Ends the `count` objects that scatterheap_new_array made, the last one first. Nothing for NULL. */
template <typename T>
static inline __device__ void scatterheap_delete_array(const scatterheap_handle *heap, T *first, size_t count) {
    for (size_t index = count; first != nullptr && index > 0; --index) {
        first[index - 1].~T();
    }
    scatterheap_free(heap, const_cast<void *>(static_cast<const volatile void *>(first)));
}

/* In a class: `new` and `delete` of it, in kernels, use the bound heap. `new` gives NULL, and makes no object, if there
 * is no memory. A class that is aligned to more than 16 bytes needs C++17 here too. */
#define SCATTERHEAP_NEW_AND_DELETE                                                                                     \
    static __device__ void *operator new(size_t bytes) noexcept { return scatterheap_bound_malloc(bytes); }            \
    static __device__ void *operator new[](size_t bytes) noexcept { return scatterheap_bound_malloc(bytes); }          \
    static __device__ void operator delete(void *block) noexcept { scatterheap_bound_free(block); }                    \
    static __device__ void operator delete[](void *block) noexcept { scatterheap_bound_free(block); }                  \
    SCATTERHEAP_ALIGNED_NEW_AND_DELETE

#ifdef __cpp_aligned_new
#define SCATTERHEAP_ALIGNED_NEW_AND_DELETE                                                                             \
    static __device__ void *operator new(size_t bytes, std::align_val_t alignment) noexcept {                          \
        return scatterheap_bound_aligned_alloc(static_cast<size_t>(alignment), bytes);                                 \
    }                                                                                                                  \
    static __device__ void *operator new[](size_t bytes, std::align_val_t alignment) noexcept {                        \
        return scatterheap_bound_aligned_alloc(static_cast<size_t>(alignment), bytes);                                 \
    }                                                                                                                  \
    static __device__ void operator delete(void *block, std::align_val_t) noexcept { scatterheap_bound_free(block); }  \
    static __device__ void operator delete[](void *block, std::align_val_t) noexcept { scatterheap_bound_free(block); }
#else
#define SCATTERHEAP_ALIGNED_NEW_AND_DELETE
#endif

#endif
