// Runs a scenario with the allocator of the file that includes this, and prints rows of CSV.
//
//   PROGRAM DIRECTORY SCENARIO THREADS SECONDS
//
// Before the inclusion the file defines
//
//   struct Peer {
//       static constexpr const char *name;
//       explicit Peer(uint64_t capacity);                      // bytes for all threads; 0 if there is no limit
//       void *allocate(uint64_t bytes, Stream stream);         // nullptr if there is no memory
//       void deallocate(void *block, uint64_t bytes, Stream stream);
//       bool counts_calls();                                   // whether counters.cpp saw its calls of CUDA
//       uint64_t reserved();                                   // the most bytes of the device so far; 0 if not known
//   };
//
// What is measured is what docs/resources.md says. Each thread stops after SECONDS, with fewer rounds then.
#include "counters.hpp"
#include "device.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

/// What is handed out by all threads, in bytes that were asked for.
struct Live {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> most{0};

    void add(uint64_t size) {
        const uint64_t now = bytes.fetch_add(size, std::memory_order_relaxed) + size;
        uint64_t known = most.load(std::memory_order_relaxed);
        while (known < now && !most.compare_exchange_weak(known, now, std::memory_order_relaxed)) {
        }
    }

    void remove(uint64_t size) { bytes.fetch_sub(size, std::memory_order_relaxed); }
};

/// What one thread did.
struct Outcome {
    uint64_t allocations = 0;
    uint64_t failures = 0;
    uint64_t calls = 0;
    uint64_t misses = 0;
    double seconds = 0;
    std::string error;
};

/// One thread: its stream and its blocks.
class Worker {
  public:
    Worker(Peer &peer, const Scenario &scenario) : peer(peer), scenario(scenario), blocks(scenario.slots) {}

    void open() {
        open_device();
        stream = make_stream();
    }

    /// An untimed round, which counts what is live.
    void warm_up(Live &live, Clock::time_point end) {
        uint64_t done = 0;
        for (const Operation &operation : scenario.operations) {
            void *&block = blocks[operation.slot];
            if (operation.allocates) {
                block = peer.allocate(operation.bytes, stream);
                if (block) live.add(operation.bytes);
                else ++outcome.failures;
            } else if (block) {
                live.remove(operation.bytes);
                peer.deallocate(block, operation.bytes, stream);
                block = nullptr;
            }
            if ((++done & 255) == 0 && Clock::now() > end) break;
        }
        free_the_rest(done);
    }

    /// The timed rounds.
    void measure(Clock::time_point end) {
        const Counters before = counters;
        const Clock::time_point start = Clock::now();
        for (uint64_t round = 0; round < scenario.rounds; ++round) {
            if (!this->round(end)) break;
        }
        outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
        outcome.calls = counters.calls - before.calls;
        outcome.misses = counters.misses - before.misses;
    }

    Outcome outcome;

  private:
    /// Whether there is time for another round.
    bool round(Clock::time_point end) {
        uint64_t done = 0;
        for (const Operation &operation : scenario.operations) {
            void *&block = blocks[operation.slot];
            if (operation.allocates) {
                counters.allocation = ++outcome.allocations;
                block = peer.allocate(operation.bytes, stream);
                counters.allocation = 0;
                if (!block) ++outcome.failures;
            } else if (block) {
                peer.deallocate(block, operation.bytes, stream);
                block = nullptr;
            }
            if ((++done & 1023) == 0 && Clock::now() > end) {
                free_the_rest(done);
                return false;
            }
        }
        return Clock::now() < end;
    }

    /// Frees what is live after so many operations.
    void free_the_rest(uint64_t done) {
        for (uint64_t index = done; index < scenario.operations.size(); ++index) {
            const Operation &operation = scenario.operations[index];
            void *&block = blocks[operation.slot];
            if (!operation.allocates && block) {
                peer.deallocate(block, operation.bytes, stream);
                block = nullptr;
            }
        }
    }

    Peer &peer;
    const Scenario &scenario;
    std::vector<void *> blocks;
    Stream stream{};
};

