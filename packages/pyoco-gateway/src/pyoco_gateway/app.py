"""The gateway as an ASGI application: its routers and its middleware."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pyoco_gateway import __version__
from pyoco_gateway.access.middleware import AccessMiddleware
from pyoco_gateway.access.openapi import described
from pyoco_gateway.access.refusal_counter import RefusalCounter
from pyoco_gateway.dashboard import index_page
from pyoco_gateway.dead_letters import routes as dead_letters
from pyoco_gateway.executions import command_routes as execution_commands
from pyoco_gateway.executions import list_routes as execution_lists
from pyoco_gateway.executions import read_routes as execution_reads
from pyoco_gateway.executions import stream_routes as execution_streams
from pyoco_gateway.executions import wait_routes as execution_waits
from pyoco_gateway.executions.availability import require_executions
from pyoco_gateway.fleet import queue_routes as queues
from pyoco_gateway.fleet import worker_routes as workers
from pyoco_gateway.graphs import routes as graphs
from pyoco_gateway.health import routes as health
from pyoco_gateway.http.body_limit import BodyLimit
from pyoco_gateway.http.dispatch import Dispatch
from pyoco_gateway.http.errors import CrashHandler, add_error_handlers
from pyoco_gateway.http.forwarded import ForwardedFor
from pyoco_gateway.http.host_names import AllowedHosts
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import Provided, lifespan_state
from pyoco_gateway.http.request_checks import RequestChecks
from pyoco_gateway.http.request_ids import RequestIds
from pyoco_gateway.http.route_table import MatchRoute, RouteRules, RouteTable
from pyoco_gateway.http.time_limit import TimeLimit
from pyoco_gateway.metrics import routes as metrics
from pyoco_gateway.metrics.http_latency import HttpLatency
from pyoco_gateway.metrics.page import new_registry
from pyoco_gateway.process_log import start_logging
from pyoco_gateway.route_rules import docs_access, json_rule, route_rules
from pyoco_gateway.runs import list_routes as run_lists
from pyoco_gateway.runs import routes as runs
from pyoco_gateway.runs.logs import routes as run_logs
from pyoco_gateway.runs.watch import routes as run_watch
from pyoco_gateway.services import running
from pyoco_gateway.settings import GatewaySettings, environment_with, gateway_settings
from pyoco_gateway.workflows import routes as workflows
from pyoco_protocol.process_memory import tune_garbage_collector

# The statuses with which a connection or middleware may answer a request for any route.
MIDDLEWARE_STATUSES: Final = (400, 403, 408, 413, 415, 421, 422, 431, 503, 505)

ROUTERS: Final = (
    # Before the routes of single runs: `{run_id}` would match `watch`, `counts` and `yaml`.
    run_watch.lists,
    run_watch.router,
    run_lists.router,
    workflows.router,
    runs.router,
    run_logs.router,
    dead_letters.lists,
    dead_letters.router,
    execution_commands.router,
    execution_lists.router,
    execution_waits.router,
    execution_reads.router,
    execution_streams.router,
    graphs.router,
    workers.router,
    queues.router,
    metrics.router,
    health.router,
    index_page.router,
)


def create_app(settings: GatewaySettings | None = None) -> ASGIApp:
    """Return the gateway; it serves at once, and connects to the broker in the background.

    Without settings it is a factory for any ASGI server: it reads the environment and configures
    the log. The limits of connections belong to the server of `pyoco-server up`; another server
    does not have them. The factory does not know the address that it is served on. So with
    authentication off it answers other machines only for the names in PYOCO_ALLOWED_HOSTS.
    """
    is_factory = settings is None
    if settings is None:
        environ = environment_with({})
        settings = gateway_settings(environ)
        start_logging(settings.log, environ)
    registry = new_registry()
    description = docs_access(settings.http.http_docs, auth_on=settings.auth_is_on)
    rules = route_rules(settings.snapshots, description_is_public=description == "open")
    api = _api(settings, registry, rules, has_docs=description != "off")
    hosts = None
    if not settings.auth_is_on:
        hosts = AllowedHosts(settings.http.host_names, only_local=is_factory)
    app: ASGIApp = api
    for middleware, args, options in reversed(_middleware(settings, registry, rules, api, hosts)):
        app = middleware(app, *args, **options)
    return app


def _middleware(
    settings: GatewaySettings,
    registry: CollectorRegistry,
    rules: RouteRules,
    api: FastAPI,
    hosts: AllowedHosts | None,
) -> list[Middleware]:
    """Return what each request passes, outermost first."""
    proxies = settings.http.proxy_networks
    return [
        Middleware(MatchRoute, _table(settings, rules, api), lifespan=api),
        *([Middleware(ForwardedFor, proxies)] if proxies else []),
        Middleware(HttpLatency, registry),
        Middleware(RequestIds),
        Middleware(CrashHandler),
        Middleware(
            TimeLimit,
            request_sec=settings.http.http_request_timeout_sec,
            body_sec=settings.http.http_body_timeout_sec,
        ),
        Middleware(RequestChecks, hosts, settings.http.origins),
        Middleware(
            AccessMiddleware,
            auth=settings.auth,
            rates=settings.rates,
            refusals=RefusalCounter(registry),
        ),
        Middleware(BodyLimit),
        Middleware(Dispatch, check=require_executions),
    ]


def _api(
    settings: GatewaySettings, registry: CollectorRegistry, rules: RouteRules, *, has_docs: bool
) -> FastAPI:
    """Return the routers in the framework, which answers every failure with a problem body."""

    @asynccontextmanager
    async def lifespan(
        _: FastAPI,
    ) -> AsyncGenerator[Mapping[str, Mapping[type[Provided], Provided]]]:
        tune_garbage_collector()
        async with running(settings, registry) as services:
            yield lifespan_state(services.instances())

    api = FastAPI(
        title="Pyoco Server",
        version=__version__,
        summary="Runs Pyoco flows on a fleet of workers.",
        lifespan=lifespan,
        # The documentation pages of the framework load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if has_docs else None,
        redirect_slashes=False,
        responses=problems(*MIDDLEWARE_STATUSES),
        # Operations have the names of their functions, such as `post_run`.
        generate_unique_id_function=lambda route: route.name,
    )
    for router in ROUTERS:
        api.include_router(router)
    add_error_handlers(api)
    api.openapi = described(  # type: ignore[method-assign] # as the framework documents
        api.openapi, rules=rules, auth=settings.auth, rates=settings.rates
    )
    return api


def _table(settings: GatewaySettings, rules: RouteRules, api: FastAPI) -> RouteTable:
    """Return the route table; raise UndecidedRouteError for a route without a rule."""
    # The routes of the framework itself come first, as it added them first.
    routes: list[BaseRoute] = [route for route in api.routes if isinstance(route, Route)]
    for router in ROUTERS:
        routes += router.routes
    return RouteTable(
        routes,
        rules,
        default_body=json_rule(settings.snapshots),
        direct={("POST", "/runs"): runs.post_run, **execution_commands.DIRECT},
    )
