"""Watches a bucket or stream across reconnects, broker restarts and re-created streams."""

import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.problems import BrokerUnavailableError, PyocoError

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_NANOSECONDS: Final = 1_000_000_000
# Messages requested but not yet passed to the follower are held in memory.
_BATCH: Final = 1024
# Other tasks get a turn after this many messages.
_YIELD_EVERY: Final = 128
_PULL_SEC: Final = 30.0
# The server sends a heartbeat this often when idle. Without heartbeats, the consumer is gone.
_HEARTBEAT_SEC: Final = 0.5
_SILENCE_SEC: Final = 2.0
_RETRY_SEC: Final = 0.2
# The server deletes the consumer after this time without a pull.
_INACTIVE_SEC: Final = 30.0
# The library rounds the time of a message.
_SAME_TIME_SEC: Final = 0.001
_STATUS: Final = "Status"
_IDLE: Final = "100"
_PULL_EXPIRED: Final = "408"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a key. The revision orders all changes."""

    key: str
    revision: int
    # None if the key was deleted or has expired.
    value: bytes | None
    written_at: float
    # Number of changes that follow this one and exist already.
    pending: int


class Follower(Protocol):
    """Receives the changes. No method may block or raise."""

    def on_entry(self, entry: Entry) -> None:
        """Handle a changed key."""

    def on_reset(self) -> None:
        """Discard all entries: the watch starts again from the beginning."""

    def on_resumed(self) -> None:
        """Handle the start of the watch, or its continuation after an interruption."""

    def on_caught_up(self) -> None:
        """Handle the end of the existing entries: later entries are new changes."""


class StreamWatch:
    """Passes every message of a stream to a follower, existing ones first, in order.

    The key is the subject without `prefix`, the value is the message body, the revision is its
    sequence. `room` is awaited before more changes are requested; a follower that buffers changes
    uses it to limit its buffer. With `latest_first`, only the last message of each subject is
    passed of those that exist at the beginning, and then every message that follows.
    """

    def __init__(
        self,
        broker: Broker,
        stream: str,
        prefix: str,
        follower: Follower,
        room: Callable[[], Awaitable[None]] | None = None,
        *,
        latest_first: bool = False,
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._prefix = prefix
        self._room = room
        self._latest_first = latest_first
        self._is_caught_up = False
        self._session: _Session | None = None
        self._follower = follower
        self._created: str | None = None
        # Last sequence of the stream when it was last inspected. Its messages may be gone.
        self._last_revision = 0
        # The sequence and the time of the last message that was passed on.
        self._passed = (0, 0.0)
        self.revision = 0
        # How often the watch has lost its consumer: the stream may be another one since.
        self.interruptions = 0
        # When the server last sent a message or heartbeat, by the monotonic clock.
        self.heard_at = 0.0

    @property
    def is_live(self) -> bool:
        """Whether the server sends messages or heartbeats. If not, changes may be missing."""
        return time.monotonic() - self.heard_at < 2 * _HEARTBEAT_SEC

    @property
    def created(self) -> str | None:
        """Creation time of the watched stream; None before the first connection."""
        return self._created

    def start_over(self) -> None:
        """Restart the watch from the beginning, after a reset of the follower."""
        self._created = None
        if self._session is not None:
            self._session.end()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._broker.wait_until_up()
                await self._follow(self._broker.client)
            # Every PyocoError, also BrokerTooOldError: the broker may be upgraded later.
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
            self.interruptions += 1
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await _end(client, subscription.unsubscribe, self._stream, consumer)

    async def _reset_if_another_stream(self, client: Client) -> None:
        info = await ask(client, f"{_API}.STREAM.INFO.{self._stream}")
        state = info["state"]
        # A consumer that starts past the end of a stream receives nothing and no error. A purge
        # is not announced either.
        if (
            info["created"] != self._created
            or int(state["last_seq"]) < self.revision
            or (self.revision and not int(state["messages"]))
            or await self._is_set_back(client)
        ):
            self.revision = 0
            self._passed = (0, 0.0)
            self._is_caught_up = False
            self._created = info["created"]
            self._follower.on_reset()
        self._last_revision = int(state["last_seq"])

    async def _is_set_back(self, client: Client) -> bool:
        """Return whether another message has the sequence of the last one that was passed on.

        The stream was then restored from a backup, and has grown again since.
        """
        revision, stored_at = self._passed
        if not revision:
            return False
        found = await read_message(client, self._stream, {"seq": revision})
        return found is not None and abs(found.stored_at - stored_at) > _SAME_TIME_SEC

    def _consumer_config(self, name: str) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": "all"}
        if self._latest_first and not self._is_caught_up:
            # Also after an interruption: a start at the sequence reached so far would deliver
            # all messages after it, not only the last of each subject.
            start = {"deliver_policy": "last_per_subject"}
        elif self.revision:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": self.revision + 1}
        return {
            "stream_name": self._stream,
            "config": {
                "name": name,
                "ack_policy": "none",
                "filter_subject": f"{self._prefix}>",
                "mem_storage": True,
                "num_replicas": 1,
                "inactive_threshold": round(_INACTIVE_SEC * _NANOSECONDS),
                **start,
            },
        }

    def _deliver(self, message: Msg) -> None:
        metadata = message.metadata
        revision = metadata.sequence.stream
        if revision > self.revision:
            self._pass_on(message)
        # An earlier consumer may have delivered all of these.
        if metadata.num_pending == 0:
            self._catch_up()

    def _pass_on(self, message: Msg) -> None:
        metadata = message.metadata
        revision = metadata.sequence.stream
        headers = message.headers or {}
        deleted = "KV-Operation" in headers or "Nats-Marker-Reason" in headers
        written_at = metadata.timestamp.timestamp()
        self.revision = revision
        self._passed = (revision, written_at)
        self._follower.on_entry(
            Entry(
                key=message.subject.removeprefix(self._prefix),
                revision=revision,
                value=None if deleted else message.data,
                written_at=written_at,
                pending=metadata.num_pending,
            )
        )

    def _catch_up(self) -> None:
        self._is_caught_up = True
        self.revision = max(self.revision, self._last_revision)
        self._follower.on_caught_up()


class BucketWatch(StreamWatch):
    """Passes the latest value of every key to a follower, then every change, in order."""

    def __init__(
        self,
        broker: Broker,
        bucket: str,
        follower: Follower,
        room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        stream, prefix = subjects.kv_stream(bucket), subjects.kv_key(bucket, "")
        super().__init__(broker, stream, prefix, follower, room, latest_first=True)


class _Session:
    """One consumer on the server, used until it stops answering."""

    def __init__(self, watch: StreamWatch, broker: Broker, inbox: str, consumer: str) -> None:
        self._watch = watch
        self._broker = broker
        self._connection = broker.connections
        self.inbox = inbox
        self._subject = subjects.next_messages(watch._stream, consumer)
        self._requested = 0
        self._received = 0
        self._heard_at = time.monotonic()
        self._broken = False
        self._wake = anyio.Event()

    async def pull_until_broken(self) -> None:
        """Request changes until the consumer is gone or the connection was replaced."""
        while not self._broken and self._broker.connections == self._connection:
            self._wake = anyio.Event()
            if self._requested <= _BATCH // 2:
                await self._pull()
            with anyio.move_on_after(_HEARTBEAT_SEC):
                await self._wake.wait()
            if time.monotonic() - self._heard_at > _SILENCE_SEC:
                return

    def end(self) -> None:
        """Make `pull_until_broken` return."""
        self._broken = True
        self._wake.set()

    async def _pull(self) -> None:
        if self._watch._room is not None:
            await self._watch._room()
            # Without an open pull, the server sends no heartbeats.
            self._heard_at = time.monotonic()
        request = {
            "batch": _BATCH - self._requested,
            "expires": round(_PULL_SEC * _NANOSECONDS),
            "idle_heartbeat": round(_HEARTBEAT_SEC * _NANOSECONDS),
        }
        self._requested = _BATCH
        await self._broker.client.publish(
            self._subject, json.dumps(request).encode(), reply=self.inbox
        )

    async def on_message(self, message: Msg) -> None:
        """Handle a change or a status message of the server."""
        self._heard_at = self._watch.heard_at = time.monotonic()
        status = (message.headers or {}).get(_STATUS)
        if status is None or message.reply:
            self._take(message)
            if self._received % _YIELD_EVERY == 0:
                # The library delivers everything it has received without yielding.
                await anyio.lowlevel.checkpoint()
            return
        if status == _IDLE:
            return
        if status == _PULL_EXPIRED:
            # Several pulls may be open; a new full request is simpler than counting them.
            self._requested = 0
        else:
            self._broken = True
        self._wake.set()

    def _take(self, message: Msg) -> None:
        if self._broken:
            return
        self._received += 1
        if message.metadata.sequence.consumer != self._received:
            # Messages were lost with a connection, and this consumer does not resend them. A new
            # consumer starts after the last delivered change.
            self.end()
            return
        self._requested -= 1
        self._watch._deliver(message)
        if self._requested <= _BATCH // 2:
            self._wake.set()


async def _end(client: Client, unsubscribe: Callable[[], Any], stream: str, consumer: str) -> None:
    try:
        await unsubscribe()
        await ask(client, f"{_API}.CONSUMER.DELETE.{stream}.{consumer}", timeout_sec=1)
    except (BrokerUnavailableError, RefusedError, nats.errors.Error, OSError) as error:
        # The server deletes an inactive consumer by itself.
        _log.debug("watch not ended cleanly", extra={"reason": str(error)})
