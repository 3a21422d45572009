"""Puts the gateway together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from fastapi import FastAPI
from starlette.types import ASGIApp

from pyoco_gateway import __version__
from pyoco_gateway.allowed_methods import AllowedMethods
from pyoco_gateway.body_limit import BodyLimit
from pyoco_gateway.dead_letter_desk import dead_letter_desk
from pyoco_gateway.direct_route import DirectRoute
from pyoco_gateway.environment import GatewaySettings
from pyoco_gateway.error_responses import LastResort, add_error_handlers
from pyoco_gateway.fleet import Fleet
from pyoco_gateway.job_queue import JobQueue
from pyoco_gateway.metrics.http_latency import HttpLatency
from pyoco_gateway.metrics.page import new_registry
from pyoco_gateway.preparation import Preparation
from pyoco_gateway.read_model.log_feeds import LogFeeds
from pyoco_gateway.read_model.run_feed import RunFeed
from pyoco_gateway.reaper.loop import Reaper
from pyoco_gateway.reaper.parked import ParkedJobReaper
from pyoco_gateway.reaper.rules import Patience
from pyoco_gateway.reaper.runs_in_sight import RunsInSight
from pyoco_gateway.request_ids import RequestIds
from pyoco_gateway.routers import (
    dead_letters,
    health,
    index_page,
    metrics,
    queues,
    run_logs,
    run_watch,
    runs,
    workers,
    workflows,
)
from pyoco_gateway.run_jobs import RunJobs
from pyoco_gateway.use_cases.cancel_run import CancelRun
from pyoco_gateway.use_cases.check_workflow import CheckWorkflow
from pyoco_gateway.use_cases.delete_run import DeleteRun
from pyoco_gateway.use_cases.read_logs import ReadLogs
from pyoco_gateway.use_cases.read_run import ReadRun
from pyoco_gateway.use_cases.submit_run import SubmitRun
from pyoco_gateway.use_cases.submit_workflow import SubmitWorkflow
from pyoco_gateway.watching import watching
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.jetstream.dead_letter_box import DeadLetterBox
from pyoco_protocol.jetstream.log_store import LogStore
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
    registry = new_registry()
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
            logs = LogStore(broker, topology.names)
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
            fleet = Fleet.of(
                broker,
                topology.names,
                registry,
                disconnect_timeout_sec=settings.heartbeats.worker_disconnect_timeout_sec,
            )
            desk = dead_letter_desk(
                broker,
                topology.names,
                store,
                submit_run,
                texts,
                max_letters=settings.topology.dlq_max_msgs,
            )
            watch = watching(settings.watching, broker, store)
            async with desk as letters, anyio.create_task_group() as tasks:
                # Everybody who looks at all runs stands behind this one watch.
                log_feeds = LogFeeds(logs)
                feed = RunFeed(
                    [in_sight, fleet.run_metrics, fleet.run_counts, log_feeds, watch.hub]
                )
                tasks.start_soon(BucketWatch(broker, topology.names.runs_bucket, feed).run)
                tasks.start_soon(reaper.run)
                tasks.start_soon(parked.run)
                tasks.start_soon(watch.run)
                fleet.start(tasks)
                yield {
                    "submit_run": submit_run,
                    "read_run": ReadRun(store),
                    "read_logs": ReadLogs(ReadRun(store), logs),
                    "log_feeds": log_feeds,
                    "cancel_run": CancelRun(broker, store, retention_sec),
                    "metrics_page": fleet.page(
                        broker,
                        registry,
                        feed,
                        reaper,
                        parked,
                        sse_clients=lambda: watch.limits.open,
                    ),
                    **fleet.state(),
                    "delete_run": DeleteRun(store, on_deleted=[lambda run: logs.purge(run.run_id)]),
                    **letters,
                    "check_workflow": check_workflow,
                    "submit_workflow": SubmitWorkflow(check_workflow, texts, submit_run),
                    "workflow_yaml_max_bytes": yaml_max_bytes,
                    **watch.state,
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
    routers = (
        # `/runs/watch` comes first, or it would be taken for a run.
        run_watch.router,
        runs.router,
        run_logs.router,
        workflows.router,
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
    limited = BodyLimit(routed, max_body_bytes, workflows.file_limits(yaml_max_bytes))
    return HttpLatency(RequestIds(LastResort(limited)), registry)
