// Streams and errors of the device: CUDA's, or, built with -DWITHOUT_CUDA, numbers on the CPU.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#ifdef WITHOUT_CUDA
using Stream = void *;

inline void open_device() {}

inline Stream make_stream() {
    static uintptr_t next = 0;
    return reinterpret_cast<Stream>(++next << 8);
}

inline void wait_for_device() {}
#else
#include <cuda_runtime_api.h>

using Stream = cudaStream_t;

/// Throws if a call of CUDA failed.
inline void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

inline void open_device() {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaFree(nullptr), "cudaFree");
}

inline Stream make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
}

inline void wait_for_device() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
#endif
