// Blocks that are given back where a thread or the program ends: by variables of threads and by global objects. By the
// latter on the CPU only, as NVIDIA's driver may end before them.
#include <scatterheap.h>

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

static scatterheap_resource *memory;
static bool is_on_cpu = false;

/* What goes wrong is the status that the process ends with, also where `main` is over. */
static void expect(bool is_so, const char *what) {
    if (is_so) return;
    std::printf("not so: %s; last error: %s\n", what, scatterheap_last_error());
    std::fflush(stdout);
    _exit(1);
}

/* Gives its block back when it ends, and uses another one then. */
struct Block {
    void *block = nullptr;

    void allocate() {
        block = scatterheap_allocate(memory, 1000, 256, nullptr);
        expect(block != nullptr, "a block is allocated");
    }

    ~Block() {
        if (block == nullptr) return;
        expect(scatterheap_deallocate(memory, block, 1000, 256, nullptr) == 0, "a block is given back at an end");
        void *other = scatterheap_allocate(memory, 5000, 256, nullptr);
        expect(other != nullptr, "a block is allocated at an end");
        expect(scatterheap_deallocate(memory, other, 5000, 256, nullptr) == 0, "and given back");
    }
};

/* The default resource's, by the functions for PyTorch, which say nothing when they fail. */
struct TorchBlock {
    void *block = nullptr;

    void allocate() { block = scatterheap_torch_allocate(1 << 20, 0, nullptr); }

    ~TorchBlock() {
        if (block != nullptr) scatterheap_torch_free(block, 1 << 20, 0, nullptr);
    }
};

thread_local Block of_thread;
thread_local TorchBlock torch_of_thread;

/* Ends last of all: when every other global object and every thread has given its block back. */
struct Last {
    ~Last() {
        if (!is_on_cpu) return;
        scatterheap_statistics statistics;
        expect(scatterheap_get_statistics(memory, &statistics) == 0, "there are statistics at the end");
        expect(statistics.live_blocks == 0 && statistics.failures == 0, "every block was given back");
        expect(scatterheap_destroy(memory) == 0, "the resource is destroyed at the end");
    }
};

static Last last;
static Block global;

static void end_of_key(void *block) { delete static_cast<Block *>(block); }

int main(int count, char **arguments) {
    const std::string device = count > 1 ? arguments[1] : "auto";
    is_on_cpu = device.rfind("cpu", 0) == 0;
    if (is_on_cpu) setenv("SCATTERHEAP_DEVICE", device.c_str(), 1);
    memory = scatterheap_create(device.c_str(), "statistics,limit=64KiB,caching");
    expect(memory != nullptr, "there is a resource");
    expect(scatterheap_configure_default("statistics,limit=16MiB,caching") == 0, "the default is said");
    pthread_key_t key;
    expect(pthread_key_create(&key, end_of_key) == 0, "there is a key");
    if (is_on_cpu) global.allocate();
    /* More than there would be room for if blocks were lost. */
    for (int round = 0; round < 100; round++) {
        std::thread([key] {
            of_thread.allocate();
            Block *of_key = new Block;
            of_key->allocate();
            pthread_setspecific(key, of_key);
            torch_of_thread.allocate();
            expect(torch_of_thread.block != nullptr, "the default resource has a block");
        }).join();
    }
    of_thread.allocate();
    torch_of_thread.allocate();
    scatterheap_statistics statistics;
    expect(scatterheap_get_statistics(scatterheap_default(0), &statistics) == 0, "there are statistics");
    expect(statistics.live_blocks == 1, "only the block of this thread is live");
    std::printf("all as expected\n");
    return 0;
}
