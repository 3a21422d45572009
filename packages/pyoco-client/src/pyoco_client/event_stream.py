"""Parses server-sent events from pieces of bytes."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

# Far above the largest snapshot; a larger event does not come from a gateway.
MAX_EVENT_CHARS: Final = 32 * 1024 * 1024

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; `id` is None if the event has none."""

    event: str
    data: str
    id: str | None = None


class EventTooLargeError(ValueError):
    """An event is longer than the limit."""


class EventDecoder:
    """Collects pieces of bytes and returns the complete events."""

    def __init__(self, max_chars: int = MAX_EVENT_CHARS) -> None:
        # The stream is UTF-8, with or without a byte order mark.
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._max_chars = max_chars
        self._tail = ""
        self._at_start = True
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0
        # The last `retry` field of the server; None until it sends one.
        self.retry_ms: int | None = None

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that end in this piece."""
        arrived = self._text.decode(piece)
        if self._at_start and arrived:
            arrived, self._at_start = arrived.removeprefix("\ufeff"), False
        text = self._tail + arrived
        # A CR at the end of a piece may be the first half of a CRLF.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._tail = rest + held
        events = [event for line in lines if (event := self._take(line)) is not None]
        if self._size + len(self._tail) > self._max_chars:
            raise EventTooLargeError(f"an event is longer than {self._max_chars} characters")
        return events

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._complete()
        self._size += len(line)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._event = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _complete(self) -> ServerEvent | None:
        event = ServerEvent(self._event or "message", "\n".join(self._data), self._id)
        has_data = bool(self._data)
        self._event, self._data, self._id, self._size = "", [], None, 0
        return event if has_data else None
