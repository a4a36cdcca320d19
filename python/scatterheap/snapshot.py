"""What a heap held at a moment, as NumPy's structured arrays."""

import datetime
import enum
import functools
import json
import pathlib

import numpy as np

from . import _native
from .errors import Error


class PageUse(enum.IntEnum):
    """What a page is used for: the field ``use`` of ``Snapshot.pages``."""

    FREE = 0
    SLAB = 1
    RUN = 2
    LOST = 3
    """None of these: the heap was in use, or a stray write hit its metadata."""


_LIVE = [("address", "u8"), ("bytes", "u8"), ("class", "i4"), ("", "V4")]
_PAGES = [("use", "u4"), ("class", "i4"), ("used", "f4"), ("head", "u4")]
_CLASSES = [
    ("class", "i4"),
    ("slot_bytes", "u8"),
    ("slabs", "u8"),
    ("slots", "u8"),
    ("used", "u8"),
    ("handed_out_bytes", "u8"),
    ("failures", "u8"),
]


class Snapshot:
    """What a heap held at a moment. ``Heap.snapshot()`` makes one; ``save`` writes it to a file that the commands
    ``scatterheap check`` and ``scatterheap occupancy --snapshot`` read too, ``Snapshot.load`` reads it back."""

    def __init__(self, native):
        self._native = native

    @classmethod
    def load(cls, path):
        """Reads a file that ``save`` or ``scatterheap snapshot`` wrote."""
        return cls(_native.Snapshot.load(pathlib.Path(path)))

    def save(self, path):
        """Writes it to a file."""
        self._native.save(pathlib.Path(path))

    @property
    def device(self):
        """The heap's device, such as ``cuda:0``."""
        return self._native.device

    @property
    def device_name(self):
        """What the device is, for people."""
        return self._native.device_name

    @property
    def taken_at(self):
        """When it was taken, in UTC."""
        return datetime.datetime.fromtimestamp(self._native.taken_at, datetime.timezone.utc)

    @property
    def base(self):
        """The address of the heap's first page."""
        return self._native.base

    @functools.cached_property
    def live(self):
        """The blocks that are handed out, by address, as an array with the fields ``address``, ``bytes`` (as many as
        were asked for, or more) and ``class``, the size class; -1 for large blocks, which are runs of pages. In a hardened
        heap, unless all modes are zero and trap, an entry is also what was put around the block: the address that the
        program has lies 16 bytes further, or as far as it was asked to be aligned; and blocks in the quarantine are there."""
        return np.frombuffer(self._native.live(), dtype=_LIVE)[["address", "bytes", "class"]]

    @functools.cached_property
    def pages(self):
        """What each page is used for, by address, as an array with the fields ``use`` (see ``PageUse``), ``class``
        (-1 where the page is of no slab), ``used`` (the share that is handed out) and ``head`` (the first page of a
        run; else the page itself)."""
        return np.frombuffer(self._native.pages(), dtype=_PAGES)

    @functools.cached_property
    def classes(self):
        """The size classes that have slabs or refused a request, as an array with the fields ``class``,
        ``slot_bytes``, ``slabs``, ``slots``, ``used`` (slots handed out), ``handed_out_bytes`` and ``failures``."""
        rows = []
        for found in self.occupancy["classes"]:
            failures = sum(found["failures"].values())
            rows.append((*(found[name] for name, _ in _CLASSES[:-1]), failures))
        return np.array(rows, dtype=_CLASSES)

    @functools.cached_property
    def occupancy(self):
        """How full the heap is, how fragmented, and what it refused: a dictionary. Sizes are in bytes. The main keys are
        ``capacity``, ``used_bytes``, ``used_blocks``, ``largest_request`` (what one request could have now),
        ``external_fragmentation`` (the share of available bytes outside the longest run of them), ``pages``,
        ``classes``, ``runs`` and ``misuses``."""
        return json.loads(self._native.occupancy())

    def violations(self):
        """Which invariants of the allocator do not hold, as lines of text: none, unless a stray write hit the heap's
        metadata, or kernels were running."""
        return self._native.violations()

    def map(self, file=None):
        """Draws the heap as a PNG: a grid of cells, each some pages; colours tell the size of blocks, and shades how
        full. Written to ``file``; without one, the PNG is returned as bytes."""
        picture = self._native.map()
        if file is None:
            return picture
        file = pathlib.Path(file)
        if file.suffix != ".png":
            raise Error(f"a map was to be drawn to {file}, but only .png can be: give the file such an end")
        try:
            file.write_bytes(picture)
        except OSError as error:
            raise Error(f"the map cannot be written to {file} ({error.strerror}): name another file") from error
        return None

    def _repr_png_(self):
        # Notebooks show it.
        return self.map()

    def __repr__(self):
        figures = self.occupancy
        return (
            f"Snapshot({figures['used_blocks']} blocks of {figures['used_bytes']} bytes in a heap of "
            f"{figures['capacity']} on {self.device})"
        )
