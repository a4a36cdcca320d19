// PyTorch's caching allocator, called from C++.
#include "../counters.hpp"
#include "../device.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>

struct Peer {
    static constexpr const char *name = "torch";

    explicit Peer(uint64_t capacity) {
        int devices = 0;
        check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
        c10::cuda::CUDACachingAllocator::init(devices);
        if (capacity > 0) {
            size_t available = 0, total = 0;
            check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
            c10::cuda::CUDACachingAllocator::setMemoryFraction(static_cast<double>(capacity) / static_cast<double>(total), 0);
        }
    }

    void *allocate(uint64_t bytes, Stream stream) {
        try {
            return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream);
        } catch (const c10::OutOfMemoryError &) {
            return nullptr;
        }
    }

    void deallocate(void *block, uint64_t, Stream) { c10::cuda::CUDACachingAllocator::raw_delete(block); }

    /// Not if it links the runtime statically, so that its calls are not seen.
    bool counts_calls() { return most_bytes_of_cuda_malloc() > 0; }

    uint64_t reserved() {
        const auto aggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        return static_cast<uint64_t>(c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[aggregate].peak);
    }
};

#include "../run.hpp"
