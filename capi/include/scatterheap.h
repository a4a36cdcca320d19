/* scatterheap for C and CUDA C++: heaps that kernels allocate from, and memory resources, which are device memory that
 * the host allocates, in the order of streams.
 *
 * Link with -lscatterheap. The library loads NVIDIA's driver when it is first needed, so programs start on machines
 * without one and can use the CPU. Where nvcc compiles, this header also declares what kernels call
 * (scatterheap/device.cuh); docs/cuda-cpp.md says how to build such programs. They start only with a library of the
 * sources that their device functions are of, for it lays out what those read: the loader says "undefined symbol:
 * scatterheap_layout_..." of another one. What nvcc does not compile may use any.
 *
 * Words:
 *   heap       Memory of one device from which threads of kernels allocate blocks, without the host.
 *   handle     A heap as kernels take it: 88 bytes, copies of which are the same heap.
 *   resource   What hands out memory of one device. All functions may be called from many threads at once.
 *   stream     A CUstream (the same as a cudaStream_t) of the device's primary context, which is that of the CUDA
 *              runtime; NULL is the default stream. It must not be destroyed before the resource. A block is for work
 *              that is enqueued on its stream from the allocation on; when it is deallocated, work on the stream may
 *              still use it. The per-thread default stream (2) is refused. On the CPU, where work is done when the call
 *              that enqueues it returns, streams are any numbers.
 *   failure    Functions that return int return 0, or -1 if they failed. Pointers are NULL and sizes SIZE_MAX then.
 *              scatterheap_last_error() says why. A call that failed has changed nothing but `failures` of the
 *              statistics, unless its text says so.
 *   room       How much a caller's array holds. With no room nothing is written, and the array may be NULL: for who asks
 *              how much there is. NULL with room is a failure.
 *
 * A resource or heap that was destroyed may be named later: that is an error, not undefined. Pointers to such that no
 * function here returned are undefined, as are blocks that are used after they were deallocated.
 */
#ifndef SCATTERHEAP_H
#define SCATTERHEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The alignment of every block, at least. */
#define SCATTERHEAP_ALIGNMENT 256

/* A figure that nothing in a resource's composition counts. */
#define SCATTERHEAP_UNKNOWN UINT64_MAX

typedef struct scatterheap_resource scatterheap_resource;

/* Figures of a resource. Where a composition has several `caching`, `segments` or `buddy`, theirs are added up; of
 * `statistics`, the outermost counts. Of `default` only the cache is asked. */
typedef struct scatterheap_statistics {
    uint64_t live_blocks;        /* blocks that are handed out */
    uint64_t live_bytes;         /* their bytes, as asked for */
    uint64_t allocations;        /* `statistics`: calls that allocated */
    uint64_t deallocations;      /* `statistics`: calls that took a block back */
    uint64_t failures;           /* `statistics`: calls that did neither */
    uint64_t peak_bytes;         /* `statistics`: the most live_bytes so far */
    uint64_t total_bytes;        /* `statistics`: bytes of all allocations */
    uint64_t hits;               /* `caching`: allocations that found a block in their thread's cache */
    uint64_t misses;             /* `caching`: allocations that did not */
    uint64_t kept_bytes;         /* `caching`: bytes that are kept for later */
    uint64_t waits;              /* `caching`, `segments`, `remapping`: how often a stream was made to wait for another */
    uint64_t reserved_bytes;     /* bytes taken from the device */
    uint64_t free_bytes;         /* `segments`, `remapping`, `buddy`, `arena`: bytes of these that are free */
    uint64_t largest_free_bytes; /* the same: bytes of the largest free piece */
    uint64_t free_pieces;        /* `segments`, `remapping`: number of free pieces */
    uint64_t peak_reserved_bytes; /* the most bytes that were taken from the device at once */
} scatterheap_statistics;

