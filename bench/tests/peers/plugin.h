/* A plug-in for the CPU device, on top of the C library's malloc. Each test plug-in defines NAME, and overrides
 * what it does badly, before it includes this. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scatterheap_peer.h"

/* Done before every allocating launch; gives its result if that is not 0. */
#ifndef BEFORE_ALLOC
#define BEFORE_ALLOC(size) 0
#endif

/* Whether thread i gets the block of thread i - 1. */
#ifndef SHARES
#define SHARES(i) 0
#endif

/* Whether a heap may be reset. */
#ifndef MAY_RESET
#define MAY_RESET 1
#endif

/* Before each block. */
typedef struct {
    size_t bytes;
    size_t owners;
} header;

static size_t capacity, used;
static int initialised;

/* Notes a process that the test expects to be gone at last. */
static void note_process(long id)
{
    FILE *file = fopen(PROCESSES, "a");
    if (file != NULL) {
        fprintf(file, "%ld\n", id);
        fclose(file);
    }
}

static void *take(size_t bytes)
{
    if (bytes == 0 || bytes > capacity - used)
        return NULL;
    header *block = malloc(sizeof(header) + bytes);
    if (block == NULL)
        return NULL;
    used += bytes;
    block->bytes = bytes;
    block->owners = 1;
    return block + 1;
}

static void give_back(void *pointer)
{
    header *block = (header *)pointer - 1;
    if (pointer != NULL && --block->owners == 0) {
        used -= block->bytes;
        free(block);
    }
}

const char *peer_name(void)
{
    return NAME;
}

int peer_init(size_t heap_bytes)
{
    if (initialised)
        return 1;
    note_process((long)getpid());
    capacity = heap_bytes;
    initialised = 1;
    return 0;
}

int peer_alloc(void **d_ptrs, const uint32_t *d_sizes, uint32_t size, uint32_t n, uint32_t block_dim, void *stream)
{
    int result = BEFORE_ALLOC(size);
    if (result != 0 || !initialised || block_dim == 0 || stream != NULL)
        return result != 0 ? result : 2;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && SHARES(i) && d_ptrs[i - 1] != NULL) {
            d_ptrs[i] = d_ptrs[i - 1];
            ((header *)d_ptrs[i] - 1)->owners += 1;
        } else {
            d_ptrs[i] = take(d_sizes != NULL ? d_sizes[i] : size);
        }
    }
    return 0;
}

int peer_free(void **d_ptrs, uint32_t n, uint32_t block_dim, void *stream)
{
    if (!initialised || block_dim == 0 || stream != NULL)
        return 3;
    for (uint32_t i = 0; i < n; i++)
        give_back(d_ptrs[i]);
    return 0;
}

int peer_alloc_warp(void **d_ptrs, uint32_t size, uint32_t n_warps, void *stream)
{
    return peer_alloc(d_ptrs, NULL, size, n_warps, 256, stream);
}

int peer_free_warp(void **d_ptrs, uint32_t n_warps, void *stream)
{
    return peer_free(d_ptrs, n_warps, 256, stream);
}

#ifndef WITHOUT_CHURN
int peer_churn(uint32_t size_min, uint32_t size_max, uint32_t n_threads, uint32_t iterations, uint32_t seed,
               uint32_t *d_fail, void *stream)
{
    (void)stream;
    uint64_t state = seed;
    for (uint64_t round = 0; round < (uint64_t)n_threads * iterations; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = size_min + (state >> 33) % (size_max - size_min + 1);
        unsigned char *block = take(bytes);
        if (block == NULL) {
            d_fail[0] += 1;
            continue;
        }
        memset(block, (int)(round & 255), bytes);
        d_fail[1] += block[0] != (round & 255) || block[bytes - 1] != (round & 255);
        give_back(block);
    }
    return 0;
}

int peer_reset(void *stream)
{
    return initialised && stream == NULL && MAY_RESET ? 0 : 4;
}
#endif

void peer_destroy(void)
{
    initialised = 0;
    used = 0;
}
