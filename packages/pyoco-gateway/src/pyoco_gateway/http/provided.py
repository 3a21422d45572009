"""Hands routes and middleware the objects that the application started, by their types."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

_STATE_KEY: Final = "pyoco.provided"


class Provided:
    """Base class of everything that a route may ask for with `provided`."""


P = TypeVar("P", bound=Provided)


def lifespan_state(
    instances: Iterable[Provided],
) -> Mapping[str, Mapping[type[Provided], Provided]]:
    """Return the lifespan state in which `provided` finds `instances`."""
    return {_STATE_KEY: {type(each): each for each in instances}}


def provided(scope: Mapping[str, Any], kind: type[P]) -> P:
    """Return the application's instance of `kind`, for a request with this ASGI scope."""
    found: P = scope["state"][_STATE_KEY][kind]
    return found
