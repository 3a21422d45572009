"""Reads the number and age of waiting jobs and the fill level of the dead-letter stream."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.subjects import Names

_API: Final = "$JS.API"
_PAGE: Final = 256
# Shorter than the default: one HTTP request waits for several of these requests.
_TIMEOUT_SEC: Final = 2.0
# Each age costs a request. The longest queues come first.
_AGES_READ: Final = 200


@dataclass(frozen=True, slots=True)
class QueueState:
    """The waiting and unacknowledged jobs of one tag."""

    tag: str
    pending: int
    in_flight: int
    # Age of the oldest waiting job, by the broker's clock.
    oldest_age_sec: float | None


@dataclass(frozen=True, slots=True)
class DeadLetterLevel:
    """Size and limits of the dead-letter stream; None means no limit."""

    messages: int
    size_bytes: int
    max_messages: int | None
    max_bytes: int | None

    @property
    def fill_ratio(self) -> float:
        """Fill level from 0 to 1; at 1 the oldest messages are dropped. 0 without limits."""
        return max(
            self.messages / self.max_messages if self.max_messages else 0.0,
            self.size_bytes / self.max_bytes if self.max_bytes else 0.0,
        )


@dataclass(frozen=True, slots=True)
class _Consumer:
    pending: int
    in_flight: int
    handed_out: int


async def read_queues(broker: Broker, names: Names) -> list[QueueState]:
    """Return the state of every tag that has a job or a consumer, sorted by tag."""
    consumers = {tag: found async for tag, found in _consumers(broker, names)}
    info = await _ask(
        broker, f"{_API}.STREAM.INFO.{names.work_stream}", {"subjects_filter": names.all_work}
    )
    now = datetime.fromisoformat(info["ts"]).timestamp()
    waiting: dict[str, int] = {}
    for subject, count in (info["state"].get("subjects") or {}).items():
        if (tag := names.tag_of_work(subject)) is not None:
            known = consumers.get(tag)
            waiting[tag] = int(count) if known is None else known.pending
    ages = {}
    for tag in sorted(waiting, key=lambda each: -waiting[each])[:_AGES_READ]:
        if waiting[tag]:
            handed_out = consumers[tag].handed_out if tag in consumers else 0
            written = await _next_written_at(broker, names, tag, handed_out + 1)
            if written is not None:
                ages[tag] = max(now - written, 0.0)
    return [
        QueueState(
            tag=tag,
            pending=waiting.get(tag, 0),
            in_flight=consumers[tag].in_flight if tag in consumers else 0,
            oldest_age_sec=ages.get(tag),
        )
        for tag in sorted(waiting.keys() | consumers.keys())
    ]


async def read_dead_letter_level(broker: Broker, names: Names) -> DeadLetterLevel:
    """Return the size and limits of the dead-letter stream."""
    info = await _ask(broker, f"{_API}.STREAM.INFO.{names.dlq_stream}")
    config, state = info["config"], info["state"]
    return DeadLetterLevel(
        messages=int(state["messages"]),
        size_bytes=int(state["bytes"]),
        max_messages=_limit(config.get("max_msgs")),
        max_bytes=_limit(config.get("max_bytes")),
    )


async def _consumers(broker: Broker, names: Names) -> AsyncIterator[tuple[str, _Consumer]]:
    offset = 0
    while True:
        page = await _ask(broker, f"{_API}.CONSUMER.LIST.{names.work_stream}", {"offset": offset})
        for each in page.get("consumers") or []:
            # A work-queue stream allows one consumer per subject, so each tag has one.
            tag = names.tag_of_work(each["config"].get("filter_subject") or "")
            if tag is not None:
                yield (
                    tag,
                    _Consumer(
                        pending=int(each["num_pending"]),
                        in_flight=int(each["num_ack_pending"]),
                        handed_out=int(each["delivered"]["stream_seq"]),
                    ),
                )
        offset += _PAGE
        if offset >= int(page.get("total") or 0):
            return


async def _next_written_at(broker: Broker, names: Names, tag: str, seq: int) -> float | None:
    request = {"seq": seq, "next_by_subj": names.work(tag)}
    message = await read_message(
        broker.require_up(), names.work_stream, request, timeout_sec=_TIMEOUT_SEC
    )
    return None if message is None else message.stored_at


async def _ask(
    broker: Broker, subject: str, request: Mapping[str, object] | None = None
) -> dict[str, Any]:
    payload = b"" if request is None else json.dumps(request).encode()
    return await ask(broker.require_up(), subject, payload, timeout_sec=_TIMEOUT_SEC)


def _limit(value: Any) -> int | None:
    return int(value) if value and int(value) > 0 else None
