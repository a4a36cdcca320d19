// Counts the calls of the CUDA runtime that a peer makes, in each thread, and the bytes that it has of the device.
#pragma once

#include <cstdint>

/// What a thread counted.
struct Counters {
    /// Calls that allocate or free memory, or record or wait for events.
    uint64_t calls = 0;
    /// Allocations that led to such a call.
    uint64_t misses = 0;
    /// The number of the allocation that runs; 0 if none does.
    uint64_t allocation = 0;
    /// The last one that led to a call.
    uint64_t last_miss = 0;

    void count() {
        ++calls;
        if (allocation != 0 && allocation != last_miss) {
            last_miss = allocation;
            ++misses;
        }
    }
};

extern thread_local Counters counters;

/// The most bytes of cudaMalloc that were there at once.
uint64_t most_bytes_of_cuda_malloc();
