// Scenarios as `scatterheap resources --write-scenarios` writes them; docs/resources.md has the format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// A line of a trace.
struct Operation {
    bool allocates;
    uint32_t slot;
    uint64_t bytes;
};

/// What each thread does in a round, and how often.
struct Scenario {
    std::string name;
    uint64_t rounds = 0;
    /// Bytes that the allocator may have for each thread; 0 if there is no limit.
    uint64_t capacity = 0;
    std::vector<Operation> operations;
    size_t slots = 0;

    /// The most bytes that are live at once if a thread does so many operations only.
    uint64_t peak_of_first(uint64_t count) const {
        uint64_t live = 0, peak = 0;
        for (size_t index = 0; index < operations.size() && index < count; ++index) {
            const Operation &operation = operations[index];
            live += operation.allocates ? operation.bytes : -operation.bytes;
            peak = std::max(peak, live);
        }
        return peak;
    }
};

inline std::vector<std::string> fields_of(const std::string &line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) {
        while (!field.empty() && (field.back() == '\r' || field.back() == ' ')) field.pop_back();
        fields.push_back(field);
    }
    return fields;
}

inline std::ifstream open_table(const std::string &path, const std::string &header) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line)) throw std::runtime_error(path + " cannot be read, or is empty");
    if (line.rfind(header, 0) != 0) throw std::runtime_error(path + " begins with `" + line + "`, not `" + header + "`");
    return file;
}

inline void read_operations(Scenario &scenario, const std::string &path) {
    std::ifstream file = open_table(path, "thread,operation,id,bytes");
    std::vector<bool> is_live;
    for (std::string line; std::getline(file, line);) {
        const auto fields = fields_of(line);
        if (fields.size() != 4 || (fields[1] != "a" && fields[1] != "f")) {
            throw std::runtime_error(path + " has the line `" + line + "`, which is no operation");
        }
        const Operation operation{fields[1] == "a", static_cast<uint32_t>(std::stoul(fields[2])), std::stoull(fields[3])};
        if (operation.slot >= is_live.size()) is_live.resize(operation.slot + 1);
        if (is_live[operation.slot] == operation.allocates) {
            throw std::runtime_error(path + ": `" + line + "` allocates a slot that is live, or frees one that is not");
        }
        is_live[operation.slot] = operation.allocates;
        scenario.operations.push_back(operation);
    }
    for (bool live : is_live) {
        if (live) throw std::runtime_error(path + " leaves blocks that are live: another round could not begin");
    }
    scenario.slots = is_live.size();
}

/// Reads the scenario of this name from a directory.
inline Scenario read_scenario(const std::string &directory, const std::string &name) {
    std::ifstream file = open_table(directory + "/scenarios.csv", "scenario,file,rounds,capacity");
    for (std::string line; std::getline(file, line);) {
        const auto fields = fields_of(line);
        if (fields.size() != 4 || fields[0] != name) continue;
        Scenario scenario;
        scenario.name = name;
        scenario.rounds = std::stoull(fields[2]);
        scenario.capacity = std::stoull(fields[3]);
        read_operations(scenario, directory + "/" + fields[1]);
        return scenario;
    }
    throw std::runtime_error(directory + "/scenarios.csv has no scenario `" + name + "`");
}
