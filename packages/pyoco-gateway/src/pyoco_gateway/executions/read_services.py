"""Objects that the routes that read executions receive."""

from dataclasses import dataclass

from pyoco_gateway.executions.event_pages import ReadEvents
from pyoco_gateway.executions.hub import ExecutionHub
from pyoco_gateway.executions.log.locate import LocateCommit
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_gateway.executions.raw_commit import ReadRawCommit
from pyoco_gateway.executions.read_execution import DescribeState, ReadExecution
from pyoco_gateway.executions.stream import StreamExecution
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_gateway.executions.values import ReadValues
from pyoco_gateway.executions.verify_log import VerifyLog
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_gateway.http.provided import Provided
from pyoco_protocol.jetstream.execution_log import ExecutionLog


@dataclass(frozen=True)
class ExecutionReadServices(Provided):
    """Read executions, their events and their logs."""

    execution: ReadExecution
    events: ReadEvents
    verify: VerifyLog
    commit: ReadRawCommit
    stream: StreamExecution

    @classmethod
    def of(
        cls,
        log: ExecutionLog,
        reader: StateReader,
        graphs: PinnedGraphs,
        hub: ExecutionHub,
        *,
        request_timeout_sec: float,
        tenants: ExecutionTenants | None = None,
    ) -> "ExecutionReadServices":
        """Return the services; a wait for `minSeq` takes at most half the time of a request."""
        own = OwnExecutions(reader, log, tenants or ExecutionTenants())
        locate = LocateCommit(log)
        describe = DescribeState(graphs, ReadValues(log))
        return cls(
            execution=ReadExecution(own, describe, hub, max_wait_sec=request_timeout_sec / 2),
            events=ReadEvents(own, locate),
            verify=VerifyLog(own, log),
            commit=ReadRawCommit(own, locate),
            stream=StreamExecution(own, describe, locate, hub),
        )
