"""Puts what every request passes around the routes."""

from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from pyoco_gateway.http.errors import CrashHandler
from pyoco_gateway.http.forwarded import ForwardedFor
from pyoco_gateway.http.host_names import AllowedHosts
from pyoco_gateway.http.request_checks import RequestChecks
from pyoco_gateway.http.request_ids import RequestIds
from pyoco_gateway.http.time_limit import TimeLimit
from pyoco_gateway.metrics.http_latency import HttpLatency
from pyoco_gateway.settings import GatewaySettings

# How any route may be answered before it is asked, for the description of the API.
ANY_ROUTE: Final = (400, 403, 408, 413, 415, 421, 431, 503)


def hardened(
    app: ASGIApp,
    settings: GatewaySettings,
    registry: CollectorRegistry,
    *,
    form_paths: Collection[str],
) -> ASGIApp:
    """Return `app` with all around it that a request passes first.

    From the outside in: who calls, how long it takes, its id, the answer to what nobody else
    caught, its time, and the first look at it.
    """
    auth_on = settings.auth.http_auth_mode != "none"
    hosts = None if auth_on else AllowedHosts(settings.http.host_names)
    timed = TimeLimit(
        RequestChecks(app, hosts, form_paths),
        request_sec=settings.http.http_request_timeout_sec,
        body_sec=settings.http.http_body_timeout_sec,
    )
    watched = HttpLatency(RequestIds(CrashHandler(timed)), registry)
    proxies = settings.http.proxy_networks
    return ForwardedFor(watched, proxies) if proxies else watched
