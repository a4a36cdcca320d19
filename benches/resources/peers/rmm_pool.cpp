// RMM's pool, which grows from nothing.
#include "rmm.hpp"

#include <rmm/mr/pool_memory_resource.hpp>

struct Peer {
    static constexpr const char *name = "rmm_pool";

    explicit Peer(uint64_t capacity) : resource(Upstream{}, 0, most_of(capacity)) {}

    void *allocate(uint64_t bytes, Stream stream) { return allocate_from(resource, bytes, stream); }

    void deallocate(void *block, uint64_t bytes, Stream stream) { deallocate_to(resource, block, bytes, stream); }

    bool counts_calls() { return true; }

    uint64_t reserved() { return most_bytes_of_cuda_malloc(); }

    rmm::mr::pool_memory_resource resource;
};

#include "../run.hpp"
