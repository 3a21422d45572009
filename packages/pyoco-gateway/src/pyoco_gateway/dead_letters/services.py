"""Objects that the routes of dead letters receive."""

from dataclasses import dataclass

from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_gateway.dead_letters.redrive import Redrive
from pyoco_gateway.http.provided import Provided


@dataclass(frozen=True)
class DeadLetterServices(Provided):
    """Read, remove and redrive dead letters."""

    letters: DeadLetters
    redrive: Redrive
