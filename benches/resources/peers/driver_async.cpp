// cudaMallocAsync, from a pool that gives nothing back by itself.
#include "../counters.hpp"
#include "../device.hpp"

struct Peer {
    static constexpr const char *name = "driver_async";

    explicit Peer(uint64_t capacity) {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.handleTypes = cudaMemHandleTypeNone;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = 0;
        properties.maxSize = capacity;
        check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
        uint64_t all = UINT64_MAX;
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "cudaMemPoolSetAttribute");
    }

    void *allocate(uint64_t bytes, Stream stream) {
        void *block = nullptr;
        if (cudaMallocFromPoolAsync(&block, bytes, pool, stream) == cudaSuccess) return block;
        cudaGetLastError();
        return nullptr;
    }

    void deallocate(void *block, uint64_t, Stream stream) { check(cudaFreeAsync(block, stream), "cudaFreeAsync"); }

    bool counts_calls() { return true; }

    uint64_t reserved() {
        uint64_t most = 0;
        check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &most), "cudaMemPoolGetAttribute");
        return most;
    }

    cudaMemPool_t pool{};
};

#include "../run.hpp"
