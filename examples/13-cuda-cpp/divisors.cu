// Every thread lists the divisors of its number, in a block that grows as it finds more; another kernel reads the lists
// and frees them. The host sees how full the heap is in between.
//
//   divisors [NUMBERS]

#include <scatterheap.h>
#include <scatterheap/heap.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

struct List {
    unsigned *values; // NULL if there was no memory
    unsigned count;
};

__global__ void list_divisors(const __grid_constant__ scatterheap_handle heap, List *lists, unsigned numbers) {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= numbers) {
        return;
    }
    const unsigned number = index + 1;
    unsigned room = 4, count = 0;
    auto *values = static_cast<unsigned *>(scatterheap_malloc(&heap, room * sizeof(unsigned)));
    for (unsigned divisor = 1; values != nullptr && divisor <= number / divisor; ++divisor) {
        if (number % divisor != 0) {
            continue;
        }
        if (count + 2 > room) {
            void *larger = scatterheap_realloc(&heap, values, 2 * room * sizeof(unsigned));
            if (larger == nullptr) {
                scatterheap_free(&heap, values);
                values = nullptr;
                break;
            }
            values = static_cast<unsigned *>(larger);
            room *= 2;
        }
        values[count++] = divisor;
        if (divisor != number / divisor) {
            values[count++] = number / divisor;
        }
    }
    lists[index] = {values, count};
}

__global__ void sum_divisors(const __grid_constant__ scatterheap_handle heap, const List *lists, unsigned numbers,
                             unsigned long long *sums) {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= numbers) {
        return;
    }
    const List list = lists[index];
    unsigned long long sum = 0;
    for (unsigned place = 0; list.values != nullptr && place < list.count; ++place) {
        sum += list.values[place];
    }
    sums[index] = sum;
    scatterheap_free(&heap, list.values);
}

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        throw std::runtime_error(cudaGetErrorString(status));
    }
}

static int run(unsigned numbers) {
    const unsigned threads = 256, blocks = (numbers + threads - 1) / threads;
    scatterheap::Heap heap("1GiB");
    List *lists = nullptr;
    unsigned long long *sums = nullptr;
    check(cudaMalloc(&lists, numbers * sizeof *lists));
    check(cudaMalloc(&sums, numbers * sizeof *sums));

    list_divisors<<<blocks, threads>>>(heap.handle(), lists, numbers);
    check(cudaGetLastError());
    const scatterheap_occupancy full = heap.snapshot(); // waits for the kernel
    std::printf("%llu lists in %.1f MiB of %.1f MiB\n", static_cast<unsigned long long>(full.used_blocks),
                full.used_bytes / 1048576.0, full.capacity / 1048576.0);

    sum_divisors<<<blocks, threads>>>(heap.handle(), lists, numbers, sums);
    check(cudaGetLastError());
    const scatterheap_occupancy empty = heap.snapshot();
    heap.check_invariants();

    std::vector<unsigned long long> found(numbers), expected(numbers);
    check(cudaMemcpy(found.data(), sums, numbers * sizeof *sums, cudaMemcpyDeviceToHost));
    for (unsigned divisor = 1; divisor <= numbers; ++divisor) {
        for (unsigned long long multiple = divisor; multiple <= numbers; multiple += divisor) {
            expected[multiple - 1] += divisor;
        }
    }
    const bool right = found == expected;
    std::printf("sums of divisors: %s; %llu blocks left, %llu requests failed, %llu calls refused\n",
                right ? "right" : "WRONG", static_cast<unsigned long long>(empty.used_blocks),
                static_cast<unsigned long long>(empty.failures), static_cast<unsigned long long>(empty.misuses));
    check(cudaFree(lists));
    check(cudaFree(sums));
    return right && empty.used_blocks == 0 && empty.failures == 0 && empty.misuses == 0 ? 0 : 1;
}

int main(int count, char **arguments) {
    try {
        const long numbers = count > 1 ? std::atol(arguments[1]) : 1000000;
        if (numbers < 1 || numbers > 100000000) {
            throw std::runtime_error(std::string("`") + arguments[1] + "` is no number from 1 to 100000000");
        }
        return run(static_cast<unsigned>(numbers));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
