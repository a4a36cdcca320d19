"""Who allocated what is still there, by the line of Python."""

import collections
import sys
import threading


class Tracker:
    """Wraps a resource, or another tracker, and remembers where each block was allocated until it is deallocated.

    It may be used wherever a resource may. ``depth`` is how many callers are remembered.
    """

    def __init__(self, resource, depth=1):
        self.resource = resource
        self._depth = depth
        self._lock = threading.Lock()
        # Of each block, by address: bytes, place, and the generation of the resource.
        self._blocks = {}

    def _generation(self):
        """That of the resource; None if it does not tell its resets."""
        return getattr(self.resource, "generation", None)

    def allocate(self, size, alignment=256, stream=0):
        """As the resource does."""
        address = self.resource.allocate(size, alignment, stream)
        place = _place(self._depth)
        with self._lock:
            # After the allocation: if a reset comes between, its block may be told of until the next one, but no live
            # block is forgotten.
            self._blocks[address] = (size, place, self._generation())
        return address

    def deallocate(self, address, size, alignment=256, stream=0, **rest):
        """As the resource does."""
        # Before the call, as another thread may get the same address right after it.
        with self._lock:
            known = self._blocks.pop(address, None)
        try:
            self.resource.deallocate(address, size, alignment, stream, **rest)
        except BaseException:
            if known is not None:
                with self._lock:
                    self._blocks[address] = known
            raise

    def reset(self):
        """As the resource does."""
        self.resource.reset()
        with self._lock:
            # What other threads allocated since then stays.
            current = self._generation()
            for address, (_, _, generation) in list(self._blocks.items()):
                if current is None or generation != current:
                    del self._blocks[address]

    def live(self):
        """For each place, most bytes first: the place, how many blocks and how many bytes of it are live."""
        with self._lock:
            blocks = list(self._blocks.values())
        sums = collections.defaultdict(lambda: [0, 0])
        for size, place, _ in blocks:
            sums[place][0] += 1
            sums[place][1] += size
        found = [(place, count, size) for place, (count, size) in sums.items()]
        return sorted(found, key=lambda entry: (-entry[2], entry[0]))

    def report(self):
        """The same as text, for people."""
        live = self.live()
        count, size = sum(entry[1] for entry in live), sum(entry[2] for entry in live)
        lines = [f"{count} blocks of {size} bytes are live"]
        lines += [f"{size:>12} bytes in {count} blocks: {place}" for place, count, size in live]
        return "\n".join(lines)

    def __getattr__(self, name):
        # Statistics, device and all else are the resource's.
        if name == "resource":
            raise AttributeError(name)
        return getattr(self.resource, name)


def _place(depth):
    """The innermost callers outside of this package, as text."""
    package = __name__.rpartition(".")[0]
    places = []
    frame = sys._getframe(1)
    while frame is not None and len(places) < depth:
        if frame.f_globals.get("__name__", "").partition(".")[0] != package:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places)
