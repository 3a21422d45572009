"""The stream of what runs print: put a chunk in, read a run's chunks in order, hear of new ones."""

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import nats.errors
from nats.aio.msg import Msg
from pydantic import ValidationError

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask, until_known
from pyoco_protocol.runs.output import LogChunk
from pyoco_protocol.subjects import Names

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_NO_MESSAGE: Final = 10037
# What travels around a chunk.
_HEADER_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A message of the stream; `chunk` is None for one that cannot be read."""

    stream_seq: int
    chunk: LogChunk | None


class OutputStore:
    """Keeps what runs print for as long as the limits of the stream allow."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._read_subject = subjects.last_message(names.run_log_stream)

    @property
    def max_message_bytes(self) -> int:
        """The largest chunk this broker takes."""
        return self._broker.client.max_payload - _HEADER_BYTES

    async def put(self, chunk: LogChunk) -> None:
        """Return when the chunk is stored. Repeating it is harmless."""
        client = self._broker.require_up()
        subject = self._names.run_log(chunk.run_id)
        await ask(client, subject, chunk.to_bytes(), headers={"Nats-Msg-Id": chunk.message_id})

    async def next(self, run_id: str, from_seq: int) -> StoredChunk | None:
        """Return a run's first chunk at or after a sequence, as the leader has it; None at the end.

        The leader, because a run's end is told only after its last chunk is stored there: who
        knows the end and finds no more has seen everything.
        """
        subject = self._names.run_log(run_id)
        request = json.dumps({"seq": max(from_seq, 1), "next_by_subj": subject}).encode()
        try:
            answer = await ask(self._broker.require_up(), self._read_subject, request)
        except RefusedError as refusal:
            if refusal.err_code == _NO_MESSAGE:
                return None
            raise
        message = answer["message"]
        seq = int(message["seq"])
        try:
            chunk = LogChunk.from_bytes(base64.b64decode(message.get("data") or b""))
        except ValidationError:
            _log.warning("run log cannot be read", extra={"run_id": run_id, "stream_seq": seq})
            return StoredChunk(seq, None)
        return StoredChunk(seq, chunk)

    async def purge(self, run_id: str) -> None:
        """Remove all that a run has printed; harmless where it has printed nothing."""
        request = json.dumps({"filter": self._names.run_log(run_id)}).encode()
        stream = self._names.run_log_stream
        await ask(self._broker.require_up(), f"{_API}.STREAM.PURGE.{stream}", request)

    @asynccontextmanager
    async def hearing(self, run_id: str, on_chunk: Callable[[], None]) -> AsyncIterator[None]:
        """Have `on_chunk` called whenever the run prints, a moment before or after it is stored.

        A hint: what is printed while the connection is down goes unheard.
        """

        async def hear(_: Msg) -> None:
            on_chunk()

        client, subscription = self._broker.client, None
        try:
            subscription = await client.subscribe(self._names.run_log(run_id), cb=hear)
        except (nats.errors.Error, OSError) as error:
            _log.debug("not subscribed", extra={"reason": str(error)})
        try:
            await until_known(client)
            yield
        finally:
            try:
                if subscription is not None:
                    await subscription.unsubscribe()
            except (nats.errors.Error, OSError) as error:
                # Gone with its connection.
                _log.debug("subscription not ended", extra={"reason": str(error)})
