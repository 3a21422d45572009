"""Receives the frames that a child sends over a socket."""

import asyncio
import logging
from collections.abc import Callable

from pyoco_worker.child.frames import ChildFrame, FrameDecoder, FrameError, parse_from_child

_log = logging.getLogger(__name__)


class FrameStream(asyncio.Protocol):
    """Splits the bytes of a child into frames and passes each one to `on_frame`."""

    def __init__(self, on_frame: Callable[[ChildFrame], None], on_end: Callable[[], None]) -> None:
        self._decoder = FrameDecoder()
        self._on_frame = on_frame
        self._on_end = on_end
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, so that it can be closed."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on the complete frames; close the socket at the first invalid one."""
        try:
            for body in self._decoder.feed(data):
                self._on_frame(parse_from_child(body))
        except FrameError as error:
            # User code wrote to the socket, so the bytes that follow cannot be trusted either.
            _log.error("child sent an invalid frame", exc_info=error)
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the child has closed its end."""
        self._on_end()