/* A place in a segment. */
typedef struct scatterheap_place {
    uint64_t address;
    uint64_t bytes;
    uint32_t is_free;        /* 1, or 0 if it is handed out or kept by a cache */
    uint32_t begins_segment; /* 1 if a segment begins here: what was taken from the device as a whole */
} scatterheap_place;

/* The version, such as "0.1.0". */
const char *scatterheap_version(void);

/* Why the last call of this thread that failed did so, in one line; "" if none has. Valid until the thread's next
 * failure. Begins with "out of memory" if there would be memory after blocks are deallocated. */
const char *scatterheap_last_error(void);

/* How many GPUs there are; 0 without a driver. */
int scatterheap_gpu_count(void);

/* ------------------------------------------------------------------ heaps that kernels allocate from */

typedef struct scatterheap_heap scatterheap_heap;

/* A heap as kernels take it in their arguments. Nothing in it is for others. */
typedef struct scatterheap_handle {
    uint64_t words[11];
} scatterheap_handle;

/* How full a heap is. Sizes are in bytes. */
typedef struct scatterheap_occupancy {
    uint64_t capacity;         /* bytes that can be allocated now */
    uint64_t largest_capacity; /* and once the heap has grown as far as it may */
    uint64_t used_blocks;      /* blocks that are handed out */
    uint64_t used_bytes;       /* their bytes, as they were rounded up */
    uint64_t largest_request;  /* a request that would be served, the largest but for empty pages of slabs */
    uint64_t page_bytes;       /* size of a page */
    uint64_t free_pages;       /* free pages */
    uint64_t slab_pages;       /* pages of slabs, which hold small blocks */
    uint64_t run_pages;        /* pages of large blocks */
    uint64_t failures;         /* requests that got NULL since the heap was made or reset */
    uint64_t misuses;          /* calls that were refused: double frees, foreign addresses and the like */
    double fragmentation;      /* share of the free bytes that is not in the longest free run, 0 to 1 */
} scatterheap_occupancy;

/* A block that is handed out. In a hardened heap, unless all modes are zero and trap, it is what was put around the block, too: the
 * pointer that the program has lies 16 bytes behind `address`, or as far as it was asked to be aligned; and blocks in
 * the quarantine are listed. */
typedef struct scatterheap_block {
    uint64_t address; /* on the device */
    uint64_t bytes;   /* at least as many as were asked for */
} scatterheap_block;

/* Blocks of one size class that are handed out and were asked for by one site. */
typedef struct scatterheap_leak {
    uint32_t site;      /* as scatterheap_malloc_tagged was told; 0 of other calls */
    int32_t size_class; /* -1 for large blocks, which are runs of pages */
    uint64_t blocks;    /* how many there are */
    uint64_t bytes;     /* as many as were asked for */
    uint64_t example;   /* the lowest of their addresses, as the program has it */
} scatterheap_leak;

/* Creates a heap. `device` is "auto" (a GPU if there is one, else the CPU), "cpu" or "cuda:N", numbered as the driver
 * does. The heap is in the device's primary context, so kernels that are launched through the CUDA runtime can use it.
 * `options` is a size such as "1GiB", and what else there is to say, between commas:
 *
 *   max=SIZE       reserves addresses for this much, up to which the heap may grow
 *   growth=WHEN    between-launches (what a heap with max does if nothing is said; see scatterheap_heap_attend) or live:
 *                  while kernels run, where the device can; scatterheap_heap_notice says if it cannot
 *   harden=MODES   finds misuse; all, or some of red-zones, poison, zero, quarantine, trap and tags, with + between
 *   stripes=N      shares of a size class that warps draw from; as many as multiprocessors if nothing is said;
 *                  48 at most in a heap below 2 GiB
 *   count-bytes    counts requests and bytes asked for, at two atomics a request
 */
scatterheap_heap *scatterheap_heap_create(const char *device, const char *options);

/* Destroys a heap, and with it all blocks. No kernel may use it any more. */
int scatterheap_heap_destroy(scatterheap_heap *heap);

/* Writes the heap as kernels take it. A reset makes handles from before stale: what is tried through them is refused. */
int scatterheap_heap_handle(scatterheap_heap *heap, scatterheap_handle *handle);

