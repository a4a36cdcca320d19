"""How a resource's memory lies: figures, and a map as SVG, or as PNG where matplotlib is installed."""

import dataclasses
import html
import pathlib

from .errors import Error

_COLOURS = {"live": "#2a78b5", "used": "#2a78b5", "kept": "#e8a33d", "free": "#e7e7e7"}
_NAMES = {"live": "handed out", "used": "handed out or kept", "kept": "kept by a cache", "free": "free"}
_WIDTH, _ROW, _GAP, _MARGIN = 1000, 18, 6, 12


@dataclasses.dataclass(frozen=True)
class Fragmentation:
    """How much of the free memory cannot be had in one piece."""

    reserved_bytes: int
    """Taken from the device."""
    live_bytes: int
    """Handed out, as asked for."""
    kept_bytes: int
    """Kept by a cache for requests of the same size class."""
    free_bytes: int
    """Of no use to anybody now."""
    largest_free_bytes: int
    """The largest piece of these."""
    free_pieces: int
    """How many pieces there are."""

    @property
    def share(self):
        """The share of free bytes that are not in the largest piece: 0 if there is one piece, near 1 for dust."""
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0

    def __str__(self):
        return (
            f"{self.reserved_bytes} bytes reserved, {self.live_bytes} live, {self.kept_bytes} kept, {self.free_bytes} "
            f"free in {self.free_pieces} pieces, the largest of {self.largest_free_bytes}: {self.share:.1%} fragmented"
        )


def fragmentation(resource):
    """The figures of a resource whose parts know them: ``caching`` or ``segments``."""
    statistics = resource.statistics()
    if "free_pieces" not in statistics:
        raise Error(
            f"the fragmentation of `{resource.composition}` was asked for, which has no segments: "
            "use `caching` or `segments`"
        )
    names = [field.name for field in dataclasses.fields(Fragmentation)]
    return Fragmentation(**{name: statistics.get(name, 0) for name in names})


def segments(resource):
    """The places of each segment: lists of offset, bytes and state. States are ``free``; ``live`` and ``kept`` if the
    composition tracks blocks (``tracking,caching``), else ``used``."""
    blocks = resource.live_blocks()
    live = None if blocks is None else {address for address, _ in blocks}
    found = []
    for address, size, is_free, begins_segment in resource.places():
        if begins_segment:
            found.append((address, []))
        first, places = found[-1]
        if is_free:
            state = "free"
        elif live is None:
            state = "used"
        else:
            state = "live" if address in live else "kept"
        places.append((address - first, size, state))
    return [places for _, places in found]


def plot(resource, file):
    """Draws a map, one row for each segment, to a file that ends with ``.svg`` or ``.png``. Returns the figures."""
    found = fragmentation(resource)
    rows = segments(resource)
    file = pathlib.Path(file)
    if file.suffix == ".svg":
        file.write_text(svg(rows, f"{resource.composition} on {resource.device}: {found}"), encoding="utf-8")
    elif file.suffix == ".png":
        _png(rows, str(found), file)
    else:
        raise Error(f"a map was to be drawn to {file}, but only .svg and .png can be: give the file such an end")
    return found


def _longest(rows):
    return max((offset + size for places in rows for offset, size, _ in places), default=1)


def svg(rows, title):
    """A map as SVG."""
    scale = _WIDTH / _longest(rows)
    states = [state for state in _COLOURS if any(state == place[2] for places in rows for place in places)]
    height = 2 * _MARGIN + 44 + len(rows) * (_ROW + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 2 * _MARGIN}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{_MARGIN}" y="20">{html.escape(title)}</text>',
    ]
    for index, state in enumerate(states):
        x = _MARGIN + 160 * index
        lines.append(
            f'<rect x="{x}" y="30" width="10" height="10" fill="{_COLOURS[state]}"/>'
            f'<text x="{x + 15}" y="39">{_NAMES[state]}</text>'
        )
    for row, places in enumerate(rows):
        y = _MARGIN + 44 + row * (_ROW + _GAP)
        for offset, size, state in places:
            lines.append(
                f'<rect x="{_MARGIN + offset * scale:.2f}" y="{y}" width="{max(size * scale, 0.2):.2f}" '
                f'height="{_ROW}" fill="{_COLOURS[state]}"><title>{size} bytes, {_NAMES[state]}</title></rect>'
            )
    return "\n".join([*lines, "</svg>\n"])


def _png(rows, title, file):
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Error("a map as PNG needs matplotlib, which is not installed: install it, or draw SVG") from error
    figure = Figure(figsize=(10, 1 + 0.25 * max(len(rows), 1)))
    axes = figure.add_subplot()
    for row, places in enumerate(rows):
        spans = [(offset, size) for offset, size, _ in places]
        axes.broken_barh(spans, (row, 0.8), facecolors=[_COLOURS[state] for _, _, state in places])
    axes.set_title(title, fontsize=7)
    axes.set_xlabel("bytes from the beginning of the segment")
    axes.set_ylabel("segment")
    figure.savefig(file, bbox_inches="tight")
