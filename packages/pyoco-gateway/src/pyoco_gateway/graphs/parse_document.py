"""Parses documents without blocking other requests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

# Up to this size, parsing and validating takes less time than a thread costs other requests.
_INLINE_BYTES: Final = 16_384
# Enough for the cores of a small machine; large documents must not occupy all cores.
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class ParseDocument:
    """Calls a parser: at once for a small text, in a thread for a large one."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    async def __call__(self, parse: Callable[[], T], size_bytes: int) -> T:
        """Return what `parse` returns for a text of this size."""
        if size_bytes <= _INLINE_BYTES:
            return parse()
        return await anyio.to_thread.run_sync(parse, limiter=self.limiter)
