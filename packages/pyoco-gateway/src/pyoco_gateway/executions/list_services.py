"""Objects that the routes that list executions and open nodes receive."""

from dataclasses import dataclass

from pyoco_gateway.executions.approvers import FindApprovable
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.list_executions import ExecutionReader, ListExecutions
from pyoco_gateway.executions.list_open_nodes import ListOpenNodes
from pyoco_gateway.executions.wait_details import ReadWaitDetails
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_gateway.http.provided import Provided
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import IndexNotReadyError


@dataclass(frozen=True)
class ExecutionListServices(Provided):
    """List executions, waits and ready Tasks."""

    executions: ListExecutions
    open_nodes: ListOpenNodes

    @classmethod
    def of(
        cls,
        *,
        broker: Broker,
        stream: str,
        watch: StreamWatch,
        index: ExecutionIndex,
        graphs: PinnedGraphs,
        read_details: ReadWaitDetails,
        request_timeout_sec: float,
    ) -> "ExecutionListServices":
        """Return the services; a wait for ready Tasks takes at most half the time of a request."""
        reader: ExecutionReader = ExecutionReader(
            broker=broker, stream=stream, watch=watch, index=index, not_ready=IndexNotReadyError
        )
        return cls(
            executions=ListExecutions(reader, stream),
            open_nodes=ListOpenNodes(
                reader,
                stream,
                index,
                FindApprovable(reader, graphs, index),
                read_details,
                max_wait_sec=request_timeout_sec / 2,
            ),
        )