/// Runs all threads; what each did, and the most bytes that were live.
inline std::vector<Outcome> run(Peer &peer, const Scenario &scenario, unsigned threads, double seconds, uint64_t &most) {
    Live live;
    std::barrier together(threads);
    std::vector<Outcome> outcomes(threads);
    const auto time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    const auto work = [&](unsigned index) {
        Worker worker(peer, scenario);
        // A thread that failed still comes to the barriers, as the others wait there.
        const auto attempt = [&](auto part) {
            if (!worker.outcome.error.empty()) return;
            try {
                part();
            } catch (const std::exception &error) {
                worker.outcome.error = error.what();
            }
        };
        attempt([&] { worker.open(); });
        together.arrive_and_wait();
        // Again for a while, so that all threads are in the middle of it at some time.
        const Clock::time_point enough = Clock::now() + std::chrono::milliseconds(100);
        attempt([&] {
            do worker.warm_up(live, Clock::now() + time);
            while (Clock::now() < enough);
        });
        attempt([&] { wait_for_device(); });
        together.arrive_and_wait();
        attempt([&] { worker.measure(Clock::now() + time); });
        together.arrive_and_wait();
        outcomes[index] = worker.outcome;
    };
    std::vector<std::thread> running;
    for (unsigned index = 0; index < threads; ++index) running.emplace_back(work, index);
    for (std::thread &thread : running) thread.join();
    most = live.most;
    return outcomes;
}

inline void row(const Scenario &scenario, unsigned threads, const char *metric, double value) {
    std::printf("%s,%s,%u,%s,%.6g\n", scenario.name.c_str(), Peer::name, threads, metric, value);
}

inline void print(const Scenario &scenario, const std::vector<Outcome> &outcomes, Peer &peer, double live) {
    const auto threads = static_cast<unsigned>(outcomes.size());
    const auto reserved = static_cast<double>(peer.reserved());
    const bool counts_calls = peer.counts_calls();
    double slowest = 0;
    Outcome sum;
    for (const Outcome &outcome : outcomes) {
        if (!outcome.error.empty()) throw std::runtime_error(outcome.error);
        if (outcome.allocations > 0) slowest = std::max(slowest, outcome.seconds / static_cast<double>(outcome.allocations));
        sum.allocations += outcome.allocations;
        sum.failures += outcome.failures;
        sum.calls += outcome.calls;
        sum.misses += outcome.misses;
    }
    if (sum.allocations == 0) throw std::runtime_error("no allocation was timed: give it more seconds");
    row(scenario, threads, "ns_per_pair", slowest * 1e9);
    if (reserved > 0 && live > 0) row(scenario, threads, "reserved_over_live", reserved / live);
    if (counts_calls) {
        const auto allocations = static_cast<double>(sum.allocations);
        row(scenario, threads, "hit_rate", 1 - static_cast<double>(sum.misses) / allocations);
        row(scenario, threads, "driver_calls", static_cast<double>(sum.calls));
    }
    if (sum.failures > 0) row(scenario, threads, "failures", static_cast<double>(sum.failures));
}

int main(int count, char **arguments) {
    if (count != 5) {
        std::fprintf(stderr, "usage: %s DIRECTORY SCENARIO THREADS SECONDS\n", arguments[0]);
        return 2;
    }
    try {
        const Scenario scenario = read_scenario(arguments[1], arguments[2]);
        const auto threads = static_cast<unsigned>(std::stoul(arguments[3]));
        const double seconds = std::stod(arguments[4]);
        if (threads == 0 || threads > 1024) throw std::runtime_error("threads are 1 to 1024");
        open_device();
        // Not destroyed: what a peer does at its end is not measured, and must not lose the rows.
        Peer *const peer = new Peer(scenario.capacity * threads);
        uint64_t live = 0;
        const auto outcomes = run(*peer, scenario, threads, seconds, live);
        print(scenario, outcomes, *peer, static_cast<double>(live));
        std::fflush(stdout);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", Peer::name, error.what());
        return 1;
    }
    std::_Exit(0);
}
