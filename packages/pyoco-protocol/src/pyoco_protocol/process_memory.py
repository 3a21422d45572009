"""Garbage collection and memory release of server processes."""

import ctypes
import gc
import sys
from typing import Final

# The default of 700 starts a collection every few requests. Nearly all of those objects are
# already freed by reference counting.
_YOUNG_OBJECTS: Final = 20_000


def tune_garbage_collector() -> None:
    """Exclude all existing objects from future collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def release_free_memory() -> None:
    """Return freed memory to the operating system. Slow: call it in a worker thread."""
    gc.collect()
    if sys.platform == "linux":
        # Only glibc has malloc_trim, and only glibc keeps freed memory without it.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
