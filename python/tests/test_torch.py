"""PyTorch's allocator, each test in a process of its own: its hooks with a PyTorch that is made up, and all of it where
PyTorch and a GPU are."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from devices import require_gpu, require_gpus, skip

# What PyTorch does with the names and addresses that it gets, without PyTorch.
FAKE = """
import ctypes, sys, types

class Inner:
    def set_record_stream_fn(self, address):
        self.record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    def set_reset_fn(self, address):
        self.reset = ctypes.CFUNCTYPE(None)(address)

class CUDAPluggableAllocator:
    def __init__(self, path, allocate, free):
        library = ctypes.CDLL(path)
        self.malloc, self.free = getattr(library, allocate), getattr(library, free)
        self.malloc.restype = ctypes.c_void_p
        self.malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.inner = Inner()
    def allocator(self):
        return self.inner

torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(memory=types.SimpleNamespace(
    CUDAPluggableAllocator=CUDAPluggableAllocator, current=None))
def change(allocator):
    torch.cuda.memory.current = allocator
torch.cuda.memory.change_current_allocator = change
sys.modules["torch"] = torch
"""

HOOKS = """
import scatterheap.torch
scatterheap.torch.use("statistics,tracking,caching")
current = torch.cuda.memory.current
block = current.malloc(1000, 0, None)
assert block, "no memory"
current.inner.record(block, 0x700)
assert scatterheap.torch.statistics()["live_bytes"] == 1000
current.free(block, 1000, 0, None)
assert current.malloc(0, 0, None) is None
assert scatterheap.torch.statistics()["live_blocks"] == 0
current.inner.reset()
assert scatterheap.torch.resource().statistics()["reserved_bytes"] == 0
try:
    scatterheap.torch.use()
except scatterheap.Error as error:
    assert "already" in str(error), error
else:
    raise AssertionError("used twice")
"""

OLD = """
del Inner.set_record_stream_fn
import scatterheap.torch
try:
    scatterheap.torch.use()
except scatterheap.Error as error:
    assert "set_record_stream_fn" in str(error), error
else:
    raise AssertionError("an old PyTorch was accepted")
assert torch.cuda.memory.current is None
"""

TENSORS = """
import scatterheap.torch
scatterheap.torch.use("statistics,caching")
import torch
values = torch.arange(1_000_000, device="cuda", dtype=torch.float64)
assert scatterheap.torch.statistics()["live_bytes"] >= 8_000_000
assert values.sum().item() == 499999500000.0
empty = [torch.empty(0, device="cuda") for _ in range(3)]
del empty

# Memory that another stream still reads is not used again: a slow reader, and a writer that gets the same block.
side = torch.cuda.Stream()
for number in range(20):
    source = torch.full((4_000_000,), float(number), device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        copied = source.clone()
    source.record_stream(side)
    address = source.data_ptr()
    del source
    writer = torch.full((4_000_000,), -1.0, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    assert (copied == number).all().item(), f"round {number} was overwritten"
    del copied, writer

try:
    torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    assert "out of memory" in str(error), error
else:
    raise AssertionError("32 TiB were handed out")

matrix = torch.randn(512, 512, device="cuda", requires_grad=True)
(matrix @ matrix).sum().backward()
assert torch.isfinite(matrix.grad).all().item()
del matrix, values
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(scatterheap.torch.resource().report())
"""

SEVERAL = """
import pathlib, sys
import scatterheap.torch
trace = pathlib.Path(sys.argv[1])
scatterheap.torch.use("statistics,caching", trace=trace)
import torch
count = torch.cuda.device_count()
tensors = [torch.full((1_000_000,), float(number), device=f"cuda:{number}") for number in range(count)]
for number in range(count):
    assert scatterheap.torch.statistics(number)["live_bytes"] >= 4_000_000, number
# From GPU to GPU, and on a stream of one while another is current.
for source in range(count):
    for target in range(count):
        copy = tensors[source].to(f"cuda:{target}", non_blocking=True)
        side = torch.cuda.Stream(device=target)
        side.wait_stream(torch.cuda.current_stream(target))
        with torch.cuda.stream(side):
            doubled = copy * 2
        copy.record_stream(side)
        del copy
        side.synchronize()
        assert (doubled == 2 * source).all().item(), (source, target)
        del doubled
torch.cuda.set_device(count - 1)
del tensors
torch.cuda.empty_cache()
for number in range(count):
    torch.cuda.synchronize(number)
    assert scatterheap.torch.statistics(number)["live_blocks"] == 0, number
    scatterheap.torch.resource(number).flush()
    assert pathlib.Path(f"{trace}.{number}" if number else trace).stat().st_size > 0, number
"""


class Torch(unittest.TestCase):
    def run_program(self, program, *arguments, **environment):
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), *arguments],
            env=dict(os.environ, **environment),
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_hooks_work(self):
        # On the CPU always: the pretended PyTorch has no streams that a driver knows.
        self.run_program(FAKE + HOOKS, SCATTERHEAP_DEVICE="cpu")

    def test_a_pytorch_without_hooks_is_refused(self):
        self.run_program(FAKE + OLD, SCATTERHEAP_DEVICE="cpu")

    def test_tensors_are_ours(self):
        require_gpu("PyTorch")
        if importlib.util.find_spec("torch") is None:
            skip("PyTorch", "torch is not installed")
        printed = self.run_program(TENSORS)
        self.assertIn("live_blocks", printed)

    def test_tensors_of_several_gpus_are_ours(self):
        require_gpus("PyTorch")
        if importlib.util.find_spec("torch") is None:
            skip("PyTorch", "torch is not installed")
        with tempfile.TemporaryDirectory() as directory:
            self.run_program(SEVERAL, os.path.join(directory, "trace.csv"))


if __name__ == "__main__":
    unittest.main()
