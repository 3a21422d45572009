"""Puts the gate together: what stands before the routes, and what runs behind them."""

from collections.abc import Iterable
from typing import Any

from anyio.abc import TaskGroup
from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pyoco_gateway.access import middleware as gate
from pyoco_gateway.access import stream_permits
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_check import KeyCheck
from pyoco_gateway.access.keys import Pepper
from pyoco_gateway.access.middleware import AccessMiddleware
from pyoco_gateway.access.openapi import described
from pyoco_gateway.access.refusal_counter import RefusalCounter
from pyoco_gateway.access.route_access import RouteAccess, decisions
from pyoco_gateway.access.stream_permits import StreamPermits
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.settings import HttpAuthSettings, RateSettings
from pyoco_protocol.subjects import Names


def gated(
    app: ASGIApp,
    api: FastAPI,
    routers: Iterable[APIRouter],
    *,
    auth: HttpAuthSettings,
    rates: RateSettings,
    registry: CollectorRegistry,
    open_description: bool = False,
) -> ASGIApp:
    """Return `app` behind the gate; raise UndecidedRouteError for a route nobody decided about.

    `open_description` lets everybody read `/openapi.json`, also where keys are asked for.
    """
    decided = decisions(open_description=open_description)
    # What the framework serves by itself comes first: that is how it was added.
    routes: list[BaseRoute] = [route for route in api.routes if isinstance(route, Route)]
    for router in routers:
        routes += router.routes
    plain = api.openapi
    api.openapi = described(  # type: ignore[method-assign] # the way the framework documents
        plain, decided=decided, auth=auth, rates=rates
    )
    return AccessMiddleware(
        app,
        auth=auth,
        rates=rates,
        access=RouteAccess(routes, decided),
        refusals=RefusalCounter(registry),
    )


def asks_for_keys(auth: HttpAuthSettings) -> bool:
    """Whether nobody is let in without a key."""
    return auth.http_auth_mode == "api_key"


def keys_in_use(
    tasks: TaskGroup, auth: HttpAuthSettings, broker: Broker, names: Names
) -> dict[str, Any]:
    """Follow the keys, if they are asked for; return what gate and streams find in their state."""
    if not asks_for_keys(auth):
        return {}
    pepper = Pepper.of(auth)
    ring = KeyCache.of(broker, names, pepper)
    open_streams = StreamPermits(ring)
    tasks.start_soon(ring.run)
    tasks.start_soon(open_streams.run)
    return {gate.STATE_KEY: KeyCheck(ring, pepper), stream_permits.STATE_KEY: open_streams}
