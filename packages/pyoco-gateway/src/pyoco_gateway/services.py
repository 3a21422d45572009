"""Assembles, starts and stops everything that the routes use."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, get_type_hints

import anyio
from prometheus_client import CollectorRegistry

from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_check import KeyCheck
from pyoco_gateway.access.keys import Pepper
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.access.stream_permits import StreamPermits
from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.broker.preparation import Preparation
from pyoco_gateway.dashboard.index_page import IndexPageServices
from pyoco_gateway.dead_letters.index import MAX_LETTERS, DeadLetterIndex
from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_gateway.dead_letters.redrive import Redrive
from pyoco_gateway.dead_letters.services import DeadLetterServices
from pyoco_gateway.execution_parts import execution_parts
from pyoco_gateway.executions.availability import ExecutionAvailability
from pyoco_gateway.executions.command_services import ExecutionCommandServices
from pyoco_gateway.executions.list_services import ExecutionListServices
from pyoco_gateway.executions.read_services import ExecutionReadServices
from pyoco_gateway.fleet.hide_worker import HideWorker
from pyoco_gateway.fleet.queue_report import QueueReport
from pyoco_gateway.fleet.services import FleetServices
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.fleet.worker_reaper import WorkerRecordReaper
from pyoco_gateway.graphs.services import GraphServices
from pyoco_gateway.health.executions import ExecutionsReport
from pyoco_gateway.health.report import HealthReport
from pyoco_gateway.http.body_rules import FileLimit
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.metrics.page import MetricsPage
from pyoco_gateway.metrics.run_metrics import RunMetrics
from pyoco_gateway.runs.cancel import CancelRun
from pyoco_gateway.runs.delete import DeleteRun
from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.index.purge_check import PurgeCheck
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.list import ListRuns
from pyoco_gateway.runs.logs.cleanup import OutputCleanup
from pyoco_gateway.runs.logs.read import ReadOutput
from pyoco_gateway.runs.logs.services import OutputServices
from pyoco_gateway.runs.logs.tails import OutputTails
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.runs.reaper.parked_jobs import ParkedJobReaper
from pyoco_gateway.runs.reaper.rebuilt_jobs import RunJobs
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_gateway.runs.run_tenants import RunTenants
from pyoco_gateway.runs.services import RunServices
from pyoco_gateway.runs.submit import SubmitRun
from pyoco_gateway.runs.visibility import LookupIds
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.runs.watch.many_runs import WatchRuns
from pyoco_gateway.runs.watch.one_run import WatchRun
from pyoco_gateway.runs.watch.services import WatchServices
from pyoco_gateway.settings import GatewaySettings
from pyoco_gateway.streams.limits import StreamLimits
from pyoco_gateway.streams.resources import StreamMemory, allow_open_files
from pyoco_gateway.workflows.check import CheckWorkflow
from pyoco_gateway.workflows.services import WorkflowServices
from pyoco_gateway.workflows.submit import SubmitWorkflow
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, StreamWatch
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.dead_letter_reader import DeadLetterReader
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.record_reads import RecordReads
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.problems import WorkflowTooLargeError
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import (
    Topology,
    execution_topology,
    wanted_consumer,
    wanted_topology,
)

# A part of the gateway that runs until it is cancelled.
Background = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Services:
    """Everything that routes may ask for, one field for each type."""

    access: AccessServices
    streams: StreamLimits
    runs: RunServices
    run_watch: WatchServices
    run_output: OutputServices
    workflows: WorkflowServices
    fleet: FleetServices
    dead_letters: DeadLetterServices
    execution_availability: ExecutionAvailability
    execution_commands: ExecutionCommandServices
    execution_reads: ExecutionReadServices
    execution_lists: ExecutionListServices
    graphs: GraphServices
    health: HealthReport
    metrics: MetricsPage
    index_page: IndexPageServices

    @classmethod
    def types(cls) -> Iterable[type[Provided]]:
        """Return the types that routes may ask for."""
        hints = get_type_hints(cls)
        return [hints[field.name] for field in fields(cls)]

    def instances(self) -> Iterable[Provided]:
        """Return what routes receive, one instance of each type."""
        return [getattr(self, field.name) for field in fields(self)]


@asynccontextmanager
async def running(
    settings: GatewaySettings, registry: CollectorRegistry
) -> AsyncGenerator[Services]:
    """Run the gateway's parts, and yield what routes receive; raise if a part fails.

    All parts run in one task group, so on stop their waits for the broker overlap instead of
    adding up.
    """
    topology = wanted_topology(settings.topology, with_keys=settings.auth_is_on)
    queues = [
        wanted_consumer(tag, topology.names, settings.consumers)
        for tag in settings.queues.prepared_tags
    ]
    streams = ExecutionStreams(execution_topology(settings.topology))
    preparation = Preparation(topology, queues, then=streams.check_again)
    async with open_broker(settings.broker, name="pyoco-gateway", prepare=preparation) as broker:
        with ExitStack() as resources:
            services, background = _assembled(
                settings, registry, broker, topology, streams=streams, resources=resources
            )
            async with anyio.create_task_group() as tasks:
                for part in background:
                    tasks.start_soon(part)
                yield services
                tasks.cancel_scope.cancel()


def _assembled(
    settings: GatewaySettings,
    registry: CollectorRegistry,
    broker: Broker,
    topology: Topology,
    *,
    streams: ExecutionStreams,
    resources: ExitStack,
) -> tuple[Services, list[Background]]:
    """Return what routes receive, and what runs in the background for it.

    `resources` is closed after all background parts have ended.
    """
    names = topology.names
    runs_bucket = names.runs_bucket
    retention_sec = round(settings.snapshots.run_retention_sec)
    language = settings.dashboard.dashboard_lang
    index = RunIndex(lambda: broker.connections)
    store = RunStore(broker, names, retention_sec=retention_sec, on_written=index.on_own_write)
    tenants = RunTenants(are_wanted=settings.auth_is_on)
    ids = LookupIds(tenants.of)
    read_run = ReadRun(store, ids)
    signer = JobSigner(settings.signing.keys)
    queue = JobQueue(broker, names, signer)
    submit_run = SubmitRun(
        store=store,
        queue=queue,
        default_tag=settings.topology.default_tag,
        max_params_bytes=settings.snapshots.max_params_bytes,
    )
    texts = WorkflowTexts(broker, names, retention_sec=retention_sec)
    check_workflow = CheckWorkflow()

    timeouts = ReaperTimeouts(
        cancel_grace=settings.heartbeats.cancel_grace_period_sec,
        heartbeat=settings.heartbeats.run_heartbeat_interval_sec,
    )
    tracked_runs = TrackedRuns(timeouts)
    reaper = Reaper(
        broker=broker,
        store=store,
        queue=queue,
        runs=tracked_runs,
        timeouts=timeouts,
        jobs=RunJobs(texts, settings.topology.default_tag, signer),
        is_confirmed=submit_run.is_confirmed,
        on_queued=submit_run.unconfirmed.discard,
    )
    parked_jobs = ParkedJobReaper(
        broker=broker,
        store=store,
        dead_letters=DeadLetterWriter(broker, names),
        names=names,
    )

    limits = StreamLimits(settings.watching)
    allow_open_files(settings.watching.sse_max_streams)
    fleet, worker_records, fleet_parts = _fleet(settings, broker, names, tenants)
    hub = RunHub(store, tenants)
    output = OutputStore(broker, names)
    output_tails, output_cleanup = OutputTails(output), OutputCleanup(output)
    run_metrics = RunMetrics(registry)
    # One watch of the runs bucket feeds everything that follows the runs.
    feed = RunFeed([index, tracked_runs, run_metrics, output_tails, output_cleanup, hub])
    runs_watch = BucketWatch(broker, runs_bucket, feed, room=index.wait_for_capacity)
    index.watch_position = lambda: runs_watch.revision
    list_runs = ListRuns(
        broker=broker, bucket=runs_bucket, watch=runs_watch, index=index, store=store
    )

    letter_index = resources.enter_context(
        closing(DeadLetterIndex(settings.topology.dlq_max_msgs or MAX_LETTERS))
    )
    letters = DeadLetters(DeadLetterReader(broker, names), letter_index)
    letters_watch = StreamWatch(broker, names.dlq_stream, names.dlq(""), letter_index)

    def reaper_actions() -> Mapping[str, int]:
        return {
            **{action.value: reaper.action_counts[action] for action in ReaperAction},
            # A label that is published and cannot change.
            "bury_parked_job": parked_jobs.removed_jobs,
            "forget_worker": worker_records.removed,
        }

    executions = execution_parts(settings, broker, names, streams, fleet.workers)
    access, key_parts = _access(settings, broker, topology)
    services = Services(
        access=access,
        streams=limits,
        runs=RunServices(
            submit=submit_run,
            read=read_run,
            lists=list_runs,
            cancel=CancelRun(broker, store, ids),
            delete=DeleteRun(store, on_deleted=[lambda run: output.purge(run.run_id)], ids=ids),
            workers=fleet.workers,
        ),
        run_watch=WatchServices(WatchRun(hub, ids), WatchRuns(broker, hub)),
        run_output=OutputServices(ReadOutput(read_run, output), read_run, output_tails),
        workflows=WorkflowServices(
            check=check_workflow,
            submit=SubmitWorkflow(check_workflow, texts, submit_run),
            file_limit=FileLimit(settings.snapshots.workflow_yaml_max_bytes, WorkflowTooLargeError),
            workers=fleet.workers,
        ),
        fleet=fleet,
        dead_letters=DeadLetterServices(letters, Redrive(letters, store, submit_run, texts)),
        execution_availability=executions.availability,
        execution_commands=executions.commands,
        execution_reads=executions.reads,
        execution_lists=executions.lists,
        graphs=executions.graphs,
        health=HealthReport(
            broker=broker,
            address=settings.broker.nats_address,
            topology=topology,
            index=index,
            executions=ExecutionsReport(
                broker, streams, settings.topology.execution_retention_sec, settings.broker_store
            ),
        ),
        metrics=MetricsPage(
            registry=registry,
            broker=broker,
            workers=fleet.workers,
            queues=fleet.queues,
            run_counts=list_runs.known_counts,
            reaper_actions=reaper_actions,
            unreadable_runs=lambda: feed.unreadable,
            index_lag=lambda: index.backlog + run_metrics.behind,
            sse_clients=lambda: limits.open,
            executions=executions.metrics,
        ),
        index_page=IndexPageServices(None if language == "auto" else language),
    )
    background: list[Background] = [
        index.run,
        runs_watch.run,
        PurgeCheck(broker, runs_bucket, runs_watch, index).run,
        letters_watch.run,
        output_cleanup.run,
        reaper.run,
        parked_jobs.run,
        hub.run,
        StreamMemory(limits).run,
        *fleet_parts,
        *key_parts,
        *executions.background,
    ]
    return services, background


def _fleet(
    settings: GatewaySettings, broker: Broker, names: Names, tenants: RunTenants
) -> tuple[FleetServices, WorkerRecordReaper, list[Background]]:
    workers = WorkerDirectory(broker, settings.heartbeats.worker_disconnect_timeout_sec)
    bucket = Bucket(broker, names.workers_bucket)
    watch = BucketWatch(broker, names.workers_bucket, workers)
    reaper = WorkerRecordReaper(bucket, workers)
    services = FleetServices(
        workers=workers,
        hide_worker=HideWorker(bucket, workers),
        queues=QueueReport(broker, names),
        tenant_of_run=tenants.of,
    )
    reads = RecordReads(broker, names)
    return services, reaper, [watch.run, partial(workers.run, watch), reaper.run, reads.run]


def _access(
    settings: GatewaySettings, broker: Broker, topology: Topology
) -> tuple[AccessServices, list[Background]]:
    if not settings.auth_is_on:
        return AccessServices(), []
    pepper = Pepper.of(settings.auth)
    keys = KeyCache.of(broker, topology.names, pepper)
    permits = StreamPermits(keys)
    return AccessServices(KeyCheck(keys, pepper), permits), [keys.run, permits.run]
