"""One job in hand, and the words the queue understands about it."""

import json
from collections.abc import Mapping
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_worker.claim.rules import Delivered

_ACK: Final = b"+ACK"
_NAK: Final = b"-NAK"
_IN_PROGRESS: Final = b"+WPI"
_TERM: Final = b"+TERM"
_ACK_TIMEOUT_SEC: Final = 5.0


class Delivery:
    """A job as the queue handed it to us."""

    def __init__(self, client: Client, message: Msg) -> None:
        self._client = client
        self._reply = message.reply
        metadata = message.metadata
        self.data = message.data
        self.headers: Mapping[str, str] = message.headers or {}
        self.subject = message.subject
        self.stream_seq = metadata.sequence.stream
        self.num_delivered = metadata.num_delivered

    def facts(self, still_at_revision: int | None, max_deliver: int | None) -> Delivered:
        """Return what the claim rule needs to know."""
        return Delivered(self.stream_seq, self.num_delivered, still_at_revision, max_deliver)

    def replaced_by(self, newer: "Delivery") -> None:
        """Speak through a newer delivery of the same job: only that one is listened to."""
        self._reply = newer._reply
        self.num_delivered = newer.num_delivered

    async def ack(self) -> None:
        """Remove the job and wait until the queue has done so; raise where that is not sure."""
        await self._confirmed(_ACK)

    async def term(self, reason: str) -> None:
        """Remove a job that nobody can ever do, and wait until the queue has done so."""
        await self._confirmed(_TERM + b" " + reason.encode())

    async def nak(self, delay_sec: float = 0.0) -> None:
        """Give the job back, to be handed out again after `delay_sec`."""
        options = json.dumps({"delay": round(delay_sec * 1e9)}).encode()
        await self._say(_NAK + b" " + options if delay_sec else _NAK)

    async def in_progress(self) -> None:
        """Keep the job for another AckWait."""
        await self._say(_IN_PROGRESS)

    async def _confirmed(self, word: bytes) -> None:
        if not self._client.is_connected:
            raise BrokerUnavailableError("not connected to the broker")
        try:
            await self._client.request(self._reply, word, timeout=_ACK_TIMEOUT_SEC)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise BrokerUnavailableError(f"the job is not settled: {error}") from error

    async def _say(self, word: bytes) -> None:
        if not self._client.is_connected:
            raise BrokerUnavailableError("not connected to the broker")
        try:
            await self._client.publish(self._reply, word)
        except (nats.errors.Error, OSError) as error:
            raise BrokerUnavailableError(str(error)) from error
