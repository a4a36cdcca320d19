"""A block of a resource as an object that gives itself back."""

import ctypes

from .errors import Error


class Block:
    """``size`` bytes of a resource, until ``free()``, the end of a ``with`` block, or nobody has it any more.

    On a GPU it has ``__cuda_array_interface__``, so ``cupy.asarray(block)`` and ``torch.as_tensor(block)`` are bytes of
    it without a copy. On the CPU ``memoryview()`` is.

    An object of your own may stand for the resource: it needs ``allocate`` and ``deallocate``, and ``is_gpu`` for access
    to the bytes. If its memory can be reset, it also needs ``generation``, which changes with each reset, and its
    ``deallocate`` must take that of the block as a keyword, and refuse one from before a reset; else a block that was
    reset gives back what is another's by then. A resource has both.
    """

    # Nothing is to be given back before something is allocated.
    address = None

    def __init__(self, resource, size, alignment=256, stream=0):
        self.resource = resource
        self.size = size
        self.alignment = alignment
        self.stream = stream
        # Before the allocation: if a reset comes between, the block counts as gone, rather than another one as this.
        self._generation = getattr(resource, "generation", None)
        self.address = resource.allocate(size, alignment, stream)

    def free(self, stream=None):
        """Gives the memory back after the work on ``stream``, or on the one that it was allocated for."""
        if self.address is None:
            raise Error("a block was freed that was freed before: free it once")
        stream = self.stream if stream is None else stream
        # Not to who does not tell its resets.
        known = {} if self._generation is None else {"generation": self._generation}
        self.resource.deallocate(self.address, self.size, self.alignment, stream, **known)
        self.address = None

    def _usable(self):
        if self.address is None:
            raise Error("a block was used after it was freed: free it after its last use")
        if getattr(self.resource, "generation", None) != self._generation:
            raise Error("a block was used after a reset of its resource took it back: use it before the reset")
        return self.address

    def memoryview(self):
        """The bytes, on the CPU. The view keeps the block, but must not be used after ``free()``, the end of a ``with``
        block, or when the resource was reset or closed."""
        address = self._usable()
        if self.resource.is_gpu:
            raise Error("a view of memory of a GPU was asked for, which only the GPU can read: use cupy.asarray")
        exporter = (ctypes.c_uint8 * self.size).from_address(address)
        # All views and slices have the exporter, and so the block.
        exporter.block = self
        return memoryview(exporter).cast("B")

    @property
    def __cuda_array_interface__(self):
        if not self.resource.is_gpu:
            # So that libraries see that it has none.
            raise AttributeError("memory of the CPU has no __cuda_array_interface__: use memoryview()")
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self._usable(), False),
            "version": 3,
            # 1 is the default stream there; 0 is not allowed.
            "stream": self.stream or 1,
        }

    def __reduce__(self):
        # What copies and pickles ask for. Both blocks would give the same memory back.
        raise Error("a block was to be copied or pickled, but its memory can be given back once: copy its bytes")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.address is not None:
            self.free()

    def __del__(self):
        if self.address is not None:
            try:
                self.free()
            except Error:
                pass  # The resource was closed or reset before, and the block with it.

    def __len__(self):
        return self.size

    def __repr__(self):
        place = "freed" if self.address is None else f"at {self.address:#x}"
        return f"<Block of {self.size} bytes {place} on {self.resource.device}>"
