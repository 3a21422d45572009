"""The server connection under a streaming response: shutdown notice, abort, write state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from starlette.types import Scope

EXTENSION: Final = "pyoco.stream_connection"


class ShutdownNotice:
    """Tells open streams that the server is about to stop, while they can still write.

    The ASGI lifespan shutdown comes too late: connections are closed by then.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._listeners: set[Callable[[], None]] = set()

    def set(self) -> None:
        """Call all listeners."""
        self.is_set = True
        for listener in list(self._listeners):
            listener()

    async def within(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether the notice is set."""
        if self.is_set:
            return True
        event = anyio.Event()
        with self.notify(event.set), anyio.move_on_after(seconds):
            await event.wait()
        return self.is_set

    @contextmanager
    def notify(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` when the notice is set; not if it was set before."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)


@dataclass(frozen=True, slots=True)
class StreamConnection:
    """The connection under a request."""

    closing: ShutdownNotice = field(default_factory=ShutdownNotice)
    # Closes the connection without sending what is buffered.
    abort: Callable[[], None] = lambda: None
    # Whether the write buffer is below its limit; False if that is unknown.
    is_clear: Callable[[], bool] = lambda: False


def stream_connection_of(scope: Scope) -> StreamConnection:
    """Return the connection under a request; under another ASGI server, one that does nothing."""
    found: StreamConnection | None = scope.get("extensions", {}).get(EXTENSION)
    return found or StreamConnection()
