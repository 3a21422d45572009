"""What runs behind the routes: the broker, all who follow it, and the use cases on top."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from prometheus_client import CollectorRegistry

from pyoco_gateway.access.setup import asks_for_keys, keys_in_use
from pyoco_gateway.broker.preparation import Preparation
from pyoco_gateway.dead_letters.setup import dead_letter_desk
from pyoco_gateway.fleet.setup import Fleet
from pyoco_gateway.health.report import HealthReport
from pyoco_gateway.runs.cancel import CancelRun
from pyoco_gateway.runs.delete import DeleteRun
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.index.run_tenants import RunTenants
from pyoco_gateway.runs.index.setup import ReadModel
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.list import ListRuns
from pyoco_gateway.runs.logs.cleanup import OutputCleanup
from pyoco_gateway.runs.logs.read import ReadOutput
from pyoco_gateway.runs.logs.tails import OutputTails
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.runs.reaper.parked_jobs import ParkedJobReaper
from pyoco_gateway.runs.reaper.rules import ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_gateway.runs.requeue import RunJobs
from pyoco_gateway.runs.submit import SubmitRun
from pyoco_gateway.runs.watch.setup import watching
from pyoco_gateway.settings import GatewaySettings
from pyoco_gateway.workflows.check import CheckWorkflow
from pyoco_gateway.workflows.submit import SubmitWorkflow
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.topology import Topology, wanted_consumer, wanted_topology


def _preparation(settings: GatewaySettings, topology: Topology) -> Preparation:
    queues = [
        wanted_consumer(tag, topology.names, settings.consumers)
        for tag in settings.queues.prepared_tags
    ]
    return Preparation(topology, queues)


@asynccontextmanager
async def running(
    settings: GatewaySettings, registry: CollectorRegistry
) -> AsyncGenerator[dict[str, Any]]:
    """Yield what the routes find in the state of a request, by its names there."""
    topology = wanted_topology(settings.topology, with_keys=asks_for_keys(settings.auth))
    language = settings.dashboard.dashboard_lang
    async with open_broker(
        settings.broker, name="pyoco-gateway", prepare=_preparation(settings, topology)
    ) as broker:
        index = RunIndex(lambda: broker.connections)
        retention_sec = round(settings.snapshots.run_retention_sec)
        store = RunStore(broker, topology.names, index.on_own_write, retention_sec=retention_sec)
        signer = JobSigner(settings.signing.keys)
        queue = JobQueue(broker, topology.names, signer)
        submit_run = SubmitRun(
            store=store,
            queue=queue,
            default_tag=settings.topology.default_tag,
            max_params_bytes=settings.snapshots.max_params_bytes,
        )
        texts = WorkflowTexts(broker, topology.names, retention_sec=retention_sec)
        check_workflow = CheckWorkflow()
        logs = OutputStore(broker, topology.names)
        patience = ReaperTimeouts(
            cancel_grace=settings.heartbeats.cancel_grace_period_sec,
            heartbeat=settings.heartbeats.run_heartbeat_interval_sec,
        )
        in_sight = TrackedRuns(patience)
        reaper = Reaper(
            broker=broker,
            store=store,
            queue=queue,
            runs=in_sight,
            timeouts=patience,
            jobs=RunJobs(texts, settings.topology.default_tag, signer),
            is_confirmed=submit_run.is_confirmed,
            on_queued=submit_run.unconfirmed.discard,
        )
        parked = ParkedJobReaper(
            broker=broker,
            store=store,
            dead_letters=DeadLetterWriter(broker, topology.names),
            names=topology.names,
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
        owners = RunTenants(are_wanted=settings.auth.http_auth_mode != "none")
        watch = watching(settings.watching, broker, store, owners)
        with desk as (letter_watch, letters):
            async with anyio.create_task_group() as tasks:
                # Everybody who looks at all runs stands behind this one watch.
                output_tails, output_cleanup = OutputTails(logs), OutputCleanup(logs)
                bucket = topology.names.runs_bucket
                read_model = ReadModel.of(
                    broker,
                    bucket,
                    index,
                    [in_sight, fleet.run_metrics, output_tails, output_cleanup, watch.hub],
                )
                list_runs = ListRuns(
                    broker=broker, bucket=bucket, watch=read_model.watch, index=index, store=store
                )
                read_model.start(tasks)
                tasks.start_soon(letter_watch.run)
                tasks.start_soon(output_cleanup.run)
                tasks.start_soon(reaper.run)
                tasks.start_soon(parked.run)
                tasks.start_soon(watch.run)
                fleet.start(tasks)
                yield {
                    **keys_in_use(tasks, settings.auth, broker, topology.names),
                    "submit_run": submit_run,
                    "read_run": ReadRun(store),
                    "read_output": ReadOutput(ReadRun(store), logs),
                    "output_tails": output_tails,
                    "list_runs": list_runs,
                    "health_report": HealthReport(
                        broker=broker,
                        address=settings.broker.nats_address,
                        topology=topology,
                        index=index,
                    ),
                    "cancel_run": CancelRun(broker, store),
                    "metrics_page": fleet.page(
                        broker,
                        registry,
                        read_model=read_model,
                        list_runs=list_runs,
                        reaper=reaper,
                        parked=parked,
                        sse_clients=lambda: watch.limits.open,
                    ),
                    **fleet.state(),
                    "delete_run": DeleteRun(store, on_deleted=[lambda run: logs.purge(run.run_id)]),
                    **letters,
                    "check_workflow": check_workflow,
                    "submit_workflow": SubmitWorkflow(check_workflow, texts, submit_run),
                    "workflow_yaml_max_bytes": settings.snapshots.workflow_yaml_max_bytes,
                    **watch.state,
                    "run_owners": owners,
                    "page_language": None if language == "auto" else language,
                }
                tasks.cancel_scope.cancel()
