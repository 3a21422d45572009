"""What a stream asks of the server that carries it, beyond what ASGI knows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from starlette.types import Scope

EXTENSION: Final = "pyoco.carrier"


class Closing:
    """Whether the server is about to stop; streams that are open hear of it while they can write.

    The end of the application comes too late for that: connections are closed by then.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._listeners: set[Callable[[], None]] = set()

    def set(self) -> None:
        """Tell all who listen."""
        self.is_set = True
        for listener in list(self._listeners):
            listener()

    async def within(self, seconds: float) -> bool:
        """Return whether it is set, at once or before the time is up."""
        if self.is_set:
            return True
        heard = anyio.Event()
        with self.heard_by(heard.set), anyio.move_on_after(seconds):
            await heard.wait()
        return self.is_set

    @contextmanager
    def heard_by(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have `listener` called when it is set; not for what has been before."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)


@dataclass(frozen=True, slots=True)
class StreamConnection:
    """The connection under a request."""

    closing: Closing = field(default_factory=Closing)
    # Ends the connection without sending what is left: its reader does not read.
    abort: Callable[[], None] = lambda: None
    # Whether what was sent has gone out, so far as that is known.
    is_clear: Callable[[], bool] = lambda: False


def stream_connection_of(scope: Scope) -> StreamConnection:
    """Return the connection under a request; one that never closes, for a server not our own."""
    found: StreamConnection | None = scope.get("extensions", {}).get(EXTENSION)
    return found or StreamConnection()
