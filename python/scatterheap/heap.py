"""A heap from which kernels allocate."""

import operator

import numpy as np

from . import _native
from .errors import Error
from .snapshot import Snapshot

_LEAKS = [("site", "u8"), ("class", "i8"), ("blocks", "u8"), ("bytes", "u8"), ("example", "u8")]


class Heap:
    """A heap in a device's memory, from which threads of kernels allocate and free.

    >>> heap = scatterheap.Heap(64 << 20)           # bytes, or a text such as "64MiB"
    >>> kernel[blocks, threads](heap.address, ...)  # with the functions of scatterheap.numba
    >>> heap.snapshot().occupancy["used_blocks"]

    ``device`` is ``"auto"`` (the first GPU if there is one), ``"cpu"`` or ``"cuda:N"``, the GPU that its kernels run on.
    ``max_capacity`` reserves addresses for a heap that grows: ``growth="between-launches"`` by ``grow`` and ``attend``, or
    ``growth="live"`` by itself while kernels run, where the device can: see ``growth_notice``. ``count_bytes`` counts what
    was asked for, which tells the loss by rounding. ``harden`` has modes that find misuse:
    ``"red-zones,poison,zero,quarantine,trap,tags"``, or some of these.

    It is in the GPU's primary context, which Numba, CuPy and PyTorch use too. It must outlive the kernels that use it.
    """

    def __init__(
        self, capacity="256MiB", device="auto", *, max_capacity=None, growth=None, count_bytes=False, harden=()
    ):
        words = [_size(capacity, "capacity")]
        if max_capacity is not None:
            words.append(f"max={_size(max_capacity, 'max_capacity')}")
        if growth is not None:
            words.append(f"growth={growth}")
        modes = harden.split(",") if isinstance(harden, str) else list(harden)
        if modes:
            words.append("harden=" + "+".join(mode.strip() for mode in modes))
        if count_bytes:
            words.append("count-bytes")
        self._native = _native.Heap(device, ",".join(words))

    @property
    def address(self):
        """What kernels are given for the heap: the first argument of each device function. It stays the same when
        the heap is reset or grows."""
        return self._native.address

    @property
    def device(self):
        """Its device, such as ``cpu`` or ``cuda:0``."""
        return self._native.device

    @property
    def is_gpu(self):
        """Whether the device is a GPU; else the heap is in the host's memory."""
        return self._native.is_gpu

    @property
    def capacity(self):
        """Bytes that can be allocated."""
        return self._native.capacity

    @property
    def max_capacity(self):
        """Bytes that can be allocated once the heap has grown as far as it may."""
        return self._native.max_capacity

    @property
    def growth_notice(self):
        """Why it does not grow as was asked for, or did not when it should have; ``None`` if it does. A GPU that cannot map
        memory beside a running kernel makes of ``growth="live"`` growth between launches."""
        return self._native.growth_notice

    def malloc_each(self, sizes):
        """Allocates a block of each size, by one launch with a thread for each. Returns an array of addresses, 0
        where nothing fitting was left."""
        sizes = _numbers(sizes, "sizes")
        # A copy, which the caller may write to.
        return np.frombuffer(self._native.malloc_each(sizes.tobytes()), dtype=np.uint64).copy()

    def free_each(self, addresses):
        """Frees the blocks at these addresses; 0 is none. What is no block is refused and counted."""
        self._native.free_each(_numbers(addresses, "addresses").tobytes())

    def malloc(self, size):
        """Allocates a block, on the calling thread: for heaps on the CPU. Returns its address, 0 if nothing fitting is
        left."""
        return self._native.malloc(size)

    def free(self, address):
        """Frees a block, on the calling thread: for heaps on the CPU."""
        self._native.free(address)

    def snapshot(self):
        """What the heap holds, after all launches."""
        return Snapshot(self._native.snapshot())

    def leaks(self):
        """The live blocks of a heap with ``harden="tags"`` by the site that asked for them, after all launches: an array with
        the fields ``site`` (as ``malloc_tagged`` was told; 0 of other calls), ``class`` (-1 for large blocks), ``blocks``,
        ``bytes`` (as many as were asked for) and ``example``, the lowest of their addresses. And how many blocks more
        there are whose site was written over."""
        rows, damaged = self._native.leaks()
        return np.frombuffer(rows, dtype=_LEAKS).copy(), damaged

    def occupancy(self):
        """How full it is, after all launches: see ``Snapshot.occupancy``."""
        return self.snapshot().occupancy

    def map(self, file=None):
        """Draws what it holds, after all launches: see ``Snapshot.map``."""
        return self.snapshot().map(file)

    def reset(self):
        """Makes it empty, after all launches; all blocks are gone."""
        self._native.reset()

    def grow(self, size):
        """Makes it larger by at least so many bytes, after all launches. Blocks stay where they are. Returns the
        capacity."""
        return self._native.grow(size)

    def attend(self):
        """Between launches: makes a heap larger whose requests found nothing in the last one. Returns the capacity."""
        return self._native.attend()

    def close(self):
        """Gives the memory back to the device. No kernel may use the heap any more."""
        self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        try:
            capacity = self.capacity
        except Error:
            return f"Heap(closed, device={self.device!r})"
        return f"Heap(capacity={capacity}, device={self.device!r})"


def _size(value, name):
    """A size as the native part reads it."""
    if isinstance(value, str):
        if "," not in value:
            return value
    else:
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if number >= 0:
            return str(number)
    raise Error(f"{value!r} was given for {name}, but that is a number of bytes, or a text such as '64MiB': give one of these")


def _numbers(values, name):
    """64-bit numbers as an array."""
    bad = Error(f"{name} must be whole numbers from 0 on, in a list or an array of NumPy: give these")
    if not isinstance(values, np.ndarray):
        # NumPy makes fractions of a list with integers of several types.
        try:
            values = [operator.index(value) for value in values]
        except TypeError:
            raise bad from None
        if any(not 0 <= value < 1 << 64 for value in values):
            raise bad
        values = np.array(values, dtype=np.uint64)
    if values.dtype.kind not in "ui" or (values.dtype.kind == "i" and (values < 0).any()):
        raise bad
    return np.ascontiguousarray(values, dtype=np.uint64).ravel()
