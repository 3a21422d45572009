"""Hands routes and middleware the objects that the application started, by their types."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

_STATE_KEY: Final = "pyoco.provided"


class Provided:
    """Base class of everything that a route may ask for with `provided`."""


P = TypeVar("P", bound=Provided)


class NotProvidedError(TypeError):
    """A type that routes may ask for is not among those that the application provides."""


def require_all(types: Iterable[type[Provided]]) -> None:
    """Raise NotProvidedError if a subclass of `Provided` is not in `types`.

    Checked at start, so that a missing type does not wait for the first request that needs it.
    """
    if missing := set(Provided.__subclasses__()).difference(types):
        names = ", ".join(sorted(each.__qualname__ for each in missing))
        raise NotProvidedError(f"routes may ask for {names}, which the gateway does not provide")


def lifespan_state(
    instances: Iterable[Provided],
) -> Mapping[str, Mapping[type[Provided], Provided]]:
    """Return the lifespan state in which `provided` finds `instances`."""
    return {_STATE_KEY: {type(each): each for each in instances}}


def provided(scope: Mapping[str, Any], kind: type[P]) -> P:
    """Return the application's instance of `kind`, for a request with this ASGI scope."""
    found: P = scope["state"][_STATE_KEY][kind]
    return found
