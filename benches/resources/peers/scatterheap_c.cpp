// scatterheap through its C interface, the way that PyTorch calls it. Its calls of the driver are not the runtime's, so
// they are not counted here: `scatterheap bench resources` does.
#include "../counters.hpp"
#include "../device.hpp"

#include <scatterheap.h>

#include <string>

struct Peer {
    static constexpr const char *name = "scatterheap_c";
    static constexpr bool counts_calls = false;

    explicit Peer(uint64_t capacity) {
        // The limit is on what is taken from the device, as for the others.
        std::string composition = "caching";
        if (capacity > 0) composition += ",segments,limit=" + std::to_string(capacity) + "B,device";
#ifdef WITHOUT_CUDA
        const char *const device = "cpu";
#else
        const char *const device = "cuda:0";
#endif
        resource = scatterheap_create(device, composition.c_str());
        if (!resource) throw std::runtime_error(scatterheap_last_error());
    }

    void *allocate(uint64_t bytes, Stream stream) { return scatterheap_allocate(resource, bytes, 256, stream); }

    void deallocate(void *block, uint64_t bytes, Stream stream) {
        if (scatterheap_deallocate(resource, block, bytes, 256, stream) != 0) {
            throw std::runtime_error(scatterheap_last_error());
        }
    }

    uint64_t reserved() {
        scatterheap_statistics statistics{};
        if (scatterheap_get_statistics(resource, &statistics) != 0) throw std::runtime_error(scatterheap_last_error());
        return statistics.reserved_bytes;
    }

    scatterheap_resource *resource;
};

#include "../run.hpp"
