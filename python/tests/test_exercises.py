"""Pools, arenas, trackers, and maps of fragmentation."""

import pathlib
import random
import tempfile
import unittest
import xml.etree.ElementTree

import scatterheap
from devices import DEVICES, require_module
from scatterheap import maps

KIB = 1 << 10
MIB = 1 << 20


class Pools(unittest.TestCase):
    def test_a_pool_serves_its_blocks_again_and_no_more(self):
        for device in DEVICES:
            with self.subTest(device=device), scatterheap.Pool(4 * KIB, 3, device) as pool:
                blocks = [pool.allocate() for _ in range(3)]
                self.assertEqual(len({block.address for block in blocks}), 3)
                self.assertEqual((pool.used, pool.free), (3, 0))
                with self.assertRaises(scatterheap.OutOfMemory):
                    pool.allocate()
                freed = blocks[1].address
                blocks[1].free()
                self.assertEqual(pool.free, 1)
                self.assertEqual(pool.allocate().address, freed)


class Arenas(unittest.TestCase):
    def test_blocks_lie_behind_each_other_and_are_freed_together(self):
        for device in DEVICES:
            with self.subTest(device=device), scatterheap.Arena(64 * MIB, device) as arena:
                first, second = arena.allocate(1000), arena.allocate(5 * MIB)
                self.assertEqual(second, first + KIB)
                self.assertEqual(arena.used, KIB + 5 * MIB)
                with arena.scope():
                    inner = arena.allocate(MIB)
                    with arena.scope():
                        arena.allocate(MIB)
                        with self.assertRaisesRegex(scatterheap.Error, "scope"):
                            arena.reset()
                    self.assertEqual(arena.used, KIB + 6 * MIB)
                self.assertEqual(arena.used, KIB + 5 * MIB)
                self.assertEqual(arena.allocate(10), inner)
                mapped = arena.mapped
                arena.reset()
                self.assertEqual((arena.used, arena.mapped), (0, mapped))
                self.assertEqual(arena.allocate(10), first)
                with self.assertRaises(scatterheap.OutOfMemory):
                    arena.allocate(64 * MIB)


class Wrapper:
    """A resource without some of what it has, and with something to do before a reset returns."""

    def __init__(self, resource, hidden):
        self._resource = resource
        self._hidden = hidden

    def after_reset(self):
        pass

    def reset(self):
        self._resource.reset()
        self.after_reset()

    def __getattr__(self, name):
        if name in self._hidden:
            raise AttributeError(name)
        return getattr(self._resource, name)


class Trackers(unittest.TestCase):
    def test_a_reset_is_the_end_of_all_blocks(self):
        memory = scatterheap.Tracker(scatterheap.Resource("cpu", "arena=1MiB"))
        memory.allocate(1000)
        memory.reset()
        self.assertEqual(memory.live(), [])
        other = scatterheap.Tracker(scatterheap.Resource("cpu", "caching"))
        other.allocate(1000)
        with self.assertRaisesRegex(scatterheap.Error, "arena"):
            other.reset()
        self.assertEqual(len(other.live()), 1)

    def test_what_is_live_is_told_by_its_line(self):
        memory = scatterheap.Tracker(scatterheap.Resource("cpu", "statistics,caching"))

        def leak():
            return memory.allocate(1000)

        kept = [leak() for _ in range(3)]
        memory.deallocate(memory.allocate(77), 77)
        with self.assertRaises(scatterheap.Error):
            memory.deallocate(kept[0], 999)
        (place, count, size), *others = memory.live()
        self.assertEqual((count, size, others), (3, 3000, []))
        line = leak.__code__.co_firstlineno + 1
        self.assertTrue(place.endswith(f"test_exercises.py:{line}"), place)
        self.assertTrue(memory.report().startswith("3 blocks of 3000 bytes are live"), memory.report())
        self.assertEqual(memory.statistics()["allocations"], 4)
        for address in kept:
            memory.deallocate(address, 1000)
        self.assertEqual(memory.live(), [])

    def test_what_comes_during_a_reset_is_remembered(self):
        for hidden in [(), ("generation",)]:
            memory = Wrapper(scatterheap.Resource("cpu", "arena=1MiB"), hidden)
            tracked = scatterheap.Tracker(memory)
            tracked.allocate(1000)
            # As another thread may, before the tracker has seen to its own.
            memory.after_reset = lambda: tracked.allocate(2000)
            tracked.reset()
            # What does not tell its resets cannot tell which blocks they took.
            self.assertEqual([entry[1:] for entry in tracked.live()], [] if hidden else [(1, 2000)])
            memory.after_reset = lambda: None
            tracked.reset()
            self.assertEqual(tracked.live(), [])

    def test_a_tracker_may_be_used_as_a_resource(self):
        memory = scatterheap.Tracker(scatterheap.Resource("cpu"), depth=2)
        with scatterheap.Block(memory, 5000):
            self.assertIn("test_exercises.py", memory.live()[0][0])
        self.assertEqual(memory.live(), [])


class Fragmentations(unittest.TestCase):
    def holes(self, composition):
        """A resource of which every other block was freed, in random order."""
        memory = scatterheap.Resource("cpu", composition)
        blocks = [memory.allocate(64 * KIB) for _ in range(64)]
        freed = blocks[::2]
        random.Random(1).shuffle(freed)
        for address in freed:
            memory.deallocate(address, 64 * KIB)
        return memory

    def test_the_figures_say_how_free_memory_lies(self):
        found = scatterheap.fragmentation(self.holes("segments"))
        self.assertEqual(found.live_bytes, 32 * 64 * KIB)
        self.assertEqual(found.free_bytes, found.reserved_bytes - found.live_bytes)
        # The holes, and the rest of the segment behind the last block.
        self.assertEqual(found.free_pieces, 33)
        self.assertEqual(found.largest_free_bytes, found.reserved_bytes - 4 * MIB)
        self.assertAlmostEqual(found.share, 2 * MIB / found.free_bytes)
        self.assertIn(f"{found.share:.1%} fragmented", str(found))
        empty = scatterheap.fragmentation(scatterheap.Resource("cpu", "caching"))
        self.assertEqual((empty.reserved_bytes, empty.share), (0, 0.0))
        with self.assertRaisesRegex(scatterheap.Error, "use `caching`"):
            scatterheap.fragmentation(scatterheap.Resource("cpu", "slab"))

    def test_a_map_shows_every_place(self):
        memory = self.holes("tracking,caching")
        (places,) = maps.segments(memory)
        states = [state for _, _, state in places]
        self.assertEqual((states.count("live"), states.count("kept")), (32, 32))
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "map.svg")
            found = scatterheap.plot(memory, file)
            self.assertEqual(found.kept_bytes, 32 * 64 * KIB)
            self.assertEqual(sum(size for _, size, _ in places), found.reserved_bytes)
            root = xml.etree.ElementTree.parse(file).getroot()
            places_drawn = root.findall(".//{http://www.w3.org/2000/svg}title")
            self.assertEqual(len(places_drawn), len(places))
            with self.assertRaisesRegex(scatterheap.Error, "svg"):
                scatterheap.plot(memory, pathlib.Path(directory, "map.gif"))

    def test_a_map_as_png(self):
        require_module("matplotlib", "maps as PNG")
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "map.png")
            scatterheap.plot(self.holes("caching"), file)
            self.assertEqual(file.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main()
