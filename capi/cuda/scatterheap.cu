/* The bound heap of a program: build this file into it, with relocatable device code. */

#include <scatterheap.h>

extern "C" __constant__ scatterheap_handle scatterheap_bound;
__constant__ scatterheap_handle scatterheap_bound;

/* Device functions of other sources have no such variable, and are not linked. */
extern "C" __device__ const unsigned char SCATTERHEAP_DEVICE_LAYOUT;
__device__ const unsigned char *scatterheap_device_layout = &SCATTERHEAP_DEVICE_LAYOUT;

extern "C" cudaError_t scatterheap_bind(scatterheap_heap *heap) {
    scatterheap_handle handle = {};
    if (heap != nullptr) {
        int device = 0;
        const cudaError_t status = cudaGetDevice(&device);
        if (status != cudaSuccess) {
            return status;
        }
        if (scatterheap_heap_handle_on(heap, device, &handle) != 0) {
            return cudaErrorInvalidValue;
        }
    }
    return cudaMemcpyToSymbol(scatterheap_bound, &handle, sizeof handle);
}
