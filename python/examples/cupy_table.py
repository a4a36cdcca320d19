"""A hash table with chained buckets, in CUDA C++ that CuPy compiles: all threads count numbers in it at once. Compared with
NumPy. Needs a GPU and CuPy.

    python cupy_table.py [NUMBERS]
"""

import sys

import cupy
import numpy as np

import scatterheap
import scatterheap.cupy

SOURCE = r"""
struct Node { unsigned number, count; Node* next; };

// The node of a number between two nodes of a chain.
__device__ Node* find(Node* node, Node* end, unsigned number) {
    for (; node != end; node = node->next)
        if (node->number == number) return node;
    return nullptr;
}

extern "C" __global__ void count_numbers(void* heap, Node** buckets, unsigned mask, const unsigned* numbers, int count,
                                         int* lost) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    unsigned number = numbers[thread];
    Node* volatile* bucket = (Node* volatile*)buckets + (number * 2654435769u >> 7 & mask);
    Node *fresh = nullptr, *searched = nullptr;
    for (;;) {
        Node* first = *bucket;
        __threadfence();
        if (Node* node = find(first, searched, number)) {
            atomicAdd(&node->count, 1);
            scatterheap_free(heap, fresh);
            return;
        }
        searched = first;
        if (!fresh) fresh = (Node*)scatterheap_malloc(heap, sizeof(Node));
        if (!fresh) {
            atomicAdd(lost, 1);
            return;
        }
        *fresh = {number, 1, first};
        __threadfence();  // Whoever finds the node finds it written.
        if (atomicCAS((unsigned long long*)bucket, (unsigned long long)first, (unsigned long long)fresh) ==
            (unsigned long long)first)
            return;
    }
}

// Writes each number and its count, and frees the nodes: a thread for each bucket.
extern "C" __global__ void empty_table(void* heap, Node** buckets, unsigned mask, unsigned* numbers, unsigned* counts,
                                       unsigned* written) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread > mask) return;
    for (Node* node = buckets[thread]; node;) {
        unsigned place = atomicAdd(written, 1);
        numbers[place] = node->number;
        counts[place] = node->count;
        Node* next = node->next;
        scatterheap_free(heap, node);
        node = next;
    }
    buckets[thread] = nullptr;
}
"""


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    heap = scatterheap.Heap("256MiB", "cuda:0")
    table = scatterheap.cupy.module(SOURCE)
    numbers = np.random.default_rng(3).zipf(1.2, count).astype(np.uint32)

    size = 1 << max(10, (count // 4).bit_length())
    buckets = cupy.zeros(size, cupy.uint64)
    lost = cupy.zeros(1, cupy.int32)
    given = cupy.asarray(numbers)
    threads = 256
    arguments = (heap.address, buckets, np.uint32(size - 1), given, np.int32(count), lost)
    table.get_function("count_numbers")(((count + threads - 1) // threads,), (threads,), arguments)
    if int(lost[0]):
        sys.exit("the heap was too small")
    snapshot = heap.snapshot()
    used = snapshot.occupancy
    print(f"{count} numbers on {snapshot.device_name}: {used['used_blocks']} nodes of {used['used_bytes']} bytes")

    different = used["used_blocks"]
    found, counts = cupy.zeros(different, cupy.uint32), cupy.zeros(different, cupy.uint32)
    written = cupy.zeros(1, cupy.uint32)
    arguments = (heap.address, buckets, np.uint32(size - 1), found, counts, written)
    table.get_function("empty_table")(((size + threads - 1) // threads,), (threads,), arguments)
    order = cupy.argsort(found)
    expected, expected_counts = np.unique(numbers, return_counts=True)
    same = np.array_equal(cupy.asnumpy(found[order]), expected) and np.array_equal(
        cupy.asnumpy(counts[order]), expected_counts.astype(np.uint32)
    )
    if not same:
        sys.exit("NumPy counts differently")
    print(f"NumPy counts the same, and {heap.occupancy()['used_blocks']} blocks are left")


if __name__ == "__main__":
    main()
