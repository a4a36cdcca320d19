"""Lists whose lengths nobody knows before: the neighbours of each point, which threads of a Numba kernel put into blocks that
grow. Compared with NumPy. Needs a GPU, numba-cuda and NumPy.

    python numba_neighbours.py [POINTS]
"""

import sys
import time

import numpy as np
from numba import cuda

import scatterheap
from scatterheap.numba import array, free, malloc, realloc

SIDE = 1 << 16
REACH = 1300


@cuda.jit(max_registers=64)
def find(heap, points, lists, lengths):
    """Each thread lists the neighbours of its point."""
    own = cuda.grid(1)
    if own >= points.shape[0]:
        return
    room, length = 4, 0
    address = malloc(heap, room * 4)
    for other in range(points.shape[0]):
        across = points[own, 0] - points[other, 0]
        along = points[own, 1] - points[other, 1]
        if other == own or across * across + along * along > REACH * REACH:
            continue
        if address != 0 and length == room:
            room *= 2
            larger = realloc(heap, address, room * 4)
            if larger == 0:
                free(heap, address)
            address = larger
        if address == 0:
            length = -1  # Nothing was left.
            break
        array(address, room, np.int32)[length] = other
        length += 1
    lists[own], lengths[own] = address, length


@cuda.jit(max_registers=64)
def gather(heap, lists, lengths, begins, neighbours):
    """Each thread copies its list to where it belongs, and frees it."""
    own = cuda.grid(1)
    if own >= lists.size:
        return
    listed = array(lists[own], lengths[own], np.int32)
    for index in range(lengths[own]):
        neighbours[begins[own] + index] = listed[index]
    free(heap, lists[own])


def reference(points):
    """The same by NumPy: begins and neighbours."""
    found = []
    for own, point in enumerate(points):
        near = ((points - point) ** 2).sum(axis=1) <= REACH * REACH
        near[own] = False
        found.append(np.flatnonzero(near).astype(np.int32))
    return np.cumsum([0, *map(len, found)]), np.concatenate(found)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    host_points = np.random.default_rng(5).integers(0, SIDE, (count, 2))
    points = cuda.to_device(host_points)
    heap = scatterheap.Heap("256MiB", "cuda:0")
    lists = cuda.to_device(np.zeros(count, np.uint64))
    lengths = cuda.to_device(np.zeros(count, np.int64))
    grid = (count + 127) // 128

    find[grid, 128](heap.address, points, lists, lengths)  # Compiles.
    heap.reset()
    cuda.synchronize()
    start = time.perf_counter()
    find[grid, 128](heap.address, points, lists, lengths)
    cuda.synchronize()
    took = time.perf_counter() - start
    counts = lengths.copy_to_host()
    if (counts < 0).any():
        sys.exit("the heap was too small")
    snapshot = heap.snapshot()
    print(f"{count} points on {snapshot.device_name}: {counts.sum()} neighbours, at most {counts.max()} of a point")
    print(f"found in {1e3 * took:.3f} ms; the lists are {snapshot.occupancy['used_blocks']} blocks of "
          f"{snapshot.occupancy['used_bytes']} bytes")

    begins = np.concatenate([[0], np.cumsum(counts)])
    neighbours = cuda.device_array(int(counts.sum()), np.int32)
    gather[grid, 128](heap.address, lists, lengths, cuda.to_device(begins), neighbours)
    expected_begins, expected = reference(host_points)
    if not (np.array_equal(begins, expected_begins) and np.array_equal(neighbours.copy_to_host(), expected)):
        sys.exit("NumPy finds others")
    print(f"NumPy finds the same, and {heap.occupancy()['used_blocks']} blocks are left")


if __name__ == "__main__":
    main()
