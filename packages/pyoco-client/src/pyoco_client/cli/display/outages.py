"""Shows that a watch gets no news, so that nobody takes an old picture for the present one."""

import time
from typing import TYPE_CHECKING

from pyoco_client.cli.display.cells import duration
from pyoco_client.cli.display.output import print_note

if TYPE_CHECKING:
    from pyoco_client.contact import Outage


class Outages:
    """Takes the outages of a watch: a live view shows a row, other outputs a line on stderr."""

    def __init__(self) -> None:
        self._outage: Outage | None = None
        # Set while a live view shows `row`; lines on stderr would break its rows.
        self.has_view = False

    def take(self, outage: "Outage | None") -> None:
        """Take the begin of an outage, or None for its end."""
        before, self._outage = self._outage, outage
        if self.has_view:
            return
        if outage is not None:
            print_note(f"no news, trying again: {outage.error}")
        elif before is not None:
            print_note(f"up to date again after {duration(time.time() - before.since)}")

    def row(self, now: float) -> str | None:
        """Return the row of the current outage, if there is one."""
        outage = self._outage
        if outage is None:
            return None
        what = "connection lost" if outage.error.status is None else outage.error.message
        return f"{what}: no news for {duration(now - outage.since)}, trying again"
