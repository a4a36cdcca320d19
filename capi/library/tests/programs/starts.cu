// Has a kernel that allocates, and only starts: neither the host nor a GPU is asked for anything.
#include <cstdio>

#include <scatterheap.h>

__global__ void allocate(const __grid_constant__ scatterheap_handle heap, void **blocks) {
    blocks[threadIdx.x] = scatterheap_malloc(&heap, 16);
}

int main() {
    std::puts("started");
}
