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
// What is measured is what docs/resources.md says, and how it is cut short as by `scatterheap resources`: the untimed
// round, the timed rounds and the one after them may take SECONDS each, and each part goes on where the last one ended.
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

/// Pairs that all threads must have done while they were timed, so that a figure means something.
constexpr uint64_t least_pairs = 100;
/// How many times longer the untimed round may take if a part of it, one over this, is done by then.
constexpr uint64_t patience = 8;

/// The time of a part. The clock is looked at seldom where operations are fast, and often where they are slow.
class Pace {
  public:
    explicit Pace(double seconds) : begin(Clock::now()), last(begin), limit(duration(seconds)) {}

    /// Counts an operation; whether the time is over.
    bool is_over() { return --left == 0 && look(); }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }

    void extend(double seconds) { limit = duration(seconds); }

  private:
    static Clock::duration duration(double seconds) {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }

    bool look() {
        const Clock::time_point now = Clock::now();
        const bool took_long = now - last > limit / 64;
        stride = took_long ? std::max<uint64_t>(stride / 2, 1) : std::min<uint64_t>(stride * 2, 256);
        left = stride;
        last = now;
        return now - begin >= limit;
    }

    Clock::time_point begin, last;
    Clock::duration limit;
    uint64_t stride = 1, left = 1;
};

/// What one thread did.
struct Outcome {
    /// In all rounds.
    uint64_t operations = 0;
    uint64_t failures = 0;
    /// Operations in the timed rounds.
    uint64_t timed = 0;
    uint64_t calls = 0;
    double seconds = 0;
    /// Allocations in the round that counts hits.
    uint64_t observed = 0;
    uint64_t hits = 0;
    std::string error;
};

/// One thread: its stream, its blocks, and where in the scenario it is.
class Worker {
  public:
    Worker(Peer &peer, const Scenario &scenario) : peer(peer), scenario(scenario), blocks(scenario.slots) {}

    void open() {
        open_device();
        stream = make_stream();
    }

    /// A round that is not timed.
    void warm_up(double seconds) {
        Pace pace(seconds);
        const uint64_t round = scenario.operations.size(), done = advance(round, pace);
        if (done < round / patience) return;
        pace.extend(seconds * patience);
        advance(round - done, pace);
    }

    /// The timed rounds.
    void measure(double seconds) {
        const uint64_t calls = counters.calls;
        Pace pace(seconds);
        outcome.timed = advance(scenario.rounds * scenario.operations.size(), pace);
        outcome.seconds = pace.seconds();
        outcome.calls = counters.calls - calls;
    }

    /// One more round, in which allocations that led to no call are counted.
    void count_hits(double seconds) {
        const uint64_t misses = counters.misses, allocated = allocations, failures = outcome.failures;
        Pace pace(seconds);
        advance(scenario.operations.size(), pace);
        outcome.observed = allocations - allocated;
        const uint64_t without = outcome.observed - (counters.misses - misses), failed = outcome.failures - failures;
        // What failed is no hit, and may have led to a call or not.
        outcome.hits = without > failed ? without - failed : 0;
    }

    /// Frees what is live.
    void finish() {
        for (; position < scenario.operations.size(); ++position) {
            if (!scenario.operations[position].allocates) perform(scenario.operations[position]);
        }
    }

    Outcome outcome;

  private:
    /// Goes on for so many operations, or until the time is over; the operations that were done.
    uint64_t advance(uint64_t most, Pace &pace) {
        uint64_t done = 0;
        while (done < most) {
            const Operation &operation = scenario.operations[position];
            if (++position == scenario.operations.size()) position = 0;
            perform(operation);
            ++done;
            if (pace.is_over()) break;
        }
        outcome.operations += done;
        return done;
    }

    void perform(const Operation &operation) {
        void *&block = blocks[operation.slot];
        if (operation.allocates) {
            counters.allocation = ++allocations;
            block = peer.allocate(operation.bytes, stream);
            counters.allocation = 0;
            if (!block) ++outcome.failures;
        } else if (block) {
            peer.deallocate(block, operation.bytes, stream);
            block = nullptr;
        }
    }

    Peer &peer;
    const Scenario &scenario;
    std::vector<void *> blocks;
    Stream stream{};
    size_t position = 0;
    uint64_t allocations = 0;
};

/// Runs all threads; what each did.
inline std::vector<Outcome> run(Peer &peer, const Scenario &scenario, unsigned threads, double seconds) {
    std::barrier together(threads);
    std::vector<Outcome> outcomes(threads);
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
        attempt([&] { worker.warm_up(seconds); });
        attempt([&] { wait_for_device(); });
        together.arrive_and_wait();
        attempt([&] { worker.measure(seconds); });
        together.arrive_and_wait();
        attempt([&] { worker.count_hits(seconds); });
        together.arrive_and_wait();
        attempt([&] { worker.finish(); });
        together.arrive_and_wait();
        outcomes[index] = worker.outcome;
    };
    std::vector<std::thread> running;
    for (unsigned index = 0; index < threads; ++index) running.emplace_back(work, index);
    for (std::thread &thread : running) thread.join();
    return outcomes;
}

inline void row(const Scenario &scenario, unsigned threads, const char *metric, double value) {
    std::printf("%s,%s,%u,%s,%.9g\n", scenario.name.c_str(), Peer::name, threads, metric, value);
}

inline void print(const Scenario &scenario, const std::vector<Outcome> &outcomes, Peer &peer) {
    const auto threads = static_cast<unsigned>(outcomes.size());
    const auto reserved = static_cast<double>(peer.reserved());
    const bool counts_calls = peer.counts_calls();
    double live = 0;
    Outcome sum;
    sum.operations = UINT64_MAX;
    for (const Outcome &outcome : outcomes) {
        if (!outcome.error.empty()) throw std::runtime_error(outcome.error);
        sum.seconds += outcome.seconds;
        live += static_cast<double>(scenario.peak_of_first(outcome.operations));
        sum.operations = std::min(sum.operations, outcome.operations);
        sum.timed += outcome.timed;
        sum.failures += outcome.failures;
        sum.calls += outcome.calls;
        sum.observed += outcome.observed;
        sum.hits += outcome.hits;
    }
    const uint64_t pairs = sum.timed / 2;
    if (pairs < least_pairs) {
        throw std::runtime_error(std::to_string(pairs) + " pairs are too few for a figure: give it more seconds");
    }
    // Of all threads' pairs, so that one that got no core for a while counts as little as it did.
    row(scenario, threads, "ns_per_pair", sum.seconds * 2e9 / static_cast<double>(sum.timed));
    row(scenario, threads, "pairs", static_cast<double>(pairs));
    if (reserved > 0 && live > 0) {
        row(scenario, threads, "reserved_over_live", reserved / live);
        row(scenario, threads, "operations", static_cast<double>(sum.operations));
    }
    if (counts_calls && sum.observed > 0) {
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
