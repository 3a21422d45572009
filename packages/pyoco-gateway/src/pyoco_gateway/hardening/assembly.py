"""Puts what every request passes around the routes."""

from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from pyoco_gateway.environment import GatewaySettings
from pyoco_gateway.error_responses import LastResort
from pyoco_gateway.hardening.door import Door
from pyoco_gateway.hardening.forwarded import PeerAddresses
from pyoco_gateway.hardening.host_names import AllowedHosts
from pyoco_gateway.hardening.time_limit import TimeLimit
from pyoco_gateway.metrics.http_latency import HttpLatency
from pyoco_gateway.request_ids import RequestIds

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
    hosts = None if auth_on else AllowedHosts(settings.face.host_names)
    timed = TimeLimit(
        Door(app, hosts, form_paths),
        request_sec=settings.face.http_request_timeout_sec,
        body_sec=settings.face.http_body_timeout_sec,
    )
    watched = HttpLatency(RequestIds(LastResort(timed)), registry)
    proxies = settings.face.proxy_networks
    return PeerAddresses(watched, proxies) if proxies else watched
