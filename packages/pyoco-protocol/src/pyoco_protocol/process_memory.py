"""How a server process keeps its memory in order."""

import ctypes
import gc
import sys
from typing import Final

# The default looks through young objects after every 700 of them; a server makes that many for
# a handful of requests, nearly all of which are gone by then without its help.
_YOUNG_OBJECTS: Final = 20_000


def settle_memory() -> None:
    """Leave what is loaded out of all further collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def give_back_memory() -> None:
    """Return to the system what is kept for later; for a thread of its own."""
    gc.collect()
    if sys.platform == "linux":
        # Only glibc has it, and only glibc needs it.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
