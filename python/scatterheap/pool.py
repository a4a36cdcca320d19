"""Blocks of one size from memory that is allocated once."""

from ._native import Resource
from .block import Block


class Pool:
    """A fixed number of blocks of one size. Allocating and freeing takes one from, or puts one on, a list of free
    blocks; when none is free, ``OutOfMemory`` is raised."""

    def __init__(self, block_bytes, count, device="auto"):
        self.block_bytes = block_bytes
        self.count = count
        self.resource = Resource(device, f"pool={block_bytes}x{count}")

    def allocate(self, stream=0):
        """One of the blocks."""
        return Block(self.resource, self.block_bytes, stream=stream)

    @property
    def used(self):
        """How many blocks are handed out."""
        return self.resource.statistics()["live_blocks"]

    @property
    def free(self):
        """How many blocks are not."""
        return self.count - self.used

    def close(self):
        """Gives the memory back to the device."""
        self.resource.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<Pool of {self.count} blocks of {self.block_bytes} bytes on {self.resource.device}>"
