"""Resources, blocks and their errors, on every device there is."""

import copy
import csv
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import scatterheap
from devices import DEVICES, GPU

MIB = 1 << 20


class Resources(unittest.TestCase):
    def on_each_device(self, composition):
        for device in DEVICES:
            with self.subTest(device=device, composition=composition):
                memory = scatterheap.Resource(device, composition)
                yield memory
                memory.close()

    def test_each_composition_allocates_and_takes_back(self):
        for composition in [
            "caching",
            "segments",
            "device",
            "slab",
            "buddy=1MiB",
            "pool=4KiBx8",
            "arena=4MiB",
            "statistics,tracking,limit=64MiB,caching",
            "caching,segments",
        ]:
            for memory in self.on_each_device(composition):
                first, second = memory.allocate(1000), memory.allocate(4000, 256, 0)
                self.assertEqual(first % 256, 0)
                self.assertGreaterEqual(abs(first - second), 1000)
                self.assertEqual(memory.statistics()["live_bytes"], 5000)
                memory.deallocate(second, 4000)
                memory.deallocate(first, 1000, 256, 0)
                self.assertEqual(memory.statistics()["live_blocks"], 0)
                self.assertIn(composition, memory.report())

    def test_wrong_use_is_an_error_and_changes_nothing(self):
        for memory in self.on_each_device("limit=1MiB,caching"):
            address = memory.allocate(1000)
            for call, text in [
                (lambda: memory.deallocate(address, 2000), "1000 B"),
                (lambda: memory.deallocate(address + 256, 1000), "did not hand it out"),
                (lambda: memory.deallocate(0, 1000), "NULL"),
                (lambda: memory.allocate(0), "0 bytes"),
                (lambda: memory.allocate(1000, 3), "power of two"),
                (lambda: memory.reset(), "arena"),
            ]:
                with self.assertRaisesRegex(scatterheap.Error, text):
                    call()
            with self.assertRaises(scatterheap.OutOfMemory) as caught:
                memory.allocate(2 * MIB)
            self.assertIsInstance(caught.exception, MemoryError)
            memory.deallocate(address, 1000)
            with self.assertRaisesRegex(scatterheap.Error, "has it back already"):
                memory.deallocate(address, 1000)
            with self.assertRaises(OverflowError):
                memory.allocate(-1)

    def test_what_means_nothing_is_refused(self):
        for device, composition, text in [
            ("tpu", "caching", "tpu"),
            ("cuda:99", "caching", "cuda:99|NVIDIA driver"),
            ("cpu", "cashing", "cashing"),
            ("cpu", "limit=much,caching", "much"),
            ("cpu", "trace=/no/such/directory/file,caching", "another file"),
        ]:
            with self.assertRaisesRegex(scatterheap.Error, text):
                scatterheap.Resource(device, composition)

    def test_a_closed_resource_is_not_used(self):
        memory = scatterheap.Resource("cpu")
        memory.allocate(1000)
        memory.close()
        memory.close()
        with self.assertRaisesRegex(scatterheap.Error, "destroyed"):
            memory.allocate(1000)

    def test_what_is_kept_is_used_again_and_given_back(self):
        for memory in self.on_each_device("caching"):
            address = memory.allocate(MIB)
            memory.deallocate(address, MIB)
            self.assertEqual(memory.allocate(MIB), address)
            memory.deallocate(address, MIB)
            statistics = memory.statistics()
            self.assertEqual((statistics["hits"], statistics["kept_bytes"]), (1, MIB))
            self.assertEqual(memory.trim(), statistics["reserved_bytes"])
            self.assertEqual(memory.statistics()["reserved_bytes"], 0)

    def test_many_threads_share_a_resource(self):
        for memory in self.on_each_device("statistics,caching"):
            failures = []

            def work(seed):
                try:
                    for round in range(200):
                        size = 256 + (seed * 7919 + round * 104729) % 100_000
                        address = memory.allocate(size)
                        memory.deallocate(address, size)
                except scatterheap.Error as error:
                    failures.append(error)

            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            statistics = memory.statistics()
            self.assertEqual((statistics["allocations"], statistics["live_blocks"]), (1600, 0))


class Wrapper:
    """All that a block needs of a resource."""

    is_gpu = False

    def __init__(self, resource):
        self._resource = resource

    def allocate(self, size, alignment, stream):
        return self._resource.allocate(size, alignment, stream)

    def deallocate(self, address, size, alignment, stream):
        self._resource.deallocate(address, size, alignment, stream)


