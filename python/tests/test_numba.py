"""Device functions in Numba's kernels: compiled and linked wherever numba-cuda is, and run on a GPU."""

import unittest

import numpy as np

import scatterheap
from devices import GPUS, require_gpu, require_module, skip

THREADS = 1 << 12


def kernels():
    """The kernels of the tests, and the types of their arguments; numba-cuda must be there."""
    from numba import cuda
    from numba.cuda import types
    from scatterheap.numba import aligned_alloc, array, calloc, free, malloc, malloc_tagged, realloc, usable_size

    numbers = types.uint64[::1]

    def keep(heap, sizes, out):
        thread = cuda.grid(1)
        if thread < out.size:
            out[thread] = malloc(heap, sizes[thread])

    def release(heap, sizes, out):
        thread = cuda.grid(1)
        if thread < out.size:
            free(heap, out[thread])

    def everything(heap, sizes, out):
        """Each thread tries all functions, and counts what is as it should be."""
        thread = cuda.grid(1)
        if thread >= out.size:
            return
        length, good = thread % 50 + 1, 0
        block = malloc(heap, length * 8)
        for index in range(length):
            array(block, length, np.float64)[index] = thread + index
        block = realloc(heap, block, length * 16)
        total = 0.0
        for value in array(block, 2 * length, np.float64)[:length]:
            total += value
        good += total == length * thread + length * (length - 1) // 2
        good += usable_size(heap, block) >= length * 16
        free(heap, block)
        zeros = calloc(heap, length, 12)
        plane = array(zeros, (length, 3), np.int32)
        for row in range(length):
            plane[row, 2] = row
        total = 0.0
        for index in range(3 * length):
            total += array(zeros, 3 * length, np.int32)[index]
        good += total == length * (length - 1) // 2
        free(heap, zeros)
        aligned = aligned_alloc(heap, 256, length)
        good += aligned != 0 and aligned % 256 == 0
        free(heap, aligned)
        tagged = malloc_tagged(heap, 5, 7)
        good += tagged != 0
        free(heap, tagged)
        good += malloc(heap, 0) == 0
        free(heap, 0)
        out[thread] = good

    return {kernel.__name__: kernel for kernel in (keep, release, everything)}, (types.uint64, numbers, numbers)


class WithoutAGpu(unittest.TestCase):
    def test_kernels_compile_and_their_functions_are_there(self):
        require_module("numba_cuda", "Numba's kernels")
        require_module("llvmlite", "Numba's kernels")
        from numba import cuda

        found, arguments = kernels()
        modules = {name: cuda.compile_ptx(kernel, arguments, cc=(9, 0))[0] for name, kernel in found.items()}
        for name, module in modules.items():
            self.assertIn(".extern .func  (.param .b32 func_retval0) scatterheap_numba_", module, name)
        functions = scatterheap._native.device_functions(9, 0)
        self.assertIn(".target sm_80", functions)
        self.link(modules["everything"], functions)
        with self.assertRaisesRegex(Exception, "complete|INTERNAL"):
            self.link(modules["everything"])

    def link(self, *modules):
        """As Numba links them."""
        try:
            from cuda.bindings import nvjitlink
        except ImportError:
            skip("linking Numba's kernels", "cuda.bindings is not installed")
        options = ["-arch=sm_90", "-maxrregcount=64"]
        try:
            linker = nvjitlink.create(len(options), options)
        except RuntimeError as error:
            skip("linking Numba's kernels", f"nvJitLink is not there: {error}")
        for module in modules:
            text = module.encode() + b"\0"
            nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "module.ptx")
        nvjitlink.complete(linker)
        self.assertGreater(nvjitlink.get_linked_cubin_size(linker), 10_000)


class OnAGpu(unittest.TestCase):
    def setUp(self):
        require_gpu("Numba's kernels")
        require_module("numba_cuda", "Numba's kernels")

    def test_kernels_allocate_and_free(self):
        from numba import cuda

        found, _ = kernels()
        keep, release, everything = (
            cuda.jit(max_registers=64)(found[name]) for name in ("keep", "release", "everything")
        )
        for number in GPUS:
            with self.subTest(gpu=number), cuda.gpus[number]:
                self.run_kernels(cuda, f"cuda:{number}", keep, release, everything)

    def run_kernels(self, cuda, device, keep, release, everything):
        grid = (THREADS + 127) // 128
        sizes = np.random.default_rng(2).integers(1, 3000, THREADS).astype(np.uint64)
        with scatterheap.Heap("64MiB", device) as heap:
            given, out = cuda.to_device(sizes), cuda.to_device(np.zeros(THREADS, np.uint64))
            keep[grid, 128](heap.address, given, out)
            live, addresses = heap.snapshot().live, out.copy_to_host()
            order = np.argsort(addresses)
            np.testing.assert_array_equal(live["address"], addresses[order])
            self.assertTrue((live["bytes"] >= sizes[order]).all())
            release[grid, 128](heap.address, given, out)
            self.assertEqual(heap.occupancy()["used_blocks"], 0)
            # Twice: refused, and counted.
            release[grid, 128](heap.address, given, out)
            self.assertEqual(sum(kind["count"] for kind in heap.occupancy()["misuses"]), THREADS)

            everything[grid, 128](heap.address, given, out)
            np.testing.assert_array_equal(out.copy_to_host(), 6)
            self.assertEqual(heap.occupancy()["used_blocks"], 0)

        with scatterheap.Heap("1MiB", device) as heap:
            given = cuda.to_device(np.full(THREADS, 4096, np.uint64))
            keep[grid, 128](heap.address, given, out)
            self.assertTrue(240 < np.count_nonzero(out.copy_to_host()) <= 256)
            heap.reset()
            self.assertEqual(heap.occupancy()["used_blocks"], 0)
            # The address is good after a reset, too.
            keep[grid, 128](heap.address, given, out)
            self.assertTrue(240 < np.count_nonzero(out.copy_to_host()) <= 256)


if __name__ == "__main__":
    unittest.main()
