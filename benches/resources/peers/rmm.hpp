// What the peers of RMM have in common: where their memory comes from, and their calls.
#pragma once

#include "../counters.hpp"
#include "../device.hpp"

#include <rmm/cuda_stream_view.hpp>
#include <rmm/error.hpp>

#include <cuda/memory_resource>

#include <cstddef>
#include <optional>

/// cudaMalloc, called here so that counters.cpp sees it: RMM links the runtime statically. So calls for events, which RMM
/// makes by itself, are not counted.
class Upstream {
  public:
    void *allocate_sync(std::size_t bytes, std::size_t = 256) {
        void *block = nullptr;
        if (cudaMalloc(&block, bytes) != cudaSuccess) {
            cudaGetLastError();
            throw rmm::out_of_memory("cudaMalloc");
        }
        return block;
    }

    void deallocate_sync(void *block, std::size_t, std::size_t = 256) noexcept { cudaFree(block); }

    void *allocate(cuda::stream_ref, std::size_t bytes, std::size_t = 256) { return allocate_sync(bytes); }

    void deallocate(cuda::stream_ref, void *block, std::size_t bytes, std::size_t = 256) noexcept {
        deallocate_sync(block, bytes);
    }

    bool operator==(const Upstream &) const noexcept { return true; }
    bool operator!=(const Upstream &) const noexcept { return false; }

    friend void get_property(const Upstream &, cuda::mr::device_accessible) noexcept {}
};

/// The bytes that a resource may have at most.
inline std::optional<std::size_t> most_of(uint64_t capacity) {
    if (capacity == 0) return std::nullopt;
    return static_cast<std::size_t>(capacity / 256 * 256);
}

/// Calls of a resource of RMM.
template <typename Resource> void *allocate_from(Resource &resource, uint64_t bytes, Stream stream) {
    try {
        return resource.allocate(cuda::stream_ref{stream}, bytes, 256);
    } catch (const rmm::bad_alloc &) {
        return nullptr;
    }
}

template <typename Resource> void deallocate_to(Resource &resource, void *block, uint64_t bytes, Stream stream) {
    resource.deallocate(cuda::stream_ref{stream}, block, bytes, 256);
}
