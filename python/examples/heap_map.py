"""Blocks of random sizes and lifetimes in a heap, and a map of what they leave behind; on a GPU if there is one.

    python heap_map.py [MAP.png]
"""

import sys

import numpy as np

import scatterheap


def main():
    numbers = np.random.default_rng(7)
    with scatterheap.Heap("64MiB") as heap:
        live = np.empty(0, np.uint64)
        for _ in range(20):
            sizes = (2 ** numbers.uniform(4, 14, 2000)).astype(np.uint64)
            live = np.concatenate([live, heap.malloc_each(sizes)])
            numbers.shuffle(live)
            going, live = np.split(live, [len(live) // 2])
            heap.free_each(going)
        snapshot = heap.snapshot()
        print(snapshot)
        figures = snapshot.occupancy
        print(f"one request could have {figures['largest_request']} bytes")
        print(f"{figures['external_fragmentation']:.1%} of the free pages lie outside the longest run of them")

        print("\n blocks of   handed out   slabs")
        for row in snapshot.classes:
            print(f"{row['slot_bytes']:>10} {row['used']:>12} {row['slabs']:>7}")

        # The same blocks, one by one.
        blocks = snapshot.live
        assert set(blocks["address"]) == set(live) and blocks["bytes"].sum() == figures["used_bytes"]
        assert not snapshot.violations()
        if len(sys.argv) > 1:
            snapshot.map(sys.argv[1])
            print(f"\nthe map is in {sys.argv[1]}")

        heap.free_each(live)
        print(f"{heap.occupancy()['used_blocks']} blocks are left")


if __name__ == "__main__":
    main()
