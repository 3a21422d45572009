"""What can be seen on the broker from outside: ends of runs, counts of messages."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from pyoco_protocol import subjects
from pyoco_protocol.subjects import Names

_NAMES: Final = Names()
_RUNS_STREAM: Final = subjects.kv_stream(_NAMES.runs_bucket)
_COMPLETED: Final = b'"status":"COMPLETED"'
_POLL_SEC: Final = 0.02


class EndsSeen:
    """Counts the runs that a watcher of the bucket has seen to complete."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        # When each run was seen to complete, by its id.
        self.at: dict[str, float] = {}
        self._changed = anyio.Event()
        self.last_at = 0.0

    async def note(self, message: Msg) -> None:
        """Look at one write of a snapshot."""
        if _COMPLETED in message.data:
            self._seen.add(message.subject)
            self.last_at = time.time()
            self.at.setdefault(message.subject.rpartition(".")[2], self.last_at)
            self._changed.set()

    async def wait_for(self, count: int) -> float:
        """Return when, in unix seconds, the last of `count` runs was seen to complete."""
        while len(self._seen) < count:
            self._changed = anyio.Event()
            await self._changed.wait()
        return self.last_at


class BrokerView:
    """Reads of the broker that change nothing there."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @asynccontextmanager
    async def watching_ends(self) -> AsyncIterator[EndsSeen]:
        """A counter of the runs that complete from now on."""
        seen = EndsSeen()
        subscription = await self._client.jetstream().subscribe(
            subjects.kv_key(_NAMES.runs_bucket, ">"),
            stream=_RUNS_STREAM,
            ordered_consumer=True,
            cb=seen.note,
            config=ConsumerConfig(deliver_policy=DeliverPolicy.NEW),
        )
        try:
            yield seen
        finally:
            await subscription.unsubscribe()

    async def kv_writes(self) -> int:
        """Return how many writes the runs bucket has taken so far."""
        return int((await self._state(_RUNS_STREAM))["last_seq"])

    async def wait_until_idle(self) -> None:
        """Return when no job is left in the queue."""
        while True:
            if not (await self._state(_NAMES.work_stream))["messages"]:
                return
            await anyio.sleep(_POLL_SEC)

    async def _state(self, stream: str) -> dict[str, Any]:
        reply = await self._client.request(f"$JS.API.STREAM.INFO.{stream}", timeout=10)
        state: dict[str, Any] = json.loads(reply.data)["state"]
        return state


@asynccontextmanager
async def broker_view(url: str) -> AsyncIterator[BrokerView]:
    """A connection of its own to the broker."""
    client = await nats.connect(url)
    try:
        yield BrokerView(client)
    finally:
        await client.close()