class Blocks(unittest.TestCase):
    def test_blocks_hold_bytes_and_give_themselves_back(self):
        memory = scatterheap.Resource("cpu", "caching")
        with scatterheap.Block(memory, 1000) as block:
            view = block.memoryview()
            view[:] = bytes(range(250)) * 4
            self.assertEqual(view[999], 249)
            self.assertFalse(hasattr(block, "__cuda_array_interface__"))
            self.assertEqual(memory.statistics()["live_bytes"], 1000)
            del view
        with self.assertRaisesRegex(scatterheap.Error, "after it was freed"):
            block.memoryview()
        with self.assertRaisesRegex(scatterheap.Error, "freed before"):
            block.free()
        forgotten = scatterheap.Block(memory, 1000)
        del forgotten
        gc.collect()
        self.assertEqual(memory.statistics()["live_blocks"], 0)

    def test_a_block_that_a_reset_took_is_not_given_back(self):
        for wrapped in [lambda memory: memory, scatterheap.Tracker]:
            memory = wrapped(scatterheap.Resource("cpu", "arena=1MiB"))
            block = scatterheap.Block(memory, 1000)
            memory.reset()
            # Somebody else's by now.
            self.assertEqual(memory.allocate(1000), block.address)
            for use in block.free, block.memoryview, block.free:
                with self.assertRaisesRegex(scatterheap.Error, "reset") as caught:
                    use()
                self.assertEqual(len(str(caught.exception).splitlines()), 1)
            del block, use, caught
            gc.collect()
            self.assertEqual(memory.statistics()["live_blocks"], 1)
            with scatterheap.Block(memory, 1000) as block:
                block.memoryview()[0] = 1
            self.assertEqual(memory.statistics()["live_blocks"], 1)

    def test_blocks_come_from_what_allocates_and_takes_back(self):
        for wrapped in [Wrapper, lambda memory: scatterheap.Tracker(Wrapper(memory))]:
            memory = scatterheap.Resource("cpu", "caching")
            with scatterheap.Block(wrapped(memory), 1000) as block:
                block.memoryview()[0] = 1
                self.assertEqual(memory.statistics()["live_bytes"], 1000)
            self.assertEqual(memory.statistics()["live_blocks"], 0)

    def test_a_block_of_a_closed_resource_is_not_used(self):
        memory = scatterheap.Resource("cpu", "caching")
        block = scatterheap.Block(memory, 1000)
        memory.close()
        for use in block.free, block.memoryview:
            with self.assertRaisesRegex(scatterheap.Error, "destroyed"):
                use()

    def test_a_view_keeps_its_block(self):
        memory = scatterheap.Resource("cpu", "caching")
        view = scatterheap.Block(memory, 1000).memoryview()
        array = np.frombuffer(view[10:20], dtype=np.uint8)
        del view
        gc.collect()
        self.assertEqual((len(array), memory.statistics()["live_blocks"]), (10, 1))
        del array
        gc.collect()
        self.assertEqual(memory.statistics()["live_blocks"], 0)

    def test_blocks_are_not_copied(self):
        memory = scatterheap.Resource("cpu", "caching")
        with scatterheap.Block(memory, 1000) as block:
            for make in copy.copy, copy.deepcopy, pickle.dumps:
                with self.assertRaisesRegex(scatterheap.Error, "copy") as caught:
                    make(block)
                self.assertEqual(len(str(caught.exception).splitlines()), 1)
        self.assertEqual(memory.statistics()["live_blocks"], 0)

    def test_a_block_that_was_not_allocated_is_dropped_without_a_word(self):
        program = "import scatterheap\ntry: scatterheap.Block()\nexcept TypeError: print('refused')"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((ran.stdout, ran.stderr), ("refused\n", ""))

    def test_blocks_of_a_gpu_show_their_address(self):
        for device in DEVICES:
            memory = scatterheap.Resource(device)
            with scatterheap.Block(memory, 1000) as block:
                if memory.is_gpu:
                    interface = block.__cuda_array_interface__
                    self.assertEqual(interface["data"], (block.address, False))
                    with self.assertRaises(scatterheap.Error):
                        block.memoryview()


