"""PyTorch allocates from scatterheap.

>>> import scatterheap.torch
>>> scatterheap.torch.use()          # before anything is on a GPU
>>> scatterheap.torch.statistics()["reserved_bytes"]

Memory of a tensor is used again in the order of streams; ``Tensor.record_stream`` and ``torch.cuda.empty_cache`` work.
Where there is no memory a ``RuntimeError`` is raised whose text begins with "out of memory". As with every pluggable
allocator, PyTorch's own statistics (``torch.cuda.memory_allocated`` and the like) are not available, and CUDA graphs
cannot allocate while they are captured.
"""

import ctypes

from . import _native
from ._native import configure_default, default_resource
from .errors import Error

_used = None


def use(composition=None, trace=None):
    """Lets PyTorch allocate from default resources of this ``composition``. If none is given, the variable
    ``SCATTERHEAP_COMPOSITION`` says it, and ``"default"`` is used where that is not set or there is a ``trace``. With
    ``trace`` every call is written to that file; for a GPU other than 0 its number is put at the end. Must be called before
    PyTorch allocates on a GPU."""
    global _used
    import torch

    if _used is not None:
        raise Error("PyTorch was to use scatterheap, but does so already: call use() once")
    if trace is not None:
        if "," in str(trace):
            raise Error(f"a trace was to be written to {trace}, whose name has a comma: use another name")
        composition = f"trace={trace},{composition or 'default'}"
    if composition is not None:
        configure_default(composition)
    _used = _install(torch)


def _install(torch):
    library = _native.__file__
    memory = torch.cuda.memory
    allocator = memory.CUDAPluggableAllocator(
        library, "scatterheap_torch_allocate_or_throw", "scatterheap_torch_free"
    )
    _set_hooks(allocator.allocator(), ctypes.CDLL(library))
    try:
        memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise Error(f"PyTorch refused the allocator ({error}): call use() before anything is on a GPU") from error
    return allocator


def _set_hooks(allocator, library):
    """Registers what the public interface of PyTorch has no parameters for."""
    for setter, function in [
        ("set_record_stream_fn", library.scatterheap_torch_record_stream),
        ("set_reset_fn", library.scatterheap_torch_empty_cache),
    ]:
        if not hasattr(allocator, setter):
            raise Error(
                f"this PyTorch has no {setter} for allocators, without which memory would be used again too early: "
                "use PyTorch 2.1 or newer"
            )
        getattr(allocator, setter)(ctypes.cast(function, ctypes.c_void_p).value)


def resource(device=0):
    """The resource that PyTorch's memory of this GPU is from."""
    return default_resource(device)


def statistics(device=0):
    """What that resource counts."""
    return default_resource(device).statistics()
