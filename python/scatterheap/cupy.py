"""CuPy allocates from scatterheap.

>>> import scatterheap.cupy
>>> allocator = scatterheap.cupy.use()
>>> allocator.statistics()["reserved_bytes"]

As with CuPy's own pool, memory of an array is given back after the work on the stream that was current when it was
allocated. Streams are kept until the allocator is gone, as memory that was used on them may be anywhere.
"""

import threading

from ._native import Resource


class Allocator:
    """Functions for ``cupy.cuda.PythonFunctionAllocator``: one resource for each device, made when it is first
    needed. ``current_stream`` tells the stream (an object with ``ptr``); ``device`` is for tests without a GPU."""

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
                    found = Resource(self._device or f"cuda:{device}", self.composition)
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
