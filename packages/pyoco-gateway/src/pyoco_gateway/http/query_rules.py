"""The query parameters of each route, and what happens to unknown ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.routing import BaseRoute
from starlette.types import Message, Send

from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems.base import FaultyInputError

IGNORED_HEADER: Final = "X-Pyoco-Ignored"

_MAX_FAULTS: Final = 10
_MAX_NAME_CHARS: Final = 40
_MAX_HEADER_CHARS: Final = 1000
# Stands for all further names; quoting leaves no other `*` in the header.
_MORE: Final = "*"


@dataclass(frozen=True, slots=True)
class QueryRule:
    """The parameters of one route. Unknown parameters are refused if it `is_strict`."""

    # The path of the route, for metrics.
    path: str
    known: frozenset[str]
    is_strict: bool
    error: type[FaultyInputError]

    def unknown_in(self, query_string: bytes) -> list[str]:
        """Return the unknown names in a query string, each once, in their order."""
        given = dict.fromkeys(name for name, _ in QueryParams(query_string).multi_items())
        return [name for name in given if name not in self.known]

    def refusal(self, unknown: Sequence[str]) -> FaultyInputError:
        """Return the error that names unknown parameters and lists the known ones."""
        known = ", ".join(sorted(self.known))
        there = f"there are {known}" if known else "this request has none"
        what = f"is not a parameter; {there}"
        return self.error([(shortened(name), what) for name in unknown[:_MAX_FAULTS]])


def parameters_of(route: BaseRoute) -> frozenset[str]:
    """Return the query parameters that a route reads itself or declares in its description."""
    if not isinstance(route, APIRoute):
        return frozenset()
    described = (route.openapi_extra or {}).get("parameters", ())
    return frozenset(
        [
            *(field.alias for field in route.dependant.query_params),
            *(each["name"] for each in described if each["in"] == "query"),
        ]
    )


def header_value(names: Sequence[str]) -> str:
    """Return names as the value of a header: percent-encoded, and limited in length."""
    value = ""
    for name in names:
        more = f"{value}, " if value else ""
        quoted = quote(name[:_MAX_NAME_CHARS], safe="") or '""'
        if len(more) + len(quoted) > _MAX_HEADER_CHARS:
            return f"{more}{_MORE}"
        value = more + quoted
    return value


def naming_ignored(send: Send, names: Sequence[str]) -> Send:
    """Return `send` with a header that names the parameters that were ignored."""
    header = (IGNORED_HEADER.lower().encode(), header_value(names).encode())

    async def send_with_names(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_with_names
