"""A request of the client, and the functions that build one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from pyoco_client.retry_rules import Repeat

Query = tuple[tuple[str, str], ...]

JSON_TYPE: Final = "application/json"
EVENT_STREAM_TYPE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `repeat` says whether it may be sent again."""

    method: str
    path: str
    query: Query = ()
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeat: Repeat = Repeat.ALWAYS
    # Lower bound for the timeout of this request, also if the client's timeout is shorter.
    min_timeout_sec: float = 0.0

    def asking(self, *more: tuple[str, str]) -> "Call":
        """Return the request with more query parameters."""
        return replace(self, query=(*self.query, *more))

    def with_headers(self, more: Mapping[str, str]) -> "Call":
        """Return the request with more headers."""
        return replace(self, headers={**self.headers, **more})

    def with_key(self, key: str) -> "Call":
        """Return the request with an idempotency key, which makes it safe to repeat."""
        if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
            raise ValueError("idempotency_key must be 1 to 255 printable ASCII characters")
        return replace(self.with_headers({"X-Idempotency-Key": key}), repeat=Repeat.ALWAYS)


# Returns the request for the page at a cursor; None is the first page.
CallAt = Callable[[str | None], Call]


def get(path: str, *query: tuple[str, str]) -> Call:
    """Return a request that reads."""
    return Call("GET", path, query)


def send(method: str, path: str, body: Mapping[str, Any], repeat: Repeat) -> Call:
    """Return a request with a JSON body."""
    # A value that is not JSON raises ValueError or TypeError here, before anything is sent.
    content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return Call(method, path, (), content, {"Content-Type": JSON_TYPE}, repeat)


def given(**values: Any) -> Query:
    """Return the values as query parameters, without those that are None."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        many = value if isinstance(value, list | tuple | set | frozenset) else [value]
        pairs += [(name, _query_text(each)) for each in many]
    return tuple(pairs)


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def check_names(given: Mapping[str, Any], kind: type) -> None:
    """Raise TypeError for a name that the TypedDict `kind` does not have.

    Python does not check the names in `**filters: Unpack[...]` at run time.
    """
    if unknown := given.keys() - kind.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")


def path_part(what: str, value: str) -> str:
    """Return `value` quoted as one part of a path; raise ValueError if it cannot be one."""
    # A part that is empty or only dots would change the path of the request.
    if not value.strip("."):
        raise ValueError(f"{value!r} is not a valid {what}")
    return quote(value, safe="")
