"""Heaps and what they hold, on every device there is."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib

import numpy as np

import scatterheap
from devices import DEVICES, GPU
from scatterheap import PageUse

MIB = 1 << 20


def pixels(png):
    """Width, height and colours of a PNG of bytes in red, green and blue."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, data = 8, b""
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", content[:10])
            assert (depth, colour) == (8, 2)
        data += content if kind == b"IDAT" else b""
        place += 12 + length
    assert len(zlib.decompress(data)) == height * (3 * width + 1)
    return width, height


class Heaps(unittest.TestCase):
    def on_each_device(self, capacity="16MiB", **how):
        for device in DEVICES:
            with self.subTest(device=device, **how), scatterheap.Heap(capacity, device, **how) as heap:
                yield heap

    def test_blocks_are_given_listed_and_taken_back(self):
        for heap in self.on_each_device():
            sizes = np.random.default_rng(1).integers(1, 3000, 2000)
            addresses = heap.malloc_each(sizes)
            self.assertEqual((addresses.dtype, len(addresses)), (np.uint64, 2000))
            self.assertTrue((addresses != 0).all() and (addresses % 16 == 0).all())
            live = heap.snapshot().live
            self.assertEqual(live.dtype.names, ("address", "bytes", "class"))
            order = np.argsort(addresses)
            np.testing.assert_array_equal(live["address"], addresses[order])
            self.assertTrue((live["bytes"] >= sizes[order].astype(np.uint64)).all())
            self.assertTrue((live["address"][1:] >= live["address"][:-1] + live["bytes"][:-1]).all())
            heap.free_each(addresses[::2])
            heap.free_each([])
            np.testing.assert_array_equal(heap.snapshot().live["address"], np.sort(addresses[1::2]))
            heap.free_each(addresses[1::2])
            self.assertEqual(heap.occupancy()["used_blocks"], 0)

    def test_calls_of_threads_come_one_after_another(self):
        with scatterheap.Heap("4MiB", "cpu") as heap:
            over = threading.Event()

            def allocate():
                while not over.is_set():
                    # A reset may take it back: then it is refused.
                    heap.free(heap.malloc(100))

            threads = [threading.Thread(target=allocate) for _ in range(2)]
            for thread in threads:
                thread.start()
            found = []
            for _ in range(100):
                found += heap.snapshot().violations()
                heap.reset()
            over.set()
            for thread in threads:
                thread.join()
            self.assertEqual(found + heap.snapshot().violations(), [])

    def test_arrays_and_figures_agree(self):
        for heap in self.on_each_device():
            heap.malloc_each([16] * 500 + [1000] * 40 + [3 * MIB])
            snapshot = heap.snapshot()
            figures, classes, pages, live = snapshot.occupancy, snapshot.classes, snapshot.pages, snapshot.live
            self.assertEqual((figures["used_blocks"], len(live)), (541, 541))
            self.assertEqual(figures["used_bytes"], live["bytes"].sum())
            self.assertEqual(figures["capacity"], 16 * MIB)
            self.assertEqual(dict(zip(classes["slot_bytes"], classes["used"]))[16], 500)
            self.assertEqual(len(pages), 16 * MIB // figures["page_bytes"])
            for use, key in [(PageUse.FREE, "free"), (PageUse.SLAB, "in_slabs"), (PageUse.RUN, "in_runs")]:
                self.assertEqual((pages["use"] == use).sum(), figures["pages"][key])
            run = live[live["class"] == -1]
            self.assertEqual((len(run), run["bytes"][0] >= 3 * MIB), (1, True))
            first = (run["address"][0] - snapshot.base) // figures["page_bytes"]
            self.assertTrue((pages["head"][pages["use"] == PageUse.RUN] == first).all())
            self.assertTrue((pages["used"][pages["use"] == PageUse.RUN] == 1).all())
            self.assertEqual(set(pages["class"][pages["use"] == PageUse.SLAB]), set(live["class"]) - {-1})
            self.assertEqual(snapshot.violations(), [])
            self.assertIn("541 blocks", repr(snapshot))

    def test_a_full_heap_gives_nothing_and_counts_it(self):
        for heap in self.on_each_device(MIB):
            nulls = (heap.malloc_each([4096] * 300) == 0).sum()
            self.assertTrue(44 <= nulls < 60, nulls)
            snapshot = heap.snapshot()
            of_runs = sum(snapshot.occupancy["runs"]["failures"].values())
            self.assertEqual(snapshot.classes["failures"].sum() + of_runs, nulls)
            heap.reset()
            self.assertEqual(heap.occupancy()["largest_request"], MIB)
            self.assertEqual((heap.malloc_each([MIB]) != 0).sum(), 1)

    def test_wrong_frees_are_refused_and_counted(self):
        for heap in self.on_each_device():
            first, second = heap.malloc_each([100, 100])
            heap.free_each([first])
            heap.free_each([first, second + 16, 0])
            figures = heap.occupancy()
            self.assertEqual(figures["used_blocks"], 1)
            self.assertEqual(sum(kind["count"] for kind in figures["misuses"]), 2)

    def test_the_address_stays(self):
        # Multiples of what GPUs map at least.
        for heap in self.on_each_device(4 * MIB, max_capacity=16 * MIB):
            address = heap.address
            self.assertEqual((heap.capacity, heap.max_capacity), (4 * MIB, 16 * MIB))
            self.assertEqual(list(heap.malloc_each([8 * MIB])), [0])
            self.assertGreaterEqual(heap.attend(), 8 * MIB)
            self.assertEqual((heap.malloc_each([4 * MIB]) != 0).sum(), 1)
            self.assertGreaterEqual(heap.grow(4 * MIB), 12 * MIB)
            heap.reset()
            self.assertEqual((heap.address, heap.occupancy()["used_blocks"]), (address, 0))

    def test_hardened_heaps_zero_and_count(self):
        for heap in self.on_each_device(harden="red-zones,zero", count_bytes=True):
            heap.malloc_each([100] * 10)
            self.assertGreater(heap.occupancy()["internal_fragmentation"], 0)

    def test_leaks_are_told_by_site(self):
        for heap in self.on_each_device(harden="tags"):
            addresses = heap.malloc_each([100] * 10 + [MIB])
            leaks, damaged = heap.leaks()
            self.assertEqual(leaks.dtype.names, ("site", "class", "blocks", "bytes", "example"))
            self.assertEqual((list(leaks["site"]), damaged), ([0, 0], 0))
            large = leaks["class"] == -1
            self.assertEqual(list(leaks[large]["bytes"]), [MIB])
            self.assertEqual(list(leaks[~large]["blocks"]), [10])
            self.assertEqual(leaks[~large]["example"][0], addresses[:10].min())
            # What the snapshot lists instead.
            self.assertIn(addresses[0] - np.uint64(16), heap.snapshot().live["address"])
            heap.free_each(addresses)
            self.assertEqual(len(heap.leaks()[0]), 0)

    def test_a_heap_that_grows_as_it_was_told_has_no_notice(self):
        for heap in self.on_each_device(4 * MIB, max_capacity=16 * MIB):
            self.assertIsNone(heap.growth_notice)

    def test_addresses_may_be_written_to(self):
        for heap in self.on_each_device():
            addresses = heap.malloc_each([100])
            heap.free_each(addresses)
            addresses[0] = 0
            heap.free_each(addresses)
            self.assertEqual(sum(kind["count"] for kind in heap.occupancy()["misuses"]), 0)

    def test_a_closed_heap_says_so(self):
        heap = scatterheap.Heap(MIB, "cpu")
        self.assertIn(f"capacity={heap.capacity}", repr(heap))
        heap.close()
        self.assertEqual(repr(heap), "Heap(closed, device='cpu')")

    def test_snapshots_are_saved_and_loaded(self):
        for heaps in self.on_each_device(), self.on_each_device(max_capacity="32MiB"):
            for heap in heaps:
                heap.malloc_each(range(1, 1000))
                snapshot = heap.snapshot()
                with tempfile.TemporaryDirectory() as directory:
                    file = pathlib.Path(directory, "heap.snapshot")
                    snapshot.save(file)
                    heap.reset()
                    again = scatterheap.Snapshot.load(str(file))
                np.testing.assert_array_equal(again.live, snapshot.live)
                self.assertEqual((again.device, again.taken_at), (heap.device, snapshot.taken_at))
                self.assertEqual(again.occupancy, snapshot.occupancy)

    def test_maps_are_pictures(self):
        for heap in self.on_each_device("8MiB"):
            empty = heap.map()
            heap.malloc_each([64] * 5000 + [MIB])
            with tempfile.TemporaryDirectory() as directory:
                file = pathlib.Path(directory, "map.png")
                heap.map(file)
                full = file.read_bytes()
            self.assertNotEqual(empty, full)
            self.assertEqual(pixels(empty)[0], pixels(full)[0])
            self.assertGreater(pixels(full)[1], 100)
            self.assertEqual(heap.snapshot()._repr_png_(), full)

    def test_wrong_use_is_one_line(self):
        small = scatterheap.Heap(MIB, "cpu")
        closed = scatterheap.Heap(MIB, "cpu")
        closed.close()
        closed.close()
        for call, text in [
            (lambda: scatterheap.Heap("12 apples", "cpu"), "apples"),
            (lambda: scatterheap.Heap(-1, "cpu"), "-1"),
            (lambda: scatterheap.Heap(1.5, "cpu"), "number of bytes"),
            (lambda: scatterheap.Heap("1MiB,max=2MiB", "cpu"), "number of bytes"),
            (lambda: scatterheap.Heap(10, "cpu"), "10"),
            (lambda: scatterheap.Heap(MIB, "tpu"), "tpu"),
            (lambda: scatterheap.Heap(MIB, "cuda:99"), "cuda:99|no NVIDIA driver"),
            (lambda: scatterheap.Heap(MIB, "cpu", max_capacity=10), "10"),
            (lambda: scatterheap.Heap(MIB, "cpu", harden="armour"), "armour"),
            (lambda: scatterheap.Heap(MIB, "cpu", growth="wildly"), "wildly"),
            (lambda: small.grow(MIB), "fixed"),
            (lambda: small.leaks(), "harden=tags"),
            (lambda: small.malloc_each([-1]), "from 0 on"),
            (lambda: small.free_each([0.5]), "whole numbers"),
            (lambda: small.free_each(np.array([0.5])), "whole numbers"),
            (lambda: small.free_each(None), "whole numbers"),
            (lambda: small.map("heap.jpg"), "heap.jpg"),
            (lambda: small.map("/nowhere/at/all/map.png"), "cannot be written"),
            (lambda: small.snapshot().save("/nowhere/at/all"), "cannot write"),
            (lambda: scatterheap.Snapshot.load(__file__), "not a snapshot"),
            (lambda: closed.snapshot(), "after it was"),
            (lambda: closed.address, "after it was"),
            (lambda: closed.growth_notice, "after it was"),
            (lambda: closed.leaks(), "after it was"),
        ]:
            with self.assertRaisesRegex(scatterheap.Error, text) as caught:
                call()
            self.assertEqual(len(str(caught.exception).splitlines()), 1, caught.exception)

    def test_a_heap_beyond_the_memory_is_out_of_memory(self):
        for device in DEVICES:
            with self.assertRaises(scatterheap.OutOfMemory):
                scatterheap.Heap("1TiB", device)

    def test_threads_of_the_host_allocate_on_the_cpu(self):
        with scatterheap.Heap(MIB, "cpu") as heap:
            address = heap.malloc(1000)
            self.assertEqual((address % 16, heap.malloc(2 * MIB)), (0, 0))
            self.assertEqual(list(heap.snapshot().live["address"]), [address])
            heap.free(address)
            self.assertEqual(heap.occupancy()["used_blocks"], 0)
        if GPU:
            with scatterheap.Heap(MIB, "cuda:0") as heap, self.assertRaisesRegex(scatterheap.Error, "malloc_each"):
                heap.malloc(10)

    def test_a_heap_may_be_dropped_at_the_end_of_the_process(self):
        for device in DEVICES:
            code = f"import scatterheap; heap = scatterheap.Heap('1MiB', {device!r}); heap.malloc_each([10]); print(heap)"
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertIn("1048576", ran.stdout)


if __name__ == "__main__":
    unittest.main()
