// A heap as a C++ object, compiled without nvcc.
#include <scatterheap/heap.hpp>

#include <cstdio>
#include <string>

int main(int count, char **arguments) {
    const std::string device = count > 1 ? arguments[1] : "auto";
    scatterheap::Heap heap("1MiB,max=64MiB", device);
    if (heap.grow(1 << 20) < 2 << 20 || heap.attend() < 2 << 20) return 1;
    if (!heap.blocks().empty() || heap.snapshot().used_blocks != 0) return 2;
    if (!heap.growth_notice().empty()) return 3;
    try {
        heap.leaks();
        return 4;
    } catch (const scatterheap::Error &error) {
        std::printf("%s\n", error.what());
        if (std::string(error.what()).find("harden=tags") == std::string::npos) return 5;
    }
    if (!scatterheap::Heap("1MiB,harden=tags", device).leaks().empty()) return 6;
    heap.reset();
    heap.check_invariants();
    return scatterheap::default_device() == "cuda:0" ? 0 : 7;
}