class Defaults(unittest.TestCase):
    def run_program(self, program, **environment):
        ran = subprocess.run(
            [sys.executable, "-c", "import scatterheap\n" + program],
            env=dict(os.environ, SCATTERHEAP_DEVICE="cpu", **environment),
            capture_output=True,
            text=True,
        )
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)

    def test_what_they_are_made_of_may_be_said_again(self):
        program = """
assert scatterheap.default_resource(1).composition == "limit=1MiB,caching"
scatterheap.configure_default(" limit = 1024KiB , caching")
try:
    scatterheap.configure_default("caching")
except scatterheap.Error as error:
    assert "device 1 has one of something else" in str(error), error
else:
    raise AssertionError("changed what is there")
assert "1024KiB" in scatterheap.default_resource(0).composition
print("done")
"""
        self.run_program(program, SCATTERHEAP_COMPOSITION="limit=1MiB,caching")
        self.run_program('scatterheap.default_resource(0)\nscatterheap.configure_default("default")\nprint("done")')


class Traces(unittest.TestCase):
    def test_every_call_is_written(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "trace.csv")
            memory = scatterheap.Resource("cpu", f"trace={file},caching")
            address = memory.allocate(1000)
            memory.deallocate(address, 1000)
            memory.flush()
            rows = list(csv.DictReader(file.read_text().splitlines()))
        self.assertEqual([row["operation"] for row in rows], ["malloc", "free"])
        self.assertEqual([row["size"] for row in rows], ["1000", ""])

    def test_a_default_resource_writes_its_trace_when_the_process_ends(self):
        program = "import scatterheap; m = scatterheap.default_resource(0); print(m.device); m.allocate(77)"
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "trace.csv")
            device = "cuda:0" if GPU else "cpu"
            environment = dict(os.environ, SCATTERHEAP_DEVICE=device, SCATTERHEAP_TRACE=str(file))
            ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stdout.strip()), (0, device), ran.stderr)
            self.assertIn("malloc,0,77,256", file.read_text())

    def run_with_a_slow_reader(self, program):
        """A trace to a pipe that holds less than is flushed at the end, and is read by a thread of the same process."""
        begin = """
import fcntl, os, threading, time, scatterheap
os.mkfifo("trace")
reader = os.open("trace", os.O_RDONLY | os.O_NONBLOCK)
fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
memory = scatterheap.Resource("cpu", "trace=trace,caching")
os.set_blocking(reader, True)
for _ in range(300): memory.allocate(1000)
def read_all():
    while os.read(reader, 4096): pass
"""
        with tempfile.TemporaryDirectory() as directory:
            ran = subprocess.run(
                [sys.executable, "-c", begin + program], cwd=directory, capture_output=True, text=True, timeout=60
            )
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)

    def test_python_runs_while_a_dropped_resource_is_given_back(self):
        self.run_with_a_slow_reader("""
def read_later():
    time.sleep(1)
    read_all()
thread = threading.Thread(target=read_later)
thread.start()
del memory
thread.join()
print("done")
""")

    def test_a_resource_is_refused_while_it_is_closed(self):
        self.run_with_a_slow_reader("""
thread = threading.Thread(target=memory.close)
thread.start()
try:
    while True: memory.statistics()
except scatterheap.Error as error:
    assert "destroyed" in str(error), error
read_all()
thread.join()
print("done")
""")

    def test_each_device_writes_a_trace_of_its_own(self):
        program = (
            "import scatterheap; scatterheap.configure_default('trace=trace.csv,statistics, trace = inner.csv,caching')\n"
            "for number in range(3): scatterheap.default_resource(number).allocate(1000 + number)\n"
            "print(scatterheap.default_resource(2).composition)"
        )
        with tempfile.TemporaryDirectory() as directory:
            environment = dict(os.environ, SCATTERHEAP_DEVICE="cpu", SCATTERHEAP_TRACE="outer,most")
            ran = subprocess.run(
                [sys.executable, "-c", program], env=environment, cwd=directory, capture_output=True, text=True
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            for name in ["outer,most", "trace.csv", "inner.csv"]:
                for number, end in enumerate(["", ".1", ".2"]):
                    rows = csv.DictReader(pathlib.Path(directory, name + end).read_text().splitlines())
                    self.assertEqual([row["size"] for row in rows], [str(1000 + number)])
        composition = "trace=outer,most.2,trace=trace.csv.2,statistics,trace=inner.csv.2,caching"
        self.assertEqual(ran.stdout.strip(), composition)


if __name__ == "__main__":
    unittest.main()
