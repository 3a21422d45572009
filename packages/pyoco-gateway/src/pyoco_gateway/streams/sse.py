"""Server-sent events as bytes: what a frame looks like."""

from pyoco_protocol.wire import WireModel


class Beat(WireModel):
    """What a `heartbeat`, a `gone` and a `goodbye` say."""

    run_id: str | None = None
    # Why it is a `goodbye`, where coming back would not help.
    reason: str | None = None
    ts: float


class Position(WireModel):
    """What `ready` and `reset` say: changes after this revision follow."""

    revision: int
    ts: float


def frame(
    event: str, data: str, *, event_id: int | None = None, retry_ms: int | None = None
) -> bytes:
    """Return one event; `data` is JSON, which has no line breaks of its own.

    An event without an id leaves a client's last id as it is. `retry_ms` is a hint when to come
    back.
    """
    numbered = "" if event_id is None else f"id: {event_id}\n"
    hinted = "" if retry_ms is None else f"retry: {retry_ms}\n"
    return f"event: {event}\n{numbered}{hinted}data: {data}\n\n".encode()


def retry_after(milliseconds: int) -> bytes:
    """Return the hint when to come back; it is no event, clients keep it to themselves."""
    return f"retry: {milliseconds}\n\n".encode()


def beat_json(now: float, run_id: str | None = None, *, reason: str | None = None) -> str:
    """Return the data of an event that carries little more than the time."""
    return Beat(run_id=run_id, reason=reason, ts=now).model_dump_json(exclude_none=True)
