"""One job as the queue delivered it, with the acknowledgements that JetStream accepts for it."""

import json
import logging
from collections.abc import Mapping
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

_ACK: Final = b"+ACK"
_NAK: Final = b"-NAK"
_IN_PROGRESS: Final = b"+WPI"
_TERM: Final = b"+TERM"
_ACK_TIMEOUT_SEC: Final = 5.0


class Delivery:
    """A message from the work queue that is not acknowledged yet."""

    def __init__(self, client: Client, message: Msg) -> None:
        self._client = client
        self._reply = message.reply
        metadata = message.metadata
        self.data = message.data
        self.headers: Mapping[str, str] = message.headers or {}
        self.subject = message.subject
        self.stream_seq = metadata.sequence.stream
        self.num_delivered = metadata.num_delivered

    def replace_with(self, newer: "Delivery") -> None:
        """Use a newer delivery of the same job for all later acknowledgements.

        The queue waits for an acknowledgement of its latest delivery.
        """
        self._reply = newer._reply
        self.num_delivered = newer.num_delivered

    async def ack(self) -> None:
        """Remove the job and wait for the broker's confirmation; raise without one."""
        await self._confirmed(_ACK)

    async def term(self, reason: str) -> None:
        """Remove a job that can never be executed, and wait for the broker's confirmation."""
        await self._confirmed(_TERM + b" " + reason.encode())

    async def nak(self, delay_sec: float = 0.0) -> None:
        """Return the job to the queue, which delivers it again after `delay_sec`."""
        options = json.dumps({"delay": round(delay_sec * 1e9)}).encode()
        await self._publish(_NAK + b" " + options if delay_sec else _NAK)

    async def in_progress(self) -> None:
        """Extend the lease on the job by another AckWait."""
        await self._publish(_IN_PROGRESS)

    async def _confirmed(self, body: bytes) -> None:
        if not self._client.is_connected:
            raise BrokerUnavailableError("not connected to the broker")
        try:
            await self._client.request(self._reply, body, timeout=_ACK_TIMEOUT_SEC)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise BrokerUnavailableError(f"the job is not settled: {error}") from error

    async def _publish(self, body: bytes) -> None:
        if not self._client.is_connected:
            raise BrokerUnavailableError("not connected to the broker")
        try:
            await self._client.publish(self._reply, body)
        except (nats.errors.Error, OSError) as error:
            raise BrokerUnavailableError(str(error)) from error


async def give_back(delivery: Delivery, delay_sec: float) -> None:
    """Return the job to the queue; if that fails, the queue delivers it again after AckWait."""
    try:
        await delivery.nak(delay_sec)
    except BrokerUnavailableError as error:
        _log.info("job not given back", extra={"reason": str(error)})
