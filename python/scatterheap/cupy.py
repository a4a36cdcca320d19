"""CuPy's kernels allocate from heaps, and CuPy itself from resources.

``module`` compiles CUDA C++ that calls the functions of a heap:

>>> import cupy, scatterheap.cupy
>>> heap = scatterheap.Heap("64MiB")
>>> lists = scatterheap.cupy.module('''
... extern "C" __global__ void make_lists(void* heap, int** lists, int count) {
...     int thread = blockIdx.x * blockDim.x + threadIdx.x;
...     if (thread < count) lists[thread] = (int*)scatterheap_malloc(heap, (thread % 100 + 1) * sizeof(int));
... }''')
>>> addresses = cupy.zeros(10_000, cupy.uint64)
>>> lists.get_function("make_lists")((40,), (256,), (heap.address, addresses, 10_000))

``use`` lets CuPy's arrays come from a resource:

>>> import scatterheap.cupy
>>> allocator = scatterheap.cupy.use()
>>> allocator.statistics()["reserved_bytes"]

As with CuPy's own pool, memory of an array is given back after the work on the stream that was current when it was
allocated. Streams are kept until the allocator is gone, as memory that was used on them may be anywhere.
"""

import atexit
import pathlib
import tempfile
import threading

from ._native import Resource, composition_of_device, device_functions, link
from .errors import Error

DECLARATIONS = """\
extern "C" {
__device__ void* scatterheap_malloc(const void* heap, unsigned long long bytes);
__device__ void* scatterheap_malloc_tagged(const void* heap, unsigned long long bytes, unsigned site);
__device__ void* scatterheap_calloc(const void* heap, unsigned long long count, unsigned long long bytes);
__device__ void* scatterheap_realloc(const void* heap, void* block, unsigned long long bytes);
__device__ void* scatterheap_aligned_alloc(const void* heap, unsigned long long alignment, unsigned long long bytes);
__device__ void scatterheap_free(const void* heap, void* block);
__device__ unsigned long long scatterheap_usable_size(const void* heap, const void* block);
}
"""
"""The device functions that ``module`` declares before the source. ``heap`` is ``Heap.address``."""


def module(source, *, options=(), registers=64):
    """Compiles CUDA C++ whose kernels call the functions of ``DECLARATIONS``, and links it with them, for the current
    device. Returns a ``cupy.RawModule``. ``options`` are those of NVRTC. A kernel that is linked has as many registers as
    the function with the most, so there is a limit for all of ``registers``; with 64, 1024 threads run on a multiprocessor
    at once."""
    import cupy

    device = cupy.cuda.Device()
    major, minor = device.compute_capability[:-1], device.compute_capability[-1]
    ptx = _compile(cupy.cuda.nvrtc, source, (f"--gpu-architecture=compute_{major}{minor}", *options))
    functions = device_functions(int(major), int(minor))
    image = link(f"cuda:{device.id}", [ptx, functions], registers)
    # CuPy loads files when it first needs them, and knows them by their names.
    with tempfile.NamedTemporaryFile(dir=_directory(), suffix=".cubin", delete=False) as file:
        file.write(image)
    return cupy.RawModule(path=file.name)


def _compile(nvrtc, source, options):
    """The PTX of CUDA C++."""
    program = nvrtc.createProgram(f"{DECLARATIONS}#line 1\n{source}", "kernels.cu", (), ())
    try:
        try:
            nvrtc.compileProgram(program, ("--relocatable-device-code=true", *options))
        except nvrtc.NVRTCError as error:
            raise Error(f"NVRTC cannot compile the source: {nvrtc.getProgramLog(program).strip()}") from error
        ptx = nvrtc.getPTX(program)
    finally:
        nvrtc.destroyProgram(program)
    return (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")


def _directory():
    """Where linked modules are until the process ends."""
    if not hasattr(_directory, "made"):
        _directory.made = tempfile.TemporaryDirectory(prefix="scatterheap-")
        atexit.register(_directory.made.cleanup)
    return pathlib.Path(_directory.made.name)


class Allocator:
    """Functions for ``cupy.cuda.PythonFunctionAllocator``: one resource for each device, made when it is first
    needed, with trace files of its own (``trace=FILE`` is FILE.N for device N, but for 0). ``current_stream`` tells the stream (an object with ``ptr``); ``device`` is for tests without a GPU."""

    def __init__(self, composition, current_stream, device=None):
        self.composition = composition
        self._current_stream = current_stream
        self._device = device
        self._lock = threading.RLock()
        self._resources = {}
        # Of each block: bytes and stream.
        self._blocks = {}
        # All streams that were used. Resources may record events on them later, so they must not be destroyed.
        self._streams = {}

    def resource(self, device=0):
        """The resource of a device."""
        found = self._resources.get(device)
        if found is None:
            with self._lock:
                found = self._resources.get(device)
                if found is None:
                    composition = composition_of_device(self.composition, device)
                    found = Resource(self._device or f"cuda:{device}", composition)
                    self._resources[device] = found
        return found

    def malloc(self, size, device):
        """The address of ``size`` bytes, for work on the current stream."""
        stream = self._current_stream()
        handle = stream.ptr
        address = self.resource(device).allocate(size, 256, handle)
        if handle not in self._streams:
            self._streams[handle] = stream
        self._blocks[address] = (size, handle)
        return address

    def free(self, address, device):
        """Gives a block back after the work on the stream that it was allocated for."""
        size, handle = self._blocks.pop(address)
        self.resource(device).deallocate(address, size, 256, handle)

    def statistics(self, device=0):
        """What the resource of a device counts."""
        return self.resource(device).statistics()

    def trim(self):
        """Gives what is kept for later back to the devices; the bytes."""
        return sum(resource.trim() for resource in list(self._resources.values()))


def use(composition="default"):
    """Lets CuPy allocate from resources of this composition; the allocator."""
    import cupy

    allocator = Allocator(composition, cupy.cuda.get_current_stream)
    functions = cupy.cuda.PythonFunctionAllocator(allocator.malloc, allocator.free)
    cupy.cuda.set_allocator(functions.malloc)
    return allocator
