"""Reads and removes dead letters."""

import json
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.stored_message import StoredMessage, read_message
from pyoco_protocol.subjects import Names

_API: Final = "$JS.API"


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter and its sequence in the stream."""

    seq: int
    letter: DeadLetter


@dataclass(frozen=True, slots=True)
class Extent:
    """The sequence range of the dead-letter stream; it may have gaps."""

    first_seq: int
    last_seq: int


class DeadLetterReader:
    """Reads dead letters from the leader, so that a removed one is never returned."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names

    async def read(self, seq: int) -> StoredLetter | None:
        """Return the dead letter at a sequence, or None if there is none."""
        message = await self._get({"seq": seq})
        if message is None:
            return None
        letter = DeadLetter.from_bytes(message.data, stored_at=message.stored_at)
        return StoredLetter(seq, letter)

    async def remove(self, seq: int) -> bool:
        """Delete a dead letter; return False if it was already gone."""
        request = json.dumps({"seq": seq, "no_erase": True}).encode()
        subject = f"{_API}.STREAM.MSG.DELETE.{self._names.dlq_stream}"
        try:
            await ask(self._broker.require_up(), subject, request)
        except RefusedError:
            # The server's error codes for a missing message are ambiguous.
            if await self._get({"seq": seq}) is not None:
                raise
            return False
        return True

    async def extent(self) -> Extent:
        """Return the current sequence range of the stream."""
        subject = f"{_API}.STREAM.INFO.{self._names.dlq_stream}"
        state = (await ask(self._broker.require_up(), subject))["state"]
        return Extent(int(state["first_seq"]), int(state["last_seq"]))

    async def newest_seq(self) -> int:
        """Return the sequence of the newest existing dead letter, or 0 if there is none."""
        message = await self._get({"last_by_subj": self._names.all_dlq})
        return 0 if message is None else message.seq

    async def _get(self, request: dict[str, object]) -> StoredMessage | None:
        return await read_message(self._broker.require_up(), self._names.dlq_stream, request)
