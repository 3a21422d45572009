"""Calls the route of a request, directly or through the framework."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem, named
from pyoco_gateway.http.preferences import prefers_strict
from pyoco_gateway.http.query_rules import naming_ignored
from pyoco_gateway.http.route_table import match_of
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import MethodNotAllowedError, PyocoError


class Dispatch:
    """Calls the route of a request, or answers 405 with all methods of its path.

    The framework would name the methods of one route only.

    Unknown query parameters are refused or named in the answer, as the route table says: the
    framework would ignore them silently.

    Routes with an `endpoint` in the route table bypass the framework: its matching, exit stacks
    and middleware take as long as a submission itself. They are routes of the framework too, with
    the same answers, so that they appear in the API description.

    `check` may raise a PyocoError before the route of a request is called.
    """

    def __init__(self, app: ASGIApp, check: Callable[[Scope], None] | None = None) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        match = match_of(scope)
        if (
            scope["query_string"]
            and match.query is not None
            and (unknown := match.query.unknown_in(scope["query_string"]))
        ):
            if match.query.is_strict or prefers_strict(scope["headers"]):
                scope["route"] = match.query
                await answer_problem(match.query.refusal(unknown), scope, receive, send)
                return
            send = naming_ignored(send, unknown)
        if match.query is not None and self._check is not None:
            try:
                self._check(scope)
            except PyocoError as error:
                scope["route"] = match.query
                await answer_problem(error, scope, receive, send)
                return
        if match.endpoint is not None:
            # `HttpLatency` reads the path from `scope["route"]`; the framework sets it for the
            # other routes.
            scope["route"] = match
            if match.path_params is not None:
                scope["path_params"] = match.path_params
            try:
                response = await match.endpoint(Request(scope, receive))
            except (PyocoError, RefusedError) as error:
                await answer_problem(named(error), scope, receive, send)
            else:
                await response(scope, receive, send)
        elif match.methods is not None and scope["method"] not in match.methods:
            refusal = MethodNotAllowedError(scope["method"], shortened(scope["path"]))
            headers = {"Allow": ", ".join(sorted(match.methods))}
            await answer_problem(refusal, scope, receive, send, headers)
        else:
            await self._app(scope, receive, send)
