"""Encodes server-sent events."""

from pyoco_protocol.wire import WireModel


class Beat(WireModel):
    """Data of the events `heartbeat`, `gone` and `goodbye`."""

    run_id: str | None = None
    # Set in a `goodbye` after which reconnecting does not help.
    reason: str | None = None
    ts: float


class Position(WireModel):
    """Data of the events `ready` and `reset`: changes after this revision follow."""

    revision: int
    ts: float


def frame(
    event: str, data: str, *, event_id: int | None = None, retry_ms: int | None = None
) -> bytes:
    """Return one event; `data` is JSON without line breaks.

    An event without an id does not change the client's last event id. `retry_ms` tells the client
    when to reconnect.
    """
    numbered = "" if event_id is None else f"id: {event_id}\n"
    hinted = "" if retry_ms is None else f"retry: {retry_ms}\n"
    return f"event: {event}\n{numbered}{hinted}data: {data}\n\n".encode()


def retry_after(milliseconds: int) -> bytes:
    """Return a reconnect time without an event; client libraries do not pass it on."""
    return f"retry: {milliseconds}\n\n".encode()


def beat_json(now: float, run_id: str | None = None, *, reason: str | None = None) -> str:
    """Return the JSON of a `Beat`."""
    return Beat(run_id=run_id, reason=reason, ts=now).model_dump_json(exclude_none=True)
