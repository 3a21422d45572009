"""Reads a stored message of a stream from its leader."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nats.aio.client import Client

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC, RefusedError, ask

_NO_MESSAGE: Final = 10037


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the server returns it; its parts are decoded when they are read."""

    fields: Mapping[str, Any]

    @property
    def seq(self) -> int:
        """The sequence of the message in its stream."""
        return int(self.fields["seq"])

    @property
    def subject(self) -> str:
        """The subject on which the message was published."""
        return str(self.fields["subject"])

    @property
    def data(self) -> bytes:
        """The body of the message."""
        return base64.b64decode(self.fields.get("data") or b"")

    @property
    def stored_at(self) -> float:
        """When the broker stored the message, in unix seconds."""
        return datetime.fromisoformat(self.fields["time"]).timestamp()


async def read_message(
    client: Client,
    stream: str,
    request: Mapping[str, object],
    *,
    timeout_sec: float = REQUEST_TIMEOUT_SEC,
) -> StoredMessage | None:
    """Return the message that `request` selects, or None if there is none.

    `request` is the body of `STREAM.MSG.GET`, for example `{"seq": 5}`.
    """
    subject = subjects.last_message(stream)
    try:
        answer = await ask(client, subject, json.dumps(request).encode(), timeout_sec=timeout_sec)
    except RefusedError as refusal:
        if refusal.err_code == _NO_MESSAGE:
            return None
        raise
    return StoredMessage(answer["message"])
