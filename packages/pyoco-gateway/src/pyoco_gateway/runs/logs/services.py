"""Objects that the routes of run logs receive."""

from dataclasses import dataclass

from pyoco_gateway.http.provided import Provided
from pyoco_gateway.runs.logs.read import ReadOutput
from pyoco_gateway.runs.logs.tails import OutputTails
from pyoco_gateway.runs.read import ReadRun


@dataclass(frozen=True)
class OutputServices(Provided):
    """Read the output of a run page by page, or follow it."""

    read: ReadOutput
    read_run: ReadRun
    tails: OutputTails
