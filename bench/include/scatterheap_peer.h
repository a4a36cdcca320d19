/* The plug-in interface of `scatterheap bench`.
 *
 * A plug-in makes another device allocator take part in the benchmark. It is a shared library that
 * exports the nine functions below with C linkage. `scatterheap bench --peer ./libname.so` loads it in
 * a process of its own, and calls the functions from one thread, one at a time.
 *
 * docs/benchmark-peers.md shows a complete plug-in and how to build it.
 *
 * Words:
 *   device     What runs the kernels: a GPU, or the CPU. On a GPU, the device's primary context is
 *              current in the calling thread, so calls of the CUDA runtime simply work. On the CPU there
 *              are no streams, and a pointer to device memory is an ordinary pointer.
 *   d_...      A pointer to device memory. The host must not follow it, unless the device is the CPU.
 *   stream     A CUstream (the same as a cudaStream_t): launch on it. The benchmark passes NULL, the
 *              default stream. Do not wait for it: the benchmark puts events before and after the call.
 *   result     0 if all went well. Anything else is an error: a cudaError_t, a CUresult or a number of
 *              your own. The benchmark then reports the case as failed, with that number.
 *   block      What the allocator hands out: NULL if nothing is left, else aligned to 16 bytes, as long as was asked
 *              for, and nobody else's until it is freed.
 *   block_dim  Threads in a thread block of the launch. Launch enough thread blocks for n threads.
 */
#ifndef SCATTERHEAP_PEER_H
#define SCATTERHEAP_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The allocator's name in tables: 1 to 16 of the characters a-z, 0-9 and _. Not `floor`, `scatterheap`,
 * `cuda`, `system`, `two_pass` or `packed`, which have a meaning. The text must stay valid. May be called
 * at any time, before peer_init as well. */
const char *peer_name(void);

/* Makes an empty heap from which heap_bytes bytes can be allocated, and returns when it is usable. The
 * time that this takes is the test `init`. Called again only after peer_destroy. */
int peer_init(size_t heap_bytes);

/* Thread i, for each i < n, allocates a block and stores its address in d_ptrs[i]. It asks for d_sizes[i]
 * bytes; if d_sizes is NULL, for `size` bytes. With d_sizes, `size` is the largest of them. */
int peer_alloc(void **d_ptrs, const uint32_t *d_sizes, uint32_t size, uint32_t n, uint32_t block_dim,
               void *stream);

/* Thread i, for each i < n, frees the block d_ptrs[i], unless that is NULL. The blocks may come in another
 * order, and from other launches, than they were allocated in. */
int peer_free(void **d_ptrs, uint32_t n, uint32_t block_dim, void *stream);

/* Lane 0 of warp w, for each w < n_warps, allocates a block of `size` bytes and stores its address in
 * d_ptrs[w]. The other lanes of each warp do nothing. */
int peer_alloc_warp(void **d_ptrs, uint32_t size, uint32_t n_warps, void *stream);

/* Lane 0 of warp w, for each w < n_warps, frees the block d_ptrs[w], unless that is NULL. */
int peer_free_warp(void **d_ptrs, uint32_t n_warps, void *stream);

/* Each of n_threads threads repeats this `iterations` times: allocate a block of size_min to size_max
 * bytes, write all of it, read all of it back, free it. Sizes are drawn by any generator that is
 * started from `seed`, the thread's index and the iteration. d_fail has two counters, zeroed by the
 * benchmark: add 1 to d_fail[0] for each NULL, and 1 to d_fail[1] for each block that read back something
 * else than was written. */
int peer_churn(uint32_t size_min, uint32_t size_max, uint32_t n_threads, uint32_t iterations, uint32_t seed,
               uint32_t *d_fail, void *stream);

/* Called between measurements, when all blocks are free again: a chance to tidy up. Return 0 if there is
 * nothing to do. */
int peer_reset(void *stream);

/* Gives back all that peer_init and later calls took from the device. */
void peer_destroy(void);

#ifdef __cplusplus
}
#endif

#endif
