"""Refuses requests for executions and graphs while the broker lacks their streams."""

from dataclasses import dataclass

from starlette.types import Scope

from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.provided import Provided, provided


@dataclass(frozen=True)
class ExecutionAvailability(Provided):
    """Whether the broker has the streams of executions, and permits their use."""

    streams: ExecutionStreams


def require_executions(scope: Scope) -> None:
    """Raise ExecutionsUnavailableError for a request that needs streams that cannot be used."""
    if is_execution_path(scope["path"]):
        provided(scope, ExecutionAvailability).streams.require()
