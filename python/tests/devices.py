"""Which devices tests run on, and how they say what they skip."""

import importlib.util
import unittest

import scatterheap

GPUS = range(scatterheap.gpu_count())
GPU = len(GPUS) > 0
DEVICES = ["cpu", *(f"cuda:{number}" for number in GPUS)]


def skip(what, reason):
    """Skips a test, with a line that the summary of all tests collects."""
    print(f"skipped: {what} ({reason})", flush=True)
    raise unittest.SkipTest(reason)


def require_gpu(what):
    """Skips a test where there is no GPU."""
    if not GPU:
        skip(f"{what} on a GPU", "no GPU found")


def require_gpus(what):
    """Skips a test where there are not several GPUs."""
    if len(GPUS) < 2:
        skip(f"{what} on several GPUs", f"{len(GPUS)} found")


def require_module(name, what):
    """Skips a test where a module is not installed, and imports it elsewhere."""
    if importlib.util.find_spec(name) is None:
        skip(f"{what}", f"{name} is not installed")
    return importlib.import_module(name)