/* The same for kernels on the GPU of this number, such as cudaGetDevice gives. Fails if the heap is on another device. */
int scatterheap_heap_handle_on(scatterheap_heap *heap, int number, scatterheap_handle *handle);

/* Makes a heap empty, after all launches. */
int scatterheap_heap_reset(scatterheap_heap *heap);

/* Makes a heap larger by at least `bytes`, after all launches; blocks stay where they are and handles valid.
 * `capacity`, unless NULL, gets the bytes that can be allocated then. Fails if the heap may not be as large. */
int scatterheap_heap_grow(scatterheap_heap *heap, uint64_t bytes, uint64_t *capacity);

/* Lets a heap that grows between launches grow as far as requests asked for since the last call, if they got NULL. Call
 * it before a launch. `capacity`, unless NULL, gets the bytes that can be allocated then. */
int scatterheap_heap_attend(scatterheap_heap *heap, uint64_t *capacity);

/* Reads how full a heap is, after all launches. */
int scatterheap_heap_snapshot(scatterheap_heap *heap, scatterheap_occupancy *occupancy);

/* Writes the first `room` blocks that are handed out, by address, after all launches, and returns how many there are. */
size_t scatterheap_heap_blocks(scatterheap_heap *heap, scatterheap_block *blocks, size_t room);

/* Writes the first `room` leaks of a heap with harden=tags, by site, after all launches, and returns how many there are.
 * `damaged`, unless NULL, gets how many blocks more there are whose site was written over. Fails for heaps whose blocks do not
 * know their sites. */
size_t scatterheap_heap_leaks(scatterheap_heap *heap, scatterheap_leak *leaks, size_t room, uint64_t *damaged);

/* Writes why a heap does not grow as was asked for, or did not when it should have, as text for people: at most `room`
 * characters with the final zero; an empty text if it does. A device that cannot map memory beside a running kernel makes
 * of growth=live growth between launches. Returns how many characters there are without the zero, as snprintf does. */
size_t scatterheap_heap_notice(scatterheap_heap *heap, char *buffer, size_t room);

/* Verifies every invariant of a heap, after all launches. Fails if one is broken. */
int scatterheap_heap_check(scatterheap_heap *heap);

/* Writes a snapshot to a file, after all launches, for `scatterheap check` and `scatterheap occupancy --snapshot`. */
int scatterheap_heap_save(scatterheap_heap *heap, const char *file);

/* ------------------------------------------------------------------ memory resources */

/* Creates a resource. `device` is "auto" (a GPU if there is one, else the CPU), "cpu" or "cuda:N". `composition` is
 * adaptors from the outermost on, if any, and a resource at the end, between commas: "default" is the usual one,
 * "statistics,limit=8GiB,default" counts and limits.
 *
 *   default            a cache, as SCATTERHEAP_RESOURCE_* variables say
 *   remapping          any size; free memory is mapped to where it is needed
 *   caching            any size; what is freed is kept by size class, thread and stream
 *   segments           any size; the best fitting free place, split and merged
 *   device             the device's own allocator: slow
 *   slab               256 B to 64 KiB
 *   buddy=SIZE         powers of two, from one piece of memory
 *   pool=SIZExCOUNT    blocks of one size, a fixed number
 *   arena=SIZE         any size, one behind the other, at most SIZE; emptied by scatterheap_reset
 *
 *   statistics         counts calls and bytes
 *   tracking           reports what is not deallocated; tracking=backtraces also says where it was allocated
 *   limit=SIZE         refuses more than SIZE bytes at once
 *   trace=FILE         writes every call to FILE, as CSV
 *   caching            keeps what is freed, in front of any resource
 *   segments           cuts large pieces of any resource into blocks
 *
 * "caching" at the end is short for "caching,segments,device"; "caching,segments,limit=8GiB,device" limits what is taken
 * from the device rather than what is handed out.
 */
