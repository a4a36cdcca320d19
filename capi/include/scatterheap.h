/* scatterheap's memory resources for C: device memory that the host allocates, in the order of streams.
 *
 * Link with -lscatterheap. The library loads NVIDIA's driver when it is first needed, so programs start on machines
 * without one and can use the CPU.
 *
 * Words:
 *   resource   What hands out memory of one device. All functions may be called from many threads at once.
 *   stream     A CUstream (the same as a cudaStream_t) of the device's primary context, which is that of the CUDA
 *              runtime; NULL is the default stream. It must not be destroyed before the resource. A block is for work
 *              that is enqueued on its stream from the allocation on; when it is deallocated, work on the stream may
 *              still use it. The per-thread default stream (2) is refused. On the CPU, where work is done when the call
 *              that enqueues it returns, streams are any numbers.
 *   failure    Functions that return int return 0, or -1 if they failed. Pointers are NULL and sizes SIZE_MAX then.
 *              scatterheap_last_error() says why. Nothing has changed by a call that failed.
 *
 * A resource that was destroyed may be named later: that is an error, not undefined. Handles that no function here
 * returned are undefined, as are blocks that are used after they were deallocated.
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
    uint64_t waits;              /* `caching`, `segments`: how often a stream was made to wait for another */
    uint64_t reserved_bytes;     /* `caching`, `segments`, `arena`: bytes taken from the device */
    uint64_t free_bytes;         /* bytes of these that are free, and `buddy` */
    uint64_t largest_free_bytes; /* bytes of the largest free piece, and `buddy` */
    uint64_t free_pieces;        /* `caching`, `segments`: number of free pieces */
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

/* Destroys a resource, and with it all blocks that are not deallocated. Fails if that was done before, and if a
 * trace could not be written out. */
int scatterheap_destroy(scatterheap_resource *resource);

/* The resource that the functions for PyTorch use for this GPU. It is created when it is first asked for, and lives as
 * long as the process. SCATTERHEAP_DEVICE=cpu puts it on the CPU, whatever the number; SCATTERHEAP_COMPOSITION says
 * what it is made of ("default" if nothing does); SCATTERHEAP_TRACE=FILE writes its calls to FILE (FILE.N for a GPU
 * other than 0). */
scatterheap_resource *scatterheap_default(int device);

/* Says what default resources are made of. Fails if one is made of something else already. */
int scatterheap_configure_default(const char *composition);

/* Allocates `bytes` bytes at a multiple of `alignment`, a power of two, for work on `stream`. */
void *scatterheap_allocate(scatterheap_resource *resource, size_t bytes, size_t alignment, void *stream);

/* Takes a block back, with the bytes and alignment that it was allocated with. Fails for anything else than a block
 * that this resource handed out and has not back. */
int scatterheap_deallocate(scatterheap_resource *resource, void *block, size_t bytes, size_t alignment, void *stream);

/* Says that a block is also used on another stream. When it is deallocated, its memory is not used again before the
 * work on that stream is done which is enqueued by then. */
int scatterheap_record_stream(scatterheap_resource *resource, void *block, void *stream);

/* Gives what is kept for later back to the device; `given`, unless NULL, gets the bytes. May wait for the device. */
int scatterheap_trim(scatterheap_resource *resource, uint64_t *given);

/* Takes all blocks of a resource "arena=SIZE" back at once. Fails for others. */
int scatterheap_reset(scatterheap_resource *resource);

/* Writes out what traces have in memory. This also happens when a resource is destroyed and when the process ends. */
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

#endif
