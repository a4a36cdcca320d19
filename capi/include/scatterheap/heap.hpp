/* A heap as a C++ object, for code of the host: failures are exceptions. */
#ifndef SCATTERHEAP_HEAP_HPP
#define SCATTERHEAP_HEAP_HPP

#include <scatterheap.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace scatterheap {

/* What a function of scatterheap.h said. */
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

inline void check(int status) {
    if (status != 0) {
        throw Error(scatterheap_last_error());
    }
}

/* Where a heap lies if nothing is said: on the current device of CUDA where nvcc compiles, else on the first GPU. Where CUDA
 * does not even tell the device, the heap says why there can be none. */
static inline std::string default_device() {
#ifdef __CUDACC__
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess ? "cuda:" + std::to_string(device) : "cuda:0";
#else
    return "cuda:0";
#endif
}

/* A heap that kernels allocate from; scatterheap_heap_create says what `options` and `device` may be. It must outlive
 * the kernels that use it. */
class Heap {
public:
    explicit Heap(const std::string &options, const std::string &device = default_device())
        : heap(scatterheap_heap_create(device.c_str(), options.c_str())) {
        if (heap == nullptr) {
            throw Error(scatterheap_last_error());
        }
    }

    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

    ~Heap() { scatterheap_heap_destroy(heap); }

    /* What kernels take. */
    scatterheap_handle handle() const {
        scatterheap_handle handle;
        check(scatterheap_heap_handle(heap, &handle));
        return handle;
    }

    void reset() { check(scatterheap_heap_reset(heap)); }

    std::uint64_t grow(std::uint64_t bytes) {
        std::uint64_t capacity = 0;
        check(scatterheap_heap_grow(heap, bytes, &capacity));
        return capacity;
    }

    std::uint64_t attend() {
        std::uint64_t capacity = 0;
        check(scatterheap_heap_attend(heap, &capacity));
        return capacity;
    }

    scatterheap_occupancy snapshot() const {
        scatterheap_occupancy occupancy;
        check(scatterheap_heap_snapshot(heap, &occupancy));
        return occupancy;
    }

    std::vector<scatterheap_block> blocks() const {
        const std::size_t count = listed(nullptr, 0);
        std::vector<scatterheap_block> found(count);
        found.resize(std::min(count, listed(found.data(), count)));
        return found;
    }

    /* Of a heap with harden=tags, by site; without blocks whose site was written over. */
    std::vector<scatterheap_leak> leaks() const {
        const auto list = [this](scatterheap_leak *leaks, std::size_t room) {
            return told(scatterheap_heap_leaks(heap, leaks, room, nullptr));
        };
        const std::size_t count = list(nullptr, 0);
        std::vector<scatterheap_leak> found(count);
        found.resize(std::min(count, list(found.data(), count)));
        return found;
    }

    /* Why it does not grow as was asked for, or did not when it should have; empty if it does. */
    std::string growth_notice() const {
        const std::size_t length = told(scatterheap_heap_notice(heap, nullptr, 0));
        std::string text(length + 1, '\0');
        text.resize(std::min(length, told(scatterheap_heap_notice(heap, &text[0], text.size()))));
        return text;
    }

    void check_invariants() const { check(scatterheap_heap_check(heap)); }

    void save(const std::string &file) const { check(scatterheap_heap_save(heap, file.c_str())); }

    scatterheap_heap *get() const { return heap; }

private:
    std::size_t listed(scatterheap_block *blocks, std::size_t room) const {
        return told(scatterheap_heap_blocks(heap, blocks, room));
    }

    static std::size_t told(std::size_t count) {
        if (count == SIZE_MAX) {
            throw Error(scatterheap_last_error());
        }
        return count;
    }

    scatterheap_heap *heap;
};

#ifdef __CUDACC__
inline void check_cuda(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        throw Error(std::string(what) + ": " + cudaGetErrorString(status));
    }
}

/* Makes a heap the bound one of the current device, which must be the heap's. */
inline void bind(const Heap &heap) {
    const cudaError_t status = scatterheap_bind(heap.get());
    if (status == cudaErrorInvalidValue) {
        throw Error(scatterheap_last_error());
    }
    check_cuda(status, "the heap cannot be bound");
}

/* The number of the current device. */
inline int current_device() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "the current device is not known");
    return device;
}

/* Another device is current as long as this is. */
class CurrentDevice {
public:
    explicit CurrentDevice(int device) : before(current_device()) {
        check_cuda(cudaSetDevice(device), "the device of a heap cannot be made current");
    }

    CurrentDevice(const CurrentDevice &) = delete;
    CurrentDevice &operator=(const CurrentDevice &) = delete;

    ~CurrentDevice() { cudaSetDevice(before); }

private:
    int before;
};

/* A heap that is the bound one of its device, which must be the current one, from when it is made until it goes or another
 * one is bound. */
class BoundHeap : public Heap {
public:
    /* On the current device. */
    explicit BoundHeap(const std::string &options) : BoundHeap(options, default_device()) {}

    BoundHeap(const std::string &options, const std::string &device) : Heap(options, device), number(current_device()) {
        bind(*this);
        place = handle().words[0];
    }

    ~BoundHeap() {
        try {
            const CurrentDevice own(number);
            if (is_bound_here()) {
                scatterheap_bind(nullptr);
            }
        } catch (const Error &) {
            // Nobody is there who could be told.
        }
    }

    /* Whatever device is current. */
    void reset() {
        Heap::reset();
        const CurrentDevice own(number);
        bind(*this);
    }

private:
    /* Whether no other heap was bound since. The device knows, whoever bound what. */
    bool is_bound_here() const {
        scatterheap_handle there;
        check_cuda(cudaMemcpyFromSymbol(&there, scatterheap_bound, sizeof there), "the bound heap is not known");
        return there.words[0] == place;
    }

    int number;
    /* The first word of all its handles: where its blocks lie, and no other heap's do. */
    std::uint64_t place;
};
#endif

} // namespace scatterheap

#endif
