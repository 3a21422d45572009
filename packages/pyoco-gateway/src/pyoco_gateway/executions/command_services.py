"""Objects that the routes of commands receive."""

from dataclasses import dataclass

from pyoco_gateway.executions.create_execution import CreateExecution
from pyoco_gateway.executions.send_command import SendCommand
from pyoco_gateway.http.provided import Provided


@dataclass(frozen=True)
class ExecutionCommandServices(Provided):
    """Create executions, and send commands to them."""

    create: CreateExecution
    send: SendCommand
