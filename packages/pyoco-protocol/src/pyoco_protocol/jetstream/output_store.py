"""Stores, reads and deletes the output of runs."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import nats.errors
from nats.aio.msg import Msg
from pydantic import ValidationError

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask, confirm_subscriptions
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.runs.output import OutputChunk
from pyoco_protocol.subjects import Names

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
# Space for the headers of a chunk's message.
_HEADER_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A message of the stream; `chunk` is None if the message is invalid."""

    stream_seq: int
    chunk: OutputChunk | None


class OutputStore:
    """The stored output of all runs; the limits of the stream decide how long it is kept."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names

    @property
    def max_message_bytes(self) -> int:
        """The largest chunk that this broker accepts."""
        return self._broker.client.max_payload - _HEADER_BYTES

    async def put(self, chunk: OutputChunk) -> None:
        """Store a chunk. The broker drops a repeat of it."""
        client = self._broker.require_up()
        subject = self._names.run_log(chunk.run_id)
        await ask(client, subject, chunk.to_bytes(), headers={"Nats-Msg-Id": chunk.message_id})

    async def next(self, run_id: str, from_seq: int) -> StoredChunk | None:
        """Return a run's first chunk at or after a sequence, or None if there is none.

        Reads from the leader. A run becomes terminal only after its last chunk is stored there,
        so a reader of a terminal run that gets None has read everything.
        """
        request = {"seq": max(from_seq, 1), "next_by_subj": self._names.run_log(run_id)}
        stream = self._names.run_log_stream
        message = await read_message(self._broker.require_up(), stream, request)
        if message is None:
            return None
        try:
            return StoredChunk(message.seq, OutputChunk.from_bytes(message.data))
        except ValidationError:
            extra = {"run_id": run_id, "stream_seq": message.seq}
            _log.warning("run output chunk is invalid", extra=extra)
            return StoredChunk(message.seq, None)

    async def purge(self, run_id: str) -> None:
        """Delete the output of a run, if there is any."""
        request = json.dumps({"filter": self._names.run_log(run_id)}).encode()
        stream = self._names.run_log_stream
        await ask(self._broker.require_up(), f"{_API}.STREAM.PURGE.{stream}", request)

    @asynccontextmanager
    async def subscribed(self, run_id: str, on_chunk: Callable[[], None]) -> AsyncIterator[None]:
        """Call `on_chunk` for each new chunk, shortly before or after it is stored.

        Chunks published while the connection is down are not announced.
        """

        async def receive(_: Msg) -> None:
            on_chunk()

        client, subscription = self._broker.client, None
        try:
            subscription = await client.subscribe(self._names.run_log(run_id), cb=receive)
        except (nats.errors.Error, OSError) as error:
            _log.debug("subscribe failed", extra={"reason": str(error)})
        try:
            await confirm_subscriptions(client)
            yield
        finally:
            try:
                if subscription is not None:
                    await subscription.unsubscribe()
            except (nats.errors.Error, OSError) as error:
                # The subscription ended with its connection.
                _log.debug("unsubscribe failed", extra={"reason": str(error)})
