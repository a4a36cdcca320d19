// What PyTorch gets where there is no memory: an exception, not NULL.
#include <scatterheap.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

int main(int count, char **arguments) {
    if (count > 1 && std::string(arguments[1]).rfind("cpu", 0) == 0) setenv("SCATTERHEAP_DEVICE", arguments[1], 1);
    if (scatterheap_configure_default("limit=1MiB,caching") != 0) return 1;
    if (scatterheap_torch_allocate_or_throw(0, 0, nullptr)) return 2;
    for (int round = 0; round < 3; round++) {
        try {
            scatterheap_torch_allocate_or_throw(2 << 20, 0, nullptr);
            return 3;
        } catch (const std::runtime_error &error) {
            std::printf("%s\n", error.what());
            if (std::string(error.what()).rfind("out of memory", 0) != 0) return 4;
        }
    }
    // The resource is usable afterwards.
    void *block = scatterheap_torch_allocate_or_throw(1000, 0, nullptr);
    scatterheap_torch_free(block, 1000, 0, nullptr);
    return block && scatterheap_torch_allocate(1000, 0, nullptr) == block ? 0 : 5;
}
