// The system's aligned_alloc, on the CPU: it shows that the measurement works where there is no GPU.
#include "../counters.hpp"
#include "../device.hpp"

#include <cstdlib>

struct Peer {
    static constexpr const char *name = "system_malloc";

    explicit Peer(uint64_t) {}

    void *allocate(uint64_t bytes, Stream) { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }

    void deallocate(void *block, uint64_t, Stream) { std::free(block); }

    bool counts_calls() { return false; }

    uint64_t reserved() { return 0; }
};

#include "../run.hpp"
