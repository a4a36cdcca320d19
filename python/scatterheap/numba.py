"""Device functions for Numba's CUDA kernels.

>>> from numba import cuda
>>> import numpy as np, scatterheap
>>> from scatterheap.numba import array, free, malloc
>>>
>>> @cuda.jit(max_registers=64)
... def sums(heap, lengths, out):
...     thread = cuda.grid(1)
...     if thread >= out.size:
...         return
...     address = malloc(heap, lengths[thread] * 8)
...     if address == 0:
...         return                                            # nothing is left; the heap has counted it
...     numbers = array(address, lengths[thread], np.float64)
...     ...
...     free(heap, address)
>>>
>>> heap = scatterheap.Heap("64MiB")
>>> sums[blocks, 256](heap.address, lengths, out)

==================================  =======================================================================
``malloc(heap, bytes)``             a block, or 0
``malloc_tagged(heap, bytes, site)``  the same, with a number that ``Heap.leaks`` of a heap with tags groups blocks by
``calloc(heap, count, bytes)``      a block of zeros
``realloc(heap, address, bytes)``   a block with the content of another one, which is freed
``aligned_alloc(heap, alignment, bytes)``  a block at a multiple of a power of two
``free(heap, address)``             takes a block back
``usable_size(heap, address)``      bytes of a block, at least as many as were asked for
``array(address, shape, dtype)``    a block as an array, with no check of its size; ``shape`` is a number or a tuple
==================================  =======================================================================

``heap`` is ``Heap.address``. Addresses are 64-bit numbers, and may be kept in arrays. A kernel has as many registers as the
functions that are linked to it need, unless it says ``max_registers=64``, with which 1024 threads run on a multiprocessor
at once. This module is for the package numba-cuda.
"""

import atexit
import pathlib
import tempfile

from . import _native
from .errors import Error

try:
    from numba import cuda
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.arrayobj import populate_array
except ImportError as error:
    raise Error(
        f"scatterheap.numba needs the package numba-cuda, which cannot be imported ({error}): install numba-cuda"
    ) from error

__all__ = ["aligned_alloc", "array", "calloc", "free", "malloc", "malloc_tagged", "realloc", "usable_size"]

_OLDEST = (7, 5)


def _code():
    """The device functions as a file, for all GPUs there are, or any."""
    capability = _OLDEST
    if cuda.is_available():
        capability = min(device.compute_capability for device in cuda.gpus)
    directory = tempfile.TemporaryDirectory(prefix="scatterheap-")
    atexit.register(directory.cleanup)
    file = pathlib.Path(directory.name, "scatterheap-device.ptx")
    file.write_text(_native.device_functions(*capability))
    return str(file)


_FILE = _code()


def _declare(name, result, *arguments):
    signature = f"{result}({', '.join(['uint64', *arguments])})"
    return cuda.declare_device(f"scatterheap_numba_{name}", signature, link=_FILE)


malloc = _declare("malloc", "uint64", "uint64")
malloc_tagged = _declare("malloc_tagged", "uint64", "uint64", "uint32")
calloc = _declare("calloc", "uint64", "uint64", "uint64")
realloc = _declare("realloc", "uint64", "uint64", "uint64")
aligned_alloc = _declare("aligned_alloc", "uint64", "uint64", "uint64")
free = _declare("free", "void", "uint64")
usable_size = _declare("usable_size", "uint64", "uint64")


@intrinsic
def array(typing_context, address, shape, dtype):
    """A block as an array; for kernels."""
    extents = [shape] if isinstance(shape, types.Integer) else list(shape)
    result = types.Array(dtype.dtype, len(extents), "C")

    def generate(context, builder, signature, arguments):
        place = context.cast(builder, arguments[0], address, types.uint64)
        given = [arguments[1]] if isinstance(shape, types.Integer) else cgutils.unpack_tuple(builder, arguments[1])
        sizes = [context.cast(builder, size, kind, types.intp) for size, kind in zip(given, extents)]
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(result.dtype)))
        steps = [item]
        for size in reversed(sizes[1:]):
            steps.insert(0, builder.mul(steps[0], size))
        made = context.make_array(result)(context, builder)
        populate_array(
            made, data=builder.inttoptr(place, made.data.type), shape=sizes, strides=steps, itemsize=item, meminfo=None
        )
        return made._getvalue()

    return result(address, shape, dtype), generate
