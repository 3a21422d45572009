"""Pulls jobs of several tags at once, never more than there is room for."""

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import nats.errors
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, PyocoError
from pyoco_protocol.subjects import Names
from pyoco_worker.intake.delivery import Delivery

_log = logging.getLogger(__name__)

_STATUS: Final = "Status"
_IDLE_HEARTBEAT_STATUS: Final = "100"
_TIMED_OUT_STATUS: Final = "408"
# The server ends a pull itself; one that it has forgotten (a restart) is dropped this much later.
_EXPIRY_SLACK_SEC: Final = 1.0
_STEP_SEC: Final = 0.5
_MIN_PULL_SEC: Final = 0.1
_DRAIN_SEC: Final = 1.0


@dataclass(slots=True)
class _Pull:
    tag: str
    left: int
    expires_at: float


class JobSource:
    """Keeps pulls open on all tags while there is room, and passes on what comes.

    `take` is handed each job and answers whether it has room for it; a job without room goes
    straight back to the queue. With several tags more can arrive than was asked for in all.
    """

    def __init__(
        self,
        broker: Broker,
        names: Names,
        tags: Sequence[str],
        *,
        room: Callable[[], int],
        take: Callable[[Delivery], bool],
        restore: Callable[[], Awaitable[None]],
        pull_sec: float,
    ) -> None:
        self._broker = broker
        self._names = names
        self._tags = tuple(tags)
        self._room = room
        self._take = take
        self._restore = restore
        self._pull_sec = max(pull_sec, _MIN_PULL_SEC)
        self._pulls: dict[str, _Pull] = {}
        self._next_pull = 0
        self._inbox = broker.client.new_inbox()
        self._trouble = False
        self._wake = anyio.Event()
        self._stopped = False

    def wake(self) -> None:
        """Look at once whether there is room for more."""
        self._wake.set()

    def stop(self) -> None:
        """Take nothing more; what still arrives goes back to the queue."""
        self._stopped = True
        self.wake()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Hear jobs while the block runs; afterwards what arrives late goes back."""
        subscription = await self._broker.client.subscribe(f"{self._inbox}.*", cb=self._on_message)
        try:
            yield
        finally:
            self.stop()
            with anyio.move_on_after(_DRAIN_SEC, shield=True):
                try:
                    await subscription.drain()
                except (nats.errors.Error, OSError) as error:
                    _log.debug("job subscription not drained", extra={"reason": str(error)})

    async def run(self) -> None:
        """Keep pulls open until stopped."""
        connection = 0
        while not self._stopped:
            self._wake = anyio.Event()
            if self._broker.is_up and self._trouble:
                # The consumer may be gone. Asking at once again would only spin.
                await anyio.sleep(_STEP_SEC)
                await self._restore_consumers()
            if self._broker.is_up:
                if self._broker.connections != connection:
                    # Pulls of an earlier connection are forgotten by the server or soon will be.
                    self._pulls.clear()
                    connection = self._broker.connections
                await self._top_up()
            with anyio.move_on_after(_STEP_SEC):
                await self._wake.wait()

    async def _restore_consumers(self) -> None:
        try:
            await self._restore()
        except (PyocoError, RefusedError) as error:
            _log.warning("queue consumers cannot be restored", extra={"reason": str(error)})
            return
        self._trouble = False

    async def _top_up(self) -> None:
        now = time.monotonic()
        for key in [key for key, pull in self._pulls.items() if pull.expires_at < now]:
            del self._pulls[key]
        room = self._room()
        if room <= 0:
            return
        share = max(1, room // len(self._tags))
        for tag in self._tags:
            asked = sum(pull.left for pull in self._pulls.values() if pull.tag == tag)
            # A pull for each single job would double the traffic when many are waiting.
            if asked * 2 <= share and asked < share:
                await self._pull(tag, share - asked)

    async def _pull(self, tag: str, batch: int) -> None:
        self._next_pull += 1
        key = str(self._next_pull)
        request = {"batch": batch, "expires": round(self._pull_sec * 1e9)}
        expires_at = time.monotonic() + self._pull_sec + _EXPIRY_SLACK_SEC
        self._pulls[key] = _Pull(tag, batch, expires_at)
        subject = subjects.next_messages(self._names.work_stream, subjects.work_consumer(tag))
        try:
            await self._broker.client.publish(
                subject, json.dumps(request).encode(), reply=f"{self._inbox}.{key}"
            )
        except (nats.errors.Error, OSError) as error:
            del self._pulls[key]
            _log.debug("pull not sent", extra={"tag": tag, "reason": str(error)})

    async def _on_message(self, message: Msg) -> None:
        # A job arrives under its own subject; the server's remarks arrive under the pull's. Its
        # headers would not tell: a job may carry any.
        if message.subject.startswith(f"{self._inbox}."):
            self._on_remark(message)
            return
        delivery = Delivery(self._broker.client, message)
        self._count(delivery)
        if self._stopped or not self._take(delivery):
            try:
                await delivery.nak()
            except BrokerUnavailableError as error:
                # It comes again by itself, after AckWait.
                _log.debug("job not given back", extra={"reason": str(error)})
        self.wake()

    def _count(self, delivery: Delivery) -> None:
        tag = self._names.tag_of_work(delivery.subject)
        for key, pull in self._pulls.items():
            if pull.tag == tag:
                pull.left -= 1
                if pull.left <= 0:
                    del self._pulls[key]
                return

    def _on_remark(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get(_STATUS, "")
        if status == _IDLE_HEARTBEAT_STATUS:
            return
        if status != _TIMED_OUT_STATUS:
            _log.info("pull refused", extra={"reason": headers.get("Description", status)})
            self._trouble = True
        self._pulls.pop(message.subject.rpartition(".")[2], None)
        self.wake()
