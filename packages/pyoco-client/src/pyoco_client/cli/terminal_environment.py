"""The environment variables that describe the terminal."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TerminalEnvironment:
    """The properties of a terminal that the environment gives."""

    term: str
    no_color: bool
    # Whether the terminal wraps existing lines again when its window gets narrower.
    reflows: bool

    @property
    def is_dumb(self) -> bool:
        """Whether TERM is missing or names a terminal that cannot move its cursor."""
        return self.term in ("", "dumb", "unknown")


def terminal_environment() -> TerminalEnvironment:
    """Return the terminal properties from the environment of this process."""
    term = os.environ.get("TERM", "")
    keeps_rows = (
        "XTERM_VERSION" in os.environ
        or term == "linux"
        or (term.startswith("screen") and "TMUX" not in os.environ)
    )
    return TerminalEnvironment(
        term=term, no_color=bool(os.environ.get("NO_COLOR")), reflows=not keeps_rows
    )
