"""CuPy's allocator: its functions on the CPU with streams that are made up, and all of it where CuPy and a GPU are."""

import pathlib
import tempfile
import unittest

import numpy as np

import scatterheap
import scatterheap.cupy
from devices import GPUS, require_gpu, require_gpus, require_module
from scatterheap.cupy import Allocator


LISTS = """
// Each thread keeps a block of its size, filled with its number.
extern "C" __global__ void keep(void* heap, unsigned long long* blocks, const unsigned* sizes, int count) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    unsigned* block = (unsigned*)scatterheap_malloc(heap, sizes[thread] * sizeof(unsigned));
    for (unsigned index = 0; block && index < sizes[thread]; ++index) block[index] = thread;
    blocks[thread] = (unsigned long long)block;
}

// Each thread verifies its block, and frees it.
extern "C" __global__ void release(void* heap, unsigned long long* blocks, const unsigned* sizes, int count, int* wrong) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    unsigned* block = (unsigned*)blocks[thread];
    block = (unsigned*)scatterheap_realloc(heap, block, 2 * sizes[thread] * sizeof(unsigned));
    for (unsigned index = 0; index < sizes[thread]; ++index)
        if (block[index] != thread) atomicAdd(wrong, 1);
    if (scatterheap_usable_size(heap, block) < 2 * sizes[thread] * sizeof(unsigned)) atomicAdd(wrong, 1);
    scatterheap_free(heap, block);
}
"""


class FakeStream:
    def __init__(self, ptr):
        self.ptr = ptr


class Functions(unittest.TestCase):
    def test_blocks_go_back_to_their_stream(self):
        streams = [FakeStream(0x700), FakeStream(0x800)]
        allocator = Allocator("statistics,caching", lambda: streams[0], device="cpu")
        first = allocator.malloc(1000, 0)
        # Another stream is current when it is freed; the next one on the first stream gets it without waiting.
        streams.reverse()
        allocator.free(first, 0)
        streams.reverse()
        self.assertEqual(allocator.malloc(1000, 0), first)
        self.assertEqual(allocator.statistics()["waits"], 0)
        self.assertEqual(allocator.statistics()["live_bytes"], 1000)
        allocator.free(first, 0)
        reserved = allocator.statistics()["reserved_bytes"]
        self.assertEqual((allocator.trim(), reserved > 0), (reserved, True))
        with self.assertRaises(KeyError):
            allocator.free(first, 0)

    def test_each_device_writes_a_trace_of_its_own(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "trace.csv")
            allocator = Allocator(f"trace={file},caching", lambda: FakeStream(0), device="cpu")
            for device in range(2):
                allocator.malloc(1000 + device, device)
                allocator.resource(device).flush()
            self.assertIn("malloc,0,1000,", file.read_text())
            self.assertIn("malloc,0,1001,", pathlib.Path(f"{file}.1").read_text())

    def test_no_memory_is_a_memory_error(self):
        allocator = Allocator("limit=1MiB,caching", lambda: FakeStream(0), device="cpu")
        with self.assertRaises(MemoryError):
            allocator.malloc(2 << 20, 0)


class OnAGpu(unittest.TestCase):
    def test_arrays_are_ours(self):
        require_gpu("CuPy")
        cupy = require_module("cupy", "CuPy")
        before = cupy.cuda.get_allocator()
        allocator = scatterheap.cupy.use("statistics,caching")
        try:
            self.compute(cupy, allocator)
        finally:
            cupy.cuda.set_allocator(before)

    def test_kernels_allocate_and_free(self):
        require_gpu("CuPy's kernels")
        cupy = require_module("cupy", "CuPy's kernels")
        for number in GPUS:
            with self.subTest(gpu=number), cupy.cuda.Device(number):
                self.keep_and_release(cupy, f"cuda:{number}")
        with self.assertRaisesRegex(scatterheap.Error, "NVRTC cannot compile"):
            scatterheap.cupy.module("int kernel")
        with self.assertRaisesRegex(scatterheap.Error, "refused"):
            scatterheap.cupy.module('extern "C" __device__ void missing(); extern "C" __global__ void call() { missing(); }')

    def test_each_gpu_has_its_resource(self):
        require_gpu("CuPy")
        cupy = require_module("cupy", "CuPy")
        require_gpus("CuPy")
        before = cupy.cuda.get_allocator()
        allocator = scatterheap.cupy.use("statistics,caching")
        try:
            arrays = []
            for number in GPUS:
                with cupy.cuda.Device(number):
                    arrays.append(cupy.full(1 << 20, number, dtype=cupy.int32))
            for number in GPUS:
                self.assertGreaterEqual(allocator.statistics(number)["live_bytes"], 4 << 20)
            # Freed while another GPU is current.
            with cupy.cuda.Device(0):
                for number in reversed(GPUS):
                    self.assertEqual(int(cupy.asnumpy(arrays.pop()).sum()), number << 20)
            for number in GPUS:
                self.assertLess(allocator.statistics(number)["live_bytes"], 4 << 20)
        finally:
            cupy.cuda.set_allocator(before)

    def keep_and_release(self, cupy, device):
        module = scatterheap.cupy.module(LISTS)
        keep, release = module.get_function("keep"), module.get_function("release")
        count = 10_000
        sizes = cupy.arange(count, dtype=cupy.uint32) % 500 + 1
        blocks, wrong = cupy.zeros(count, cupy.uint64), cupy.zeros(1, cupy.int32)
        grid = ((count + 255) // 256,)
        with scatterheap.Heap("64MiB", device) as heap:
            keep(grid, (256,), (heap.address, blocks, sizes, np.int32(count)))
            live, addresses = heap.snapshot().live, cupy.asnumpy(blocks)
            order = np.argsort(addresses)
            np.testing.assert_array_equal(live["address"], addresses[order])
            self.assertTrue((live["bytes"] >= 4 * cupy.asnumpy(sizes)[order]).all())
            release(grid, (256,), (heap.address, blocks, sizes, np.int32(count), wrong))
            self.assertEqual((heap.occupancy()["used_blocks"], int(wrong[0])), (0, 0))

    def compute(self, cupy, allocator):
        values = cupy.arange(1_000_000, dtype=cupy.float32)
        self.assertGreaterEqual(allocator.statistics()["live_bytes"], 4_000_000)
        self.assertEqual(float((values * 2).sum(dtype=cupy.float64)), 999_999_000_000.0)
        # Streams that come and go, each with memory that the next one gets.
        for number in range(100):
            with cupy.cuda.Stream(non_blocking=True):
                filled = cupy.full(1 << 20, number, dtype=cupy.int32)
                other = filled + 1
                self.assertTrue(bool((other == number + 1).all()))
        del values, filled, other
        statistics = allocator.statistics()
        # CuPy may keep some memory of its own for computing.
        self.assertLess(statistics["live_bytes"], 4_000_000)
        self.assertGreater(statistics["allocations"], 200)
        memory = scatterheap.Resource("cuda:0")
        with scatterheap.Block(memory, 1000) as block:
            view = cupy.asarray(block)
            view[:] = 7
            self.assertEqual((view.data.ptr, int(view.sum())), (block.address, 7000))
            del view


if __name__ == "__main__":
    unittest.main()
