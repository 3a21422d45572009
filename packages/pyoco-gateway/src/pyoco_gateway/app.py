"""Puts the gateway together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from fastapi import FastAPI
from starlette.types import ASGIApp

from pyoco_gateway import __version__
from pyoco_gateway.body_limit import BodyLimit
from pyoco_gateway.direct_route import DirectRoute
from pyoco_gateway.environment import GatewaySettings
from pyoco_gateway.error_responses import LastResort, add_error_handlers
from pyoco_gateway.job_queue import JobQueue
from pyoco_gateway.preparation import Preparation
from pyoco_gateway.read_model.run_feed import RunFeed
from pyoco_gateway.reaper.loop import Reaper
from pyoco_gateway.reaper.parked import ParkedJobReaper
from pyoco_gateway.reaper.rules import Patience
from pyoco_gateway.reaper.runs_in_sight import RunsInSight
from pyoco_gateway.request_ids import RequestIds
from pyoco_gateway.routers import health, index_page, runs, workflows
from pyoco_gateway.run_jobs import RunJobs
from pyoco_gateway.use_cases.cancel_run import CancelRun
from pyoco_gateway.use_cases.check_workflow import CheckWorkflow
from pyoco_gateway.use_cases.read_run import ReadRun
from pyoco_gateway.use_cases.submit_run import SubmitRun
from pyoco_gateway.use_cases.submit_workflow import SubmitWorkflow
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.jetstream.dead_letter_box import DeadLetterBox
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.process_memory import settle_memory
from pyoco_protocol.topology import wanted_topology

_ENVELOPE_BYTES: Final = 65_536
# JSON may spell a character of three bytes with six.
_ESCAPED: Final = 2


def create_app(settings: GatewaySettings) -> ASGIApp:
    """Return the gateway: it serves at once, and reaches for the broker by itself."""
    topology = wanted_topology(settings.topology)
    dashboard_lang = settings.dashboard.dashboard_lang
    yaml_max_bytes = settings.snapshots.workflow_yaml_max_bytes

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        settle_memory()
        async with open_broker(
            settings.broker, name="pyoco-gateway", prepare=Preparation(topology)
        ) as broker:
            store = RunStore(broker, topology.names)
            queue = JobQueue(broker, topology.names)
            retention_sec = round(settings.snapshots.run_retention_sec)
            submit_run = SubmitRun(
                store=store,
                queue=queue,
                default_tag=settings.topology.default_tag,
                max_params_bytes=settings.snapshots.max_params_bytes,
            )
            texts = WorkflowTexts(broker, topology.names, retention_sec=retention_sec)
            check_workflow = CheckWorkflow()
            patience = Patience(
                cancel_grace=settings.heartbeats.cancel_grace_period_sec,
                heartbeat=settings.heartbeats.run_heartbeat_interval_sec,
            )
            in_sight = RunsInSight(patience)
            reaper = Reaper(
                broker=broker,
                store=store,
                queue=queue,
                runs=in_sight,
                patience=patience,
                retention_sec=retention_sec,
                jobs=RunJobs(texts, settings.topology.default_tag),
                is_confirmed=submit_run.is_confirmed,
                on_queued=submit_run.unconfirmed.discard,
            )
            parked = ParkedJobReaper(
                broker=broker,
                store=store,
                box=DeadLetterBox(broker, topology.names),
                names=topology.names,
                retention_sec=retention_sec,
            )
            async with anyio.create_task_group() as tasks:
                # Everybody who looks at all runs stands behind this one watch.
                feed = RunFeed([in_sight])
                tasks.start_soon(BucketWatch(broker, topology.names.runs_bucket, feed).run)
                tasks.start_soon(reaper.run)
                tasks.start_soon(parked.run)
                yield {
                    "submit_run": submit_run,
                    "read_run": ReadRun(store),
                    "cancel_run": CancelRun(broker, store, retention_sec),
                    "check_workflow": check_workflow,
                    "submit_workflow": SubmitWorkflow(check_workflow, texts, submit_run),
                    "workflow_yaml_max_bytes": yaml_max_bytes,
                    "page_language": None if dashboard_lang == "auto" else dashboard_lang,
                }
                tasks.cancel_scope.cancel()

    api = FastAPI(
        title="Pyoco Server",
        version=__version__,
        summary="Runs Pyoco flows on a fleet of workers.",
        lifespan=lifespan,
        # Their pages load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Operations are called as the functions are: `post_run`.
        generate_unique_id_function=lambda route: route.name,
    )
    # Workflows first: of `/runs/yaml` the route of one run would say that it takes GET alone.
    for router in (workflows.router, runs.router, health.router, index_page.router):
        api.include_router(router)
    add_error_handlers(api)
    max_body_bytes = _ESCAPED * settings.snapshots.max_params_bytes + _ENVELOPE_BYTES
    routed = DirectRoute(api, "POST", "/runs", runs.post_run)
    files = workflows.file_limits(yaml_max_bytes)
    return RequestIds(LastResort(BodyLimit(routed, max_body_bytes, files)))
