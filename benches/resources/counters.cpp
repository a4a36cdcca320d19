// Stands before the CUDA runtime: the program's own symbols are found before those of shared libraries, by these
// libraries too, so that calls of PyTorch come here. What a library links statically cannot be counted.
#include "counters.hpp"

thread_local Counters counters;

#ifdef WITHOUT_CUDA
uint64_t most_bytes_of_cuda_malloc() { return 0; }
#else
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace {

/// The blocks of cudaMalloc.
struct Blocks {
    std::mutex mutex;
    std::unordered_map<void *, size_t> sizes;
    uint64_t bytes = 0;
    uint64_t most = 0;
};

Blocks &blocks() {
    static Blocks *const all = new Blocks;  // Never destroyed: libraries free memory until the very end.
    return *all;
}

/// The function of this name in the library behind.
template <typename Function> Function *behind(const char *name) {
    auto *found = reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
    if (found == nullptr) {
        std::fprintf(stderr, "no %s behind this program: link libcudart.so, not its static form\n", name);
        std::abort();
    }
    return found;
}

}  // namespace

#define BEHIND(name) static auto *const real = behind<decltype(name)>(#name)

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void **pointer, size_t bytes) {
    BEHIND(cudaMalloc);
    counters.count();
    const cudaError_t error = real(pointer, bytes);
    if (error == cudaSuccess) {
        Blocks &all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.sizes[*pointer] = bytes;
        all.bytes += bytes;
        all.most = std::max(all.most, all.bytes);
    }
    return error;
}

cudaError_t CUDARTAPI cudaFree(void *pointer) {
    BEHIND(cudaFree);
    counters.count();
    {
        Blocks &all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        const auto known = all.sizes.find(pointer);
        if (known != all.sizes.end()) {
            all.bytes -= known->second;
            all.sizes.erase(known);
        }
    }
    return real(pointer);
}

cudaError_t CUDARTAPI cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    BEHIND(cudaMallocAsync);
    counters.count();
    return real(pointer, bytes, stream);
}

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    BEHIND(cudaMallocFromPoolAsync);
    counters.count();
    return real(pointer, bytes, pool, stream);
}

cudaError_t CUDARTAPI cudaFreeAsync(void *pointer, cudaStream_t stream) {
    BEHIND(cudaFreeAsync);
    counters.count();
    return real(pointer, stream);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    BEHIND(cudaEventRecord);
    counters.count();
    return real(event, stream);
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    BEHIND(cudaEventRecordWithFlags);
    counters.count();
    return real(event, stream, flags);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    BEHIND(cudaStreamWaitEvent);
    counters.count();
    return real(stream, event, flags);
}

}  // extern "C"

uint64_t most_bytes_of_cuda_malloc() {
    Blocks &all = blocks();
    const std::lock_guard<std::mutex> lock(all.mutex);
    return all.most;
}
#endif
