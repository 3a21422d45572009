"""Pulls jobs of all tags, never more than the worker has room for."""

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
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import BrokerUnavailableError, PyocoError
from pyoco_protocol.subjects import Names
from pyoco_worker.delivery import Delivery

_log = logging.getLogger(__name__)

_STATUS: Final = "Status"
_IDLE_HEARTBEAT_STATUS: Final = "100"
_TIMED_OUT_STATUS: Final = "408"
# The server ends a pull itself. After a server restart it does not, so this much later the pull
# counts as expired here too.
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
    """Keeps pull requests open on all tags while there is room, and passes jobs to `take`.

    `take` returns False when it has no room, and the job then returns to the queue at once. With
    several tags, more jobs can arrive than there is room for.
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
        self._must_restore = False
        self._wake = anyio.Event()
        self._stopped = False

    def wake(self) -> None:
        """Check at once whether there is room for more jobs."""
        self._wake.set()

    def stop(self) -> None:
        """Take no more jobs; jobs that still arrive return to the queue."""
        self._stopped = True
        self.wake()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Receive jobs while the block runs; jobs that arrive later return to the queue."""
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
        """Keep pull requests open until stopped."""
        connection = 0
        while not self._stopped:
            self._wake = anyio.Event()
            if self._broker.is_up and self._must_restore:
                # The consumer may be gone. The pause keeps repeated refusals from spinning.
                await anyio.sleep(_STEP_SEC)
                await self._restore_consumers()
            if self._broker.is_up:
                if self._broker.connections != connection:
                    # The server drops pulls of an earlier connection.
                    self._pulls.clear()
                    connection = self._broker.connections
                await self._top_up()
            with anyio.move_on_after(_STEP_SEC):
                await self._wake.wait()

    async def _restore_consumers(self) -> None:
        try:
            await self._restore()
        except (PyocoError, RefusedError) as error:
            _log.warning("queue consumers cannot be restored", extra=error_fields(error))
            return
        self._must_restore = False

    async def _top_up(self) -> None:
        now = time.monotonic()
        for key in [key for key, pull in self._pulls.items() if pull.expires_at < now]:
            del self._pulls[key]
        room = self._room()
        if room <= 0:
            return
        share = max(1, room // len(self._tags))
        for tag in self._tags:
            requested = sum(pull.left for pull in self._pulls.values() if pull.tag == tag)
            # One pull per job would double the traffic when many jobs are waiting.
            if requested * 2 <= share and requested < share:
                await self._pull(tag, share - requested)

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
        # The subject tells jobs from status messages: a job has the subject it was published
        # under, a status message has the inbox of its pull. Headers don't tell, because a job can
        # carry any header.
        if message.subject.startswith(f"{self._inbox}."):
            self._on_status(message)
            return
        delivery = Delivery(self._broker.client, message)
        self._count(delivery)
        if self._stopped or not self._take(delivery):
            try:
                await delivery.nak()
            except BrokerUnavailableError as error:
                # The queue delivers the job again after AckWait.
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

    def _on_status(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get(_STATUS, "")
        if status == _IDLE_HEARTBEAT_STATUS:
            return
        if status != _TIMED_OUT_STATUS:
            _log.info("pull refused", extra={"reason": headers.get("Description", status)})
            self._must_restore = True
        self._pulls.pop(message.subject.rpartition(".")[2], None)
        self.wake()
