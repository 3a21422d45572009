"""What the command line takes from its environment about the terminal it writes to."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TerminalEnvironment:
    """What the environment says of the terminal."""

    term: str
    no_color: bool
    # Whether lines that are too long for a narrowed window move on to the next row.
    reflows: bool

    @property
    def is_dumb(self) -> bool:
        """Whether the terminal cannot move its cursor, as far as anybody has said."""
        return self.term in ("", "dumb", "unknown")


def terminal_environment() -> TerminalEnvironment:
    """Return what this process's environment says of its terminal."""
    term = os.environ.get("TERM", "")
    keeps_rows = (
        "XTERM_VERSION" in os.environ
        or term == "linux"
        or (term.startswith("screen") and "TMUX" not in os.environ)
    )
    return TerminalEnvironment(
        term=term, no_color=bool(os.environ.get("NO_COLOR")), reflows=not keeps_rows
    )
