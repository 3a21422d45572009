"""The floor of commands: the gateway's HTTP server and middleware, and one append per request.

Each request is one compare-and-append of a message of the usual size of a commit. Nothing is
parsed, decided or kept but the last sequence of each execution, and nothing watches the stream.
"""

import json
import sys
import uuid
from typing import Any, Final

import anyio
import nats
from nats.aio.client import Client
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.access.middleware import AccessMiddleware
from pyoco_gateway.access.refusal_counter import RefusalCounter
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.executions.command_routes import COMMAND_RULES, CREATION
from pyoco_gateway.http.body_limit import BodyLimit
from pyoco_gateway.http.connection import ConnectionLimits
from pyoco_gateway.http.dispatch import Dispatch
from pyoco_gateway.http.errors import CrashHandler
from pyoco_gateway.http.host_names import AllowedHosts
from pyoco_gateway.http.provided import lifespan_state
from pyoco_gateway.http.request_checks import RequestChecks
from pyoco_gateway.http.request_ids import RequestIds
from pyoco_gateway.http.route_table import MatchRoute, RouteTable
from pyoco_gateway.http.server import bound_sockets, serving, url_of
from pyoco_gateway.http.time_limit import TimeLimit
from pyoco_gateway.metrics.http_latency import HttpLatency
from pyoco_gateway.metrics.page import new_registry
from pyoco_gateway.route_rules import json_rule
from pyoco_gateway.settings import GatewaySettings, gateway_settings

_STREAM: Final = "BARE_APPENDS"
_COMMIT: Final = b"x" * 1_400
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"


class BareAppends:
    """Appends to one stream."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: dict[str, int] = {}

    async def post(self, request: Request) -> Response:
        """Append a message for the execution in the path, and answer with its id."""
        await request.body()
        execution_id = request.path_params.get("execution_id") or str(uuid.uuid4())
        headers = {
            _EXPECTED: str(self._last.get(execution_id, 0)),
            "Nats-Msg-Id": str(uuid.uuid4()),
        }
        reply = await self._client.request(
            f"bare.{execution_id}", _COMMIT, headers=headers, timeout=30
        )
        answer = json.loads(reply.data)
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        self._last[execution_id] = answer["seq"]
        body = json.dumps({"executionId": execution_id, "seq": answer["seq"]})
        return Response(body, 202, media_type="application/json")


def _app(settings: GatewaySettings, appends: BareAppends) -> ASGIApp:
    rules = {"/executions": CREATION, **COMMAND_RULES}
    table = RouteTable(
        [Route(path, appends.post, methods=["POST"]) for path in rules],
        rules,
        default_body=json_rule(settings.snapshots),
        direct={("POST", path): appends.post for path in rules},
    )
    registry = new_registry()
    middleware = [
        Middleware(MatchRoute, table, lifespan=_serve_lifespan),
        Middleware(HttpLatency, registry),
        Middleware(RequestIds),
        Middleware(CrashHandler),
        Middleware(
            TimeLimit,
            request_sec=settings.http.http_request_timeout_sec,
            body_sec=settings.http.http_body_timeout_sec,
        ),
        Middleware(RequestChecks, AllowedHosts(settings.http.host_names), settings.http.origins),
        Middleware(
            AccessMiddleware,
            auth=settings.auth,
            rates=settings.rates,
            refusals=RefusalCounter(registry),
        ),
        Middleware(BodyLimit),
        Middleware(Dispatch),
    ]
    app: ASGIApp = _no_route
    for each, args, options in reversed(middleware):
        app = each(app, *args, **options)
    return app


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(status_code=404)(scope, receive, send)


async def _serve_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        if kind == "lifespan.startup":
            state: dict[str, Any] = scope["state"]
            state.update(lifespan_state([AccessServices()]))
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def serve_bare_appends(nats_url: str) -> None:
    """Serve until the process is terminated; print the address first."""
    client = await nats.connect(nats_url)
    await client.jetstream().add_stream(
        name=_STREAM, subjects=["bare.*"], allow_direct=True, duplicate_window=120
    )
    settings = gateway_settings({"PYOCO_LOAD_DOTENV": "0"})
    with bound_sockets("127.0.0.1", 0) as sockets:
        app = _app(settings, BareAppends(client))
        async with serving(app, sockets, ConnectionLimits.of(settings.http)):
            print(url_of(sockets), flush=True)
            await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(serve_bare_appends, sys.argv[1], backend_options={"use_uvloop": True})
