"""Puts the gateway together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from pyoco_gateway import __version__
from pyoco_gateway.access.setup import gated
from pyoco_gateway.dashboard import index_page
from pyoco_gateway.dead_letters import routes as dead_letters
from pyoco_gateway.fleet import queue_routes as queues
from pyoco_gateway.fleet import worker_routes as workers
from pyoco_gateway.health import routes as health
from pyoco_gateway.http.allowed_methods import AllowedMethods
from pyoco_gateway.http.body_limit import BodyLimit
from pyoco_gateway.http.direct_route import DirectRoute
from pyoco_gateway.http.errors import add_error_handlers
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.openapi_access import docs_access
from pyoco_gateway.metrics import routes as metrics
from pyoco_gateway.metrics.page import new_registry
from pyoco_gateway.middleware import ANY_ROUTE, hardened
from pyoco_gateway.runs import list_routes as run_lists
from pyoco_gateway.runs import routes as runs
from pyoco_gateway.runs.logs import routes as run_logs
from pyoco_gateway.runs.watch import routes as run_watch
from pyoco_gateway.services import running
from pyoco_gateway.settings import GatewaySettings
from pyoco_gateway.workflows import routes as workflows
from pyoco_protocol.process_memory import tune_garbage_collector

_ENVELOPE_BYTES: Final = 65_536
# JSON may spell a character of three bytes with six.
_ESCAPED: Final = 2


def create_app(settings: GatewaySettings) -> ASGIApp:
    """Return the gateway: it serves at once, and reaches for the broker by itself."""
    registry = new_registry()
    auth_on = settings.auth.http_auth_mode != "none"
    description = docs_access(settings.http.http_docs, auth_on=auth_on)
    yaml_max_bytes = settings.snapshots.workflow_yaml_max_bytes

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        tune_garbage_collector()
        async with running(settings, registry) as state:
            yield state

    api = FastAPI(
        title="Pyoco Server",
        version=__version__,
        summary="Runs Pyoco flows on a fleet of workers.",
        lifespan=lifespan,
        # Their pages load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        openapi_url=None if description == "off" else "/openapi.json",
        redirect_slashes=False,
        responses=problems(*ANY_ROUTE),
        # Operations are called as the functions are: `post_run`.
        generate_unique_id_function=lambda route: route.name,
    )
    routers = (
        # Before single runs, or `watch`, `counts` and `yaml` would be taken for the ids of some.
        run_watch.lists,
        run_watch.router,
        run_lists.router,
        workflows.router,
        runs.router,
        run_logs.router,
        dead_letters.lists,
        dead_letters.router,
        workers.router,
        queues.router,
        metrics.router,
        health.router,
        index_page.router,
    )
    for router in routers:
        api.include_router(router)
    add_error_handlers(api)
    max_body_bytes = _ESCAPED * settings.snapshots.max_params_bytes + _ENVELOPE_BYTES
    routed = DirectRoute(AllowedMethods(api, routers), "POST", "/runs", runs.post_run)
    files = workflows.file_limits(yaml_max_bytes)
    limited = BodyLimit(routed, max_body_bytes, files)
    guarded = gated(
        limited,
        api,
        routers,
        auth=settings.auth,
        rates=settings.rates,
        registry=registry,
        open_description=description == "open",
    )
    return hardened(guarded, settings, registry, form_paths=files)
