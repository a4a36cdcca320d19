"""Heaps from which kernels allocate, and memory that the host allocates: on a GPU, or on the CPU where there is none.

A ``Heap`` is for threads of kernels. Those of Numba have its functions from ``scatterheap.numba``, those of CuPy from
``scatterheap.cupy.module``; a ``Snapshot`` tells what it holds.

>>> import scatterheap
>>> with scatterheap.Heap("64MiB", "cpu") as heap:
...     addresses = heap.malloc_each([16, 1000])
...     heap.occupancy()["used_blocks"]
2

The rest is memory that the host allocates.

>>> memory = scatterheap.Resource("cpu", "statistics,caching")
>>> with scatterheap.Block(memory, 1000) as block:
...     memory.statistics()["live_bytes"]
1000

A ``Resource`` hands out addresses: ``allocate(bytes, alignment=256, stream=0)``, ``deallocate(address, bytes,
alignment=256, stream=0)``. It is made from a device (``"auto"``, ``"cpu"``, ``"cuda:0"``) and a composition: adaptors
from the outermost on, and a resource at the end, such as ``"statistics,limit=8GiB,caching"``.

===============================  =============================================================
resource                         hands out
===============================  =============================================================
``default``                      what ``SCATTERHEAP_RESOURCE_*`` variables say: a cache of ``remapping``
``remapping``                    any size; free memory is mapped to where it is needed
``caching``                      any size; keeps what is freed by size class, thread and stream
``segments``                     any size, at the best fitting free place
``device``                       what the device's own allocator gives: slow
``slab``                         256 B to 64 KiB
``buddy=SIZE``                   powers of two, from one piece of memory
``pool=SIZExCOUNT``              blocks of one size, a fixed number
``arena=SIZE``                   one block behind the other; emptied by ``reset``
===============================  =============================================================

===============================  =============================================================
adaptor                          adds
===============================  =============================================================
``statistics``                   counts of calls and bytes
``tracking``                     a report of what is live
``limit=SIZE``                   no more than SIZE bytes at once
``trace=FILE``                   every call as CSV
``caching``, ``segments``        the same as above, in front of any resource
===============================  =============================================================

``"caching"`` is short for ``"caching,segments,device"``; ``"caching,segments,limit=8GiB,device"`` limits what is taken
from the device rather than what is handed out. Where a composition is for several devices (``configure_default``,
``scatterheap.torch.use``, ``scatterheap.cupy.use``), ``trace=FILE`` is FILE.N for device N, but for device 0, and for
what is there and is no file, such as ``/dev/null`` or a pipe, to which all write.

Streams are CUDA's handles, as numbers (``stream.cuda_stream`` of PyTorch, ``stream.ptr`` of CuPy); 0 is the default
stream. They must not be destroyed before the resource.

``scatterheap.torch.use()`` and ``scatterheap.cupy.use()`` let PyTorch and CuPy allocate here.
"""

from ._native import Resource, __version__, configure_default, default_resource, gpu_count
from .arena import Arena
from .block import Block
from .errors import Error, OutOfMemory
from .heap import Heap
from .maps import Fragmentation, fragmentation, plot
from .pool import Pool
from .snapshot import PageUse, Snapshot
from .tracking import Tracker

__all__ = [
    "Arena",
    "Block",
    "Error",
    "Fragmentation",
    "Heap",
    "OutOfMemory",
    "PageUse",
    "Pool",
    "Resource",
    "Snapshot",
    "Tracker",
    "__version__",
    "configure_default",
    "default_resource",
    "fragmentation",
    "gpu_count",
    "plot",
]
