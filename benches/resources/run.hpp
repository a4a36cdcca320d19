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

/// What one thread did.
struct Outcome {
    /// In all rounds.
    uint64_t allocations = 0;
    uint64_t failures = 0;
    /// In the timed ones.
    uint64_t timed = 0;
    uint64_t calls = 0;
    double seconds = 0;
    /// In the round that counts hits.
    uint64_t observed = 0;
    uint64_t hits = 0;
    /// Whether a whole round was run, with all that is ever live at once.
    bool was_whole = false;
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

    /// A round that is not timed.
    void warm_up(Clock::time_point end) { round(end); }

    /// The timed rounds.
    void measure(Clock::time_point end) {
        const uint64_t calls = counters.calls, allocations = outcome.allocations;
        const Clock::time_point start = Clock::now();
        for (uint64_t index = 0; index < scenario.rounds; ++index) {
            if (!round(end)) break;
        }
        outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
        outcome.calls = counters.calls - calls;
        outcome.timed = outcome.allocations - allocations;
    }

    /// One more round, in which allocations that led to no call are counted.
    void count_hits(Clock::time_point end) {
        const Outcome before = outcome;
        const uint64_t misses = counters.misses;
        round(end);
        const uint64_t allocations = outcome.allocations - before.allocations;
        const uint64_t failures = outcome.failures - before.failures;
        const uint64_t without = allocations - (counters.misses - misses);
        outcome.observed = allocations;
        // What failed is no hit, and may have led to a call or not.
        outcome.hits = without > failures ? without - failures : 0;
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
        outcome.was_whole = true;
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

/// Runs all threads; what each did.
inline std::vector<Outcome> run(Peer &peer, const Scenario &scenario, unsigned threads, double seconds) {
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
        attempt([&] { worker.warm_up(Clock::now() + time); });
        attempt([&] { wait_for_device(); });
        together.arrive_and_wait();
        attempt([&] { worker.measure(Clock::now() + time); });
        together.arrive_and_wait();
        attempt([&] { worker.count_hits(Clock::now() + time); });
        together.arrive_and_wait();
        outcomes[index] = worker.outcome;
    };
    std::vector<std::thread> running;
    for (unsigned index = 0; index < threads; ++index) running.emplace_back(work, index);
    for (std::thread &thread : running) thread.join();
    return outcomes;
}

inline void row(const Scenario &scenario, unsigned threads, const char *metric, double value) {
    std::printf("%s,%s,%u,%s,%.6g\n", scenario.name.c_str(), Peer::name, threads, metric, value);
}

inline void print(const Scenario &scenario, const std::vector<Outcome> &outcomes, Peer &peer) {
    const auto threads = static_cast<unsigned>(outcomes.size());
    const auto reserved = static_cast<double>(peer.reserved());
    const double live = static_cast<double>(scenario.peak) * threads;
    const bool counts_calls = peer.counts_calls();
    double slowest = 0;
    bool was_whole = true;
    Outcome sum;
    for (const Outcome &outcome : outcomes) {
        if (!outcome.error.empty()) throw std::runtime_error(outcome.error);
        if (outcome.timed > 0) slowest = std::max(slowest, outcome.seconds / static_cast<double>(outcome.timed));
        was_whole = was_whole && outcome.was_whole;
        sum.timed += outcome.timed;
        sum.failures += outcome.failures;
        sum.calls += outcome.calls;
        sum.observed += outcome.observed;
        sum.hits += outcome.hits;
    }
    if (sum.timed == 0) throw std::runtime_error("no allocation was timed: give it more seconds");
    row(scenario, threads, "ns_per_pair", slowest * 1e9);
    if (was_whole && reserved > 0 && live > 0) row(scenario, threads, "reserved_over_live", reserved / live);
    if (counts_calls) {
        row(scenario, threads, "hit_rate", static_cast<double>(sum.hits) / static_cast<double>(sum.observed));
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
        const auto outcomes = run(*peer, scenario, threads, seconds);
        print(scenario, outcomes, *peer);
        std::fflush(stdout);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", Peer::name, error.what());
        return 1;
    }
    std::_Exit(0);
}