scatterheap_resource *scatterheap_create(const char *device, const char *composition);

/* Destroys a resource, and with it all blocks that are not deallocated: no work may use these any more. Calls of other
 * threads that have begun are finished first; the last one gives the memory back. Fails if that was done before, and for
 * default resources. If a trace could not be written out it fails, too, but the resource is destroyed. */
int scatterheap_destroy(scatterheap_resource *resource);

/* The resource that the functions for PyTorch use for this GPU. It is created when it is first asked for, and lives as
 * long as the process. SCATTERHEAP_DEVICE=cpu puts it on the CPU, whatever the number; SCATTERHEAP_COMPOSITION says
 * what it is made of ("default" if nothing does); SCATTERHEAP_TRACE=FILE writes its calls to FILE. Each default resource
 * has trace files of its own: where FILE is said, here or in a composition, that of device N is FILE.N, but for device
 * 0, and for what is there and is no file, such as /dev/null or a pipe, to which all write. */
scatterheap_resource *scatterheap_default(int device);

/* Says what default resources are made of that are created from now on, whatever SCATTERHEAP_COMPOSITION says. Fails if
 * there is one that is made of something else. */
int scatterheap_configure_default(const char *composition);

/* Allocates `bytes` bytes at a multiple of `alignment`, a power of two, for work on `stream`. */
void *scatterheap_allocate(scatterheap_resource *resource, size_t bytes, size_t alignment, void *stream);

/* Takes a block back, with the bytes and alignment that it was allocated with. Fails for anything else than a block
 * that this resource handed out and has not back. */
int scatterheap_deallocate(scatterheap_resource *resource, void *block, size_t bytes, size_t alignment, void *stream);

/* Says that a block is also used on another stream. When it is deallocated, its memory is not used again before the
 * work on that stream is done which is enqueued by then. Say it while the block is live, with the address that its
 * allocation gave: that is not looked at, and the next block at the address would wait for the stream instead. */
int scatterheap_record_stream(scatterheap_resource *resource, void *block, void *stream);

/* Gives what is kept for later back to the device; `given`, unless NULL, gets the bytes. May wait for the device. */
int scatterheap_trim(scatterheap_resource *resource, uint64_t *given);

/* Takes all blocks of a resource "arena=SIZE" back at once, as if each was deallocated on the stream that it was
 * allocated for. Fails for others. */
int scatterheap_reset(scatterheap_resource *resource);

/* Writes out what traces have in memory. This also happens when a resource is destroyed and when the process ends. Where
 * it fails, part may have been written. */
int scatterheap_flush(scatterheap_resource *resource);

/* Reads what is counted. Takes time. */
int scatterheap_get_statistics(scatterheap_resource *resource, scatterheap_statistics *statistics);

/* Writes the first `room` places of `caching` or `segments`, by address, and returns how many there are: 0 for other
 * resources. */
size_t scatterheap_places(scatterheap_resource *resource, scatterheap_place *places, size_t room);

/* Writes the figures, and with `tracking` the live blocks, as text for people: at most `room` characters with the
 * final zero. Returns how many characters there are without it, as snprintf does. */
size_t scatterheap_report(scatterheap_resource *resource, char *buffer, size_t room);

/* The functions that torch.cuda.memory.CUDAPluggableAllocator takes, on the default resource of the device. No bytes
 * give NULL and no error. What cannot be freed is an error and stays as it is. */
void *scatterheap_torch_allocate(size_t bytes, int device, void *stream);
void scatterheap_torch_free(void *block, size_t bytes, int device, void *stream);

/* For PyTorch, which would use NULL as a block: throws std::runtime_error with the text of the error instead. */
void *scatterheap_torch_allocate_or_throw(size_t bytes, int device, void *stream);

/* For set_record_stream_fn and set_reset_fn of PyTorch's allocator. */
void scatterheap_torch_record_stream(void *block, void *stream);
void scatterheap_torch_empty_cache(void);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#include "scatterheap/device.cuh"
#endif

#endif
