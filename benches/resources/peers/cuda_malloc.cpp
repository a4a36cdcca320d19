// cudaMalloc and cudaFree. A limit is kept by counting.
#include "../counters.hpp"
#include "../device.hpp"

#include <atomic>

struct Peer {
    static constexpr const char *name = "cuda_malloc";

    explicit Peer(uint64_t capacity) : capacity(capacity) {}

    void *allocate(uint64_t bytes, Stream) {
        if (capacity > 0 && used.fetch_add(bytes) + bytes > capacity) {
            used -= bytes;
            return nullptr;
        }
        void *block = nullptr;
        if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
        cudaGetLastError();
        used -= capacity > 0 ? bytes : 0;
        return nullptr;
    }

    void deallocate(void *block, uint64_t bytes, Stream) {
        check(cudaFree(block), "cudaFree");
        used -= capacity > 0 ? bytes : 0;
    }

    bool counts_calls() { return true; }

    uint64_t reserved() { return most_bytes_of_cuda_malloc(); }

    uint64_t capacity;
    std::atomic<uint64_t> used{0};
};

#include "../run.hpp"
