"""A pool, an arena, a tracker and a map of fragmentation, on a GPU if there is one.

    python exercises.py [MAP.svg]
"""

import random
import sys

import scatterheap

KIB, MIB = 1 << 10, 1 << 20


def pool():
    """Blocks of one size, from one piece of memory."""
    with scatterheap.Pool(4 * KIB, 100) as pool:
        blocks = [pool.allocate() for _ in range(60)]
        for block in blocks[:20]:
            block.free()
        print(f"{pool}: {pool.used} used, {pool.free} free")
        del block, blocks


def arena():
    """Temporary memory of a computation, freed at once."""
    with scatterheap.Arena(256 * MIB) as arena:
        arena.allocate(10 * MIB)
        for _ in range(3):
            with arena.scope():
                for _ in range(10):
                    arena.allocate(2 * MIB)
                inside = arena.used
        print(f"{arena}: {inside // MIB} MiB used in a scope, {arena.used // MIB} after it, {arena.mapped // MIB} mapped")


def tracking():
    """Who forgot to free."""
    memory = scatterheap.Tracker(scatterheap.Resource())
    for size in (100, 200, 300):
        address = memory.allocate(size)
        if size != 200:
            memory.deallocate(address, size)
    print(memory.report())


def fragmentation(file):
    """What random sizes and lifetimes leave behind."""
    memory = scatterheap.Resource("auto", "tracking,segments")
    numbers, live = random.Random(7), []
    for _ in range(4000):
        if live and numbers.random() < 0.48:
            memory.deallocate(*live.pop(numbers.randrange(len(live))))
        else:
            size = 1 << numbers.randrange(8, 21)
            live.append((memory.allocate(size), size))
    print(scatterheap.plot(memory, file) if file else scatterheap.fragmentation(memory))


def main():
    pool()
    arena()
    tracking()
    fragmentation(sys.argv[1] if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
