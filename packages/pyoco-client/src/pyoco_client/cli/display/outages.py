"""Tells the user of a watch that the gateway or its broker is away, so the display may be old."""

import time
from typing import TYPE_CHECKING

from pyoco_client.cli.display.cells import duration
from pyoco_client.cli.display.output import print_note

if TYPE_CHECKING:
    from pyoco_client.contact import Outage


class Outages:
    """Reports outages of a watch: as a row of a live view, elsewhere as lines on stderr."""

    def __init__(self) -> None:
        self._outage: Outage | None = None
        # Set while a live view shows `row`; lines on stderr would break its rows.
        self.has_view = False

    def take(self, outage: "Outage | None") -> None:
        """Report the start of an outage, or its end for None."""
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
