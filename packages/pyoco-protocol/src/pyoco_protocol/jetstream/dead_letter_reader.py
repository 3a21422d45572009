"""The dead letters that are kept: read one, remove one."""

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyoco_protocol import subjects
from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.subjects import Names

_API: Final = "$JS.API"
_NO_MESSAGE: Final = 10037


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter and its place in the stream."""

    seq: int
    letter: DeadLetter


@dataclass(frozen=True, slots=True)
class Extent:
    """Between which sequences letters can be; those in between may be gone."""

    first_seq: int
    last_seq: int


class DeadLetterReader:
    """Reads dead letters from the leader, so that who removed one does not meet it again."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names

    async def read(self, seq: int) -> StoredLetter | None:
        """Return the letter at a sequence; None where there is none, or none any more."""
        message = await self._get({"seq": seq})
        if message is None:
            return None
        stored_at = datetime.fromisoformat(message["time"]).timestamp()
        data = base64.b64decode(message.get("data") or b"")
        return StoredLetter(seq, DeadLetter.from_bytes(data, stored_at=stored_at))

    async def remove(self, seq: int) -> bool:
        """Take a letter out; False where it was gone already."""
        request = json.dumps({"seq": seq, "no_erase": True}).encode()
        subject = f"{_API}.STREAM.MSG.DELETE.{self._names.dlq_stream}"
        try:
            await ask(self._broker.require_up(), subject, request)
        except RefusedError:
            # The server has several codes for what is not there, and uses them for more than that.
            if await self._get({"seq": seq}) is not None:
                raise
            return False
        return True

    async def extent(self) -> Extent:
        """Return where the stream begins and ends now."""
        subject = f"{_API}.STREAM.INFO.{self._names.dlq_stream}"
        state = (await ask(self._broker.require_up(), subject))["state"]
        return Extent(int(state["first_seq"]), int(state["last_seq"]))

    async def newest_seq(self) -> int:
        """Return the sequence of the newest letter that is still there; 0 where none is."""
        message = await self._get({"last_by_subj": self._names.all_dlq})
        return 0 if message is None else int(message["seq"])

    async def _get(self, request: dict[str, object]) -> dict[str, Any] | None:
        subject = subjects.last_message(self._names.dlq_stream)
        try:
            answer = await ask(self._broker.require_up(), subject, json.dumps(request).encode())
        except RefusedError as refusal:
            if refusal.err_code == _NO_MESSAGE:
                return None
            raise
        message: dict[str, Any] = answer["message"]
        return message
