"""Blocks one behind the other, which are freed together."""

import contextlib

from ._native import Resource
from .errors import Error


class Arena:
    """At most ``size`` bytes of addresses, mapped as they are used. A block is the next piece; all are freed together,
    by ``reset()`` or at the end of a ``scope()``."""

    def __init__(self, size, device="auto"):
        self.size = size
        self.resource = Resource(device, f"arena={size}")
        # Address, bytes, alignment and stream of each block, in the order of allocation.
        self._blocks = []
        self._depth = 0

    def allocate(self, size, alignment=256, stream=0):
        """The address of the next ``size`` bytes."""
        address = self.resource.allocate(size, alignment, stream)
        self._blocks.append((address, size, alignment, stream))
        return address

    @contextlib.contextmanager
    def scope(self):
        """Frees at its end what was allocated in it. Scopes may lie in each other."""
        first = len(self._blocks)
        self._depth += 1
        try:
            yield self
        finally:
            self._depth -= 1
            while len(self._blocks) > first:
                self.resource.deallocate(*self._blocks[-1])
                self._blocks.pop()

    def reset(self):
        """Frees everything. The memory stays mapped for what comes next."""
        if self._depth:
            raise Error("an arena was to be reset within a scope: leave its scopes first")
        self.resource.reset()
        self._blocks.clear()

    @property
    def used(self):
        """Bytes from the beginning to the end of the last block."""
        statistics = self.resource.statistics()
        return statistics["reserved_bytes"] - statistics["free_bytes"]

    @property
    def mapped(self):
        """Bytes of memory that the arena has of the device."""
        return self.resource.statistics()["reserved_bytes"]

    def close(self):
        """Gives the memory back to the device."""
        self._blocks.clear()
        self.resource.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<Arena of {self.size} bytes on {self.resource.device}>"
