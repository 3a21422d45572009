"""Keeps all runs in an index, from which lists and counts are answered."""

from collections.abc import Callable

from pyoco_gateway.index.followed_index import FollowedIndex
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.tables import IndexTables


class RunIndex(FollowedIndex[RunChange, IndexTables]):
    """The index of all runs, which also knows whether it is complete."""

    def __init__(self, connections: Callable[[], int]) -> None:
        super().__init__("run-index", IndexTables, connections)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.size
