// scatterheap through the functions that PyTorch calls. Its calls of the driver are not the runtime's, so they are not
// counted here: `scatterheap resources` does.
#include "../counters.hpp"
#include "../device.hpp"

#include <scatterheap.h>

#include <cstdlib>
#include <string>

struct Peer {
    static constexpr const char *name = "scatterheap_c";

    explicit Peer(uint64_t capacity) {
#ifdef WITHOUT_CUDA
        setenv("SCATTERHEAP_DEVICE", "cpu", 1);
#endif
        // The limit is on what is taken from the device, as for the others.
        if (capacity > 0) setenv("SCATTERHEAP_RESOURCE_LIMIT", (std::to_string(capacity) + "B").c_str(), 1);
        resource = scatterheap_default(0);
        require(resource != nullptr);
    }

    void *allocate(uint64_t bytes, Stream stream) { return scatterheap_torch_allocate(bytes, 0, stream); }

    void deallocate(void *block, uint64_t bytes, Stream stream) { scatterheap_torch_free(block, bytes, 0, stream); }

    bool counts_calls() { return false; }

    uint64_t reserved() {
        scatterheap_statistics statistics{};
        require(scatterheap_get_statistics(resource, &statistics) == 0);
        if (statistics.live_blocks != 0) throw std::runtime_error("blocks are live that were freed");
        return statistics.peak_reserved_bytes;
    }

    static void require(bool success) {
        if (!success) throw std::runtime_error(scatterheap_last_error());
    }

    scatterheap_resource *resource = nullptr;
};

#include "../run.hpp"
