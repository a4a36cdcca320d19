// Which heap is bound when BoundHeaps come and go. A stand-in takes the place of CUDA: the heaps may be on the CPU, and no
// nvcc is needed.
#include <scatterheap.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };

/* What each device has bound, and which one is current. */
static scatterheap_handle scatterheap_bound[2];
static int current = 0;

static const char *cudaGetErrorString(cudaError_t) { return "an error"; }

static cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

static cudaError_t cudaSetDevice(int device) {
    current = device;
    return cudaSuccess;
}

static cudaError_t scatterheap_bind(scatterheap_heap *heap) {
    scatterheap_handle handle = {};
    if (heap != nullptr && scatterheap_heap_handle(heap, &handle) != 0) return cudaErrorInvalidValue;
    scatterheap_bound[current] = handle;
    return cudaSuccess;
}

static cudaError_t cudaMemcpyFromSymbol(void *to, const scatterheap_handle *symbol, size_t bytes) {
    std::memcpy(to, symbol + current, bytes);
    return cudaSuccess;
}

#define __CUDACC__
#include <scatterheap/heap.hpp>

using scatterheap::BoundHeap;

static int failures = 0;

static void expect(bool is_so, const char *what) {
    if (is_so) return;
    std::printf("not so: %s\n", what);
    failures++;
}

static bool is_bound(const scatterheap::Heap &heap) {
    const scatterheap_handle handle = heap.handle();
    return std::memcmp(&handle, &scatterheap_bound[current], sizeof handle) == 0;
}

static bool none_is_bound() { return scatterheap_bound[current].words[0] == 0; }

int main(int count, char **arguments) {
    const std::string device = count > 1 ? arguments[1] : "auto";
    {
        auto heap = std::make_unique<BoundHeap>("1MiB", device);
        expect(is_bound(*heap), "a new one is bound");
        heap = std::make_unique<BoundHeap>("2MiB", device);
        expect(is_bound(*heap), "one that takes another's place is bound");
        heap->reset();
        expect(is_bound(*heap), "it is bound after a reset");
    }
    expect(none_is_bound(), "none is bound when it went");
    {
        scatterheap::Heap plain("1MiB", device);
        {
            BoundHeap heap("1MiB", device);
            scatterheap::bind(plain);
        }
        expect(is_bound(plain), "what was bound by hand stays bound");
    }
    scatterheap_bind(nullptr);
    {
        BoundHeap heap("1MiB", device);
        heap.Heap::reset();
        scatterheap::bind(heap);
    }
    expect(none_is_bound(), "one that was reset and bound by hand is unbound");
    {
        BoundHeap heap("1MiB", device);
        heap.Heap::reset();
    }
    expect(none_is_bound(), "one whose handle is stale is unbound");
    {
        BoundHeap heap("1MiB", device);
        heap.Heap::reset();
        scatterheap::bind(heap);
        heap.Heap::reset();
    }
    expect(none_is_bound(), "one that was bound with any of its handles is unbound");
    {
        auto first = std::make_unique<BoundHeap>("1MiB", device);
        current = 1;
        expect(scatterheap::default_device() == "cuda:1", "heaps lie on the current device if nothing is said");
        BoundHeap second("1MiB", device);
        first.reset();
        expect(current == 1 && is_bound(second), "another device keeps its own");
        current = 0;
        expect(none_is_bound(), "the device of the one that went has none");
        current = 1;
    }
    std::printf(failures ? "%d expectations failed\n" : "all as expected\n", failures);
    return failures != 0;
}
