"""Assembles everything that executions and graphs need."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.executions.availability import ExecutionAvailability
from pyoco_gateway.executions.command_services import ExecutionCommandServices
from pyoco_gateway.executions.create_execution import CreateExecution
from pyoco_gateway.executions.feed import CommitFeed
from pyoco_gateway.executions.hub import ExecutionHub
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.purge_check import PurgeCheck
from pyoco_gateway.executions.list_services import ExecutionListServices
from pyoco_gateway.executions.load_open_nodes import LoadOpenNodes
from pyoco_gateway.executions.log.appender import Appender
from pyoco_gateway.executions.log.commit_plan import CommitPlan
from pyoco_gateway.executions.log.state_cache import StateCache
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.metrics import ExecutionMetrics
from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_gateway.executions.read_services import ExecutionReadServices
from pyoco_gateway.executions.retention import Retention
from pyoco_gateway.executions.send_command import SendCommand
from pyoco_gateway.executions.sweep import Sweep
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_gateway.executions.values import ReadValues
from pyoco_gateway.executions.wait_details import ReadWaitDetails
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.graphs.services import GraphServices
from pyoco_gateway.settings import GatewaySettings
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.subjects import Names

# A run on a live worker is stopped within its own grace period and 5 s, so its outcome comes first.
_STOP_MARGIN_SEC: Final = 10.0


@dataclass(frozen=True)
class ExecutionParts:
    """What routes receive, and what runs in the background."""

    availability: ExecutionAvailability
    commands: ExecutionCommandServices
    reads: ExecutionReadServices
    lists: ExecutionListServices
    graphs: GraphServices
    metrics: ExecutionMetrics
    background: list[Callable[[], Coroutine[Any, Any, None]]]


def execution_parts(
    settings: GatewaySettings,
    broker: Broker,
    names: Names,
    streams: ExecutionStreams,
    workers: WorkerDirectory,
) -> ExecutionParts:
    """Return the parts of executions and graphs."""
    log = ExecutionLog(broker, names)
    cache = StateCache(lambda: broker.connections + watch.interruptions)
    reader = StateReader(log, Checkpoints(broker, names), cache)
    graphs = GraphServices.of(broker, names, workers, settings.topology.default_tag)
    hub = ExecutionHub()
    index = ExecutionIndex(lambda: broker.connections, LoadOpenNodes(reader, graphs.pinned))
    own_commits = OwnCommits()
    commit = CommitPlan(log, Appender(log), reader, own_commits, on_committed=index.on_own_write)
    stop_grace_sec = settings.heartbeats.cancel_grace_period_sec + _STOP_MARGIN_SEC
    create = CreateExecution(graphs.pinned, commit, stop_grace_sec, has_keys=settings.auth_is_on)
    tenants = ExecutionTenants(are_wanted=settings.auth_is_on)
    send = SendCommand(reader, graphs.pinned, commit, stop_grace_sec, tenants=tenants)
    timeout_sec = settings.http.http_request_timeout_sec
    reads = ExecutionReadServices.of(
        log, reader, graphs.pinned, hub, request_timeout_sec=timeout_sec, tenants=tenants
    )
    # One watch of the stream feeds everything that follows executions.
    feed = CommitFeed([index, cache, tenants, hub], own_commits)
    watch = StreamWatch(
        broker,
        names.execution_stream,
        names.execution(""),
        feed,
        room=index.wait_for_capacity,
        latest_first=True,
    )
    index.watch_position = lambda: watch.revision
    lists = ExecutionListServices.of(
        broker=broker,
        stream=names.execution_stream,
        watch=watch,
        index=index,
        graphs=graphs.pinned,
        read_details=ReadWaitDetails(reader, ReadValues(log)),
        request_timeout_sec=timeout_sec,
    )
    retention_sec = settings.topology.execution_retention_sec
    purge_check = PurgeCheck(
        broker, names.execution_stream, watch, index, retention_sec=retention_sec
    )
    return ExecutionParts(
        availability=ExecutionAvailability(streams),
        commands=ExecutionCommandServices(create, send),
        reads=reads,
        lists=lists,
        graphs=graphs,
        metrics=ExecutionMetrics(index, feed),
        background=[
            partial(streams.run, broker),
            index.run,
            partial(streams.run_once_available, watch.run),
            partial(streams.run_once_available, purge_check.run),
            Sweep(index.due_before, reader, graphs.pinned, send).run,
            Retention(log, index.ended_before, index.forget, tenants, retention_sec).run,
        ],
    )
