"""Follows every change of a bucket or stream, across reconnects, restarts and re-created ones."""

import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import anyio
import anyio.lowlevel
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerUnavailableError, PyocoError

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_NANOSECONDS: Final = 1_000_000_000
# What is on its way to us lies in memory until it is told.
_BATCH: Final = 1024
_BREATH: Final = 128
_PULL_SEC: Final = 30.0
# The server says this often that it has nothing to say; silence means that it forgot us.
_HEARTBEAT_SEC: Final = 0.5
_SILENCE_SEC: Final = 2.0
_RETRY_SEC: Final = 0.2
# How long the server keeps our place when we are gone without a word.
_FORGET_SEC: Final = 30.0
_STATUS: Final = "Status"
_IDLE: Final = "100"
_PULL_OVER: Final = "408"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change: the key, its new value, and the revision, which orders all changes."""

    key: str
    revision: int
    # None for a key that was deleted or has expired.
    value: bytes | None
    written_at: float
    # How many changes are known to be behind this one.
    pending: int


class Follower(Protocol):
    """What hears of the changes. None of these may block or raise."""

    def on_entry(self, entry: Entry) -> None:
        """A key has changed."""

    def on_reset(self) -> None:
        """Forget everything: what follows is told from the beginning."""

    def on_resumed(self) -> None:
        """The watch begins, or goes on after a break in which changes may have gone untold."""

    def on_caught_up(self) -> None:
        """All that was there is told; what follows is new."""


class StreamWatch:
    """Tells a follower every message of a stream that is there, then each new one, in order.

    A key is what follows `prefix` in a subject, a value the message, a revision its sequence.
    `room` is awaited before more changes are asked for: a follower that keeps them for later says
    there when it can take more.
    """

    # Which messages are told at the beginning.
    _first: ClassVar[str] = "all"

    def __init__(
        self,
        broker: Broker,
        stream: str,
        prefix: str,
        follower: Follower,
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._prefix = prefix
        self._room = room
        self._session: _Session | None = None
        self._follower = follower
        self._created: str | None = None
        # Where the bucket stood when we last looked; its latest changes may have left nothing.
        self._last_revision = 0
        self.revision = 0
        # When the server last spoke to us, by our monotonic clock.
        self.heard_at = 0.0

    @property
    def is_hearing(self) -> bool:
        """Whether the server speaks to us: if not, that nothing is told means nothing."""
        return time.monotonic() - self.heard_at < 2 * _HEARTBEAT_SEC

    @property
    def created(self) -> str | None:
        """When the bucket that is followed was made; None before it was seen."""
        return self._created

    def start_over(self) -> None:
        """Tell everything from the beginning: what was told no longer stands in the bucket."""
        self._created = None
        if self._session is not None:
            self._session.end()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._broker.wait_until_up()
                await self._follow(self._broker.client)
            # Of any kind: one that is too old for us may be replaced by one that is not.
            except (PyocoError, RefusedError, nats.errors.Error, OSError) as error:
                _log.debug("watch interrupted", extra={"resource": self._stream, "reason": error})
            await anyio.sleep(_RETRY_SEC)

    async def _follow(self, client: Client) -> None:
        await self._reset_if_another_stream(client)
        consumer = f"pyoco_watch_{uuid.uuid4().hex}"
        session = _Session(self, self._broker, client.new_inbox(), consumer)
        self._session = session
        subscription = await client.subscribe(session.inbox, cb=session.on_message)
        try:
            answer = await ask(
                client,
                f"{_API}.CONSUMER.CREATE.{self._stream}.{consumer}",
                json.dumps(self._consumer_config(consumer)).encode(),
            )
            self._follower.on_resumed()
            if not answer.get("num_pending"):
                self._catch_up()
            await session.pull_until_broken()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await _end(client, subscription.unsubscribe, self._stream, consumer)

    async def _reset_if_another_stream(self, client: Client) -> None:
        info = await ask(client, f"{_API}.STREAM.INFO.{self._stream}")
        state = info["state"]
        # A consumer that starts past the end of a stream hears nothing, and nobody says so. Nor
        # does anybody tell of a purge, which leaves nothing of what we know.
        if (
            info["created"] != self._created
            or int(state["last_seq"]) < self.revision
            or (self.revision and not int(state["messages"]))
        ):
            self.revision = 0
            self._created = info["created"]
            self._follower.on_reset()
        self._last_revision = int(state["last_seq"])

    def _consumer_config(self, name: str) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": self._first}
        if self.revision:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": self.revision + 1}
        return {
            "stream_name": self._stream,
            "config": {
                "name": name,
                "ack_policy": "none",
                "filter_subject": f"{self._prefix}>",
                "mem_storage": True,
                "num_replicas": 1,
                "inactive_threshold": round(_FORGET_SEC * _NANOSECONDS),
                **start,
            },
        }

    def _tell(self, message: Msg) -> None:
        metadata = message.metadata
        revision = metadata.sequence.stream
        headers = message.headers or {}
        deleted = "KV-Operation" in headers or "Nats-Marker-Reason" in headers
        self.revision = revision
        self._follower.on_entry(
            Entry(
                key=message.subject.removeprefix(self._prefix),
                revision=revision,
                value=None if deleted else message.data,
                written_at=metadata.timestamp.timestamp(),
                pending=metadata.num_pending,
            )
        )
        if metadata.num_pending == 0:
            self._catch_up()

    def _catch_up(self) -> None:
        self.revision = max(self.revision, self._last_revision)
        self._follower.on_caught_up()


class BucketWatch(StreamWatch):
    """Tells a follower the latest value of every key, then every change, in order."""

    _first = "last_per_subject"

    def __init__(
        self,
        broker: Broker,
        bucket: str,
        follower: Follower,
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        stream, prefix = subjects.kv_stream(bucket), subjects.kv_key(bucket, "")
        super().__init__(broker, stream, prefix, follower, room)


class _Session:
    """One consumer on the server, for as long as it answers."""

    def __init__(self, watch: StreamWatch, broker: Broker, inbox: str, consumer: str) -> None:
        self._watch = watch
        self._broker = broker
        self._connection = broker.connections
        self.inbox = inbox
        self._subject = subjects.next_messages(watch._stream, consumer)
        self._left = 0
        self._told = 0
        self._heard_at = time.monotonic()
        self._broken = False
        self._wake = anyio.Event()

    async def pull_until_broken(self) -> None:
        """Keep asking for changes; return when the server no longer knows us."""
        while not self._broken and self._broker.connections == self._connection:
            self._wake = anyio.Event()
            if self._left <= _BATCH // 2:
                await self._pull()
            with anyio.move_on_after(_HEARTBEAT_SEC):
                await self._wake.wait()
            if time.monotonic() - self._heard_at > _SILENCE_SEC:
                return

    def end(self) -> None:
        """Have it return."""
        self._broken = True
        self._wake.set()

    async def _pull(self) -> None:
        if self._watch._room is not None:
            await self._watch._room()
            # Nothing was asked for meanwhile, so nobody spoke.
            self._heard_at = time.monotonic()
        request = {
            "batch": _BATCH - self._left,
            "expires": round(_PULL_SEC * _NANOSECONDS),
            "idle_heartbeat": round(_HEARTBEAT_SEC * _NANOSECONDS),
        }
        self._left = _BATCH
        await self._broker.client.publish(
            self._subject, json.dumps(request).encode(), reply=self.inbox
        )

    async def on_message(self, message: Msg) -> None:
        """Take a change, or a remark of the server's."""
        self._heard_at = self._watch.heard_at = time.monotonic()
        status = (message.headers or {}).get(_STATUS)
        if status is None or message.reply:
            self._take(message)
            if self._told % _BREATH == 0:
                # The library hands on all that has arrived without a pause for anybody else.
                await anyio.lowlevel.checkpoint()
            return
        if status == _IDLE:
            return
        if status == _PULL_OVER:
            # Several pulls may be open; asking anew is simpler than counting them.
            self._left = 0
        else:
            self._broken = True
        self._wake.set()

    def _take(self, message: Msg) -> None:
        if self._broken:
            return
        self._told += 1
        if message.metadata.sequence.consumer != self._told:
            # What lies in between went down with a connection, and nobody sends it again. A new
            # consumer does, from the last change that was told.
            self.end()
            return
        self._left -= 1
        self._watch._tell(message)
        if self._left <= _BATCH // 2:
            self._wake.set()


async def _end(client: Client, unsubscribe: Callable[[], Any], stream: str, consumer: str) -> None:
    try:
        await unsubscribe()
        await ask(client, f"{_API}.CONSUMER.DELETE.{stream}.{consumer}", timeout_sec=1)
    except (BrokerUnavailableError, RefusedError, nats.errors.Error, OSError) as error:
        # The server forgets it by itself after a while.
        _log.debug("watch not ended cleanly", extra={"reason": str(error)})
