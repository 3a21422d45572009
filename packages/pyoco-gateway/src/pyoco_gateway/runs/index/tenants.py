"""Whose runs the index holds.

One tenant is found by walking through all runs, which are its own. From the second one on every
tenant has its own stretch of each index, so that what one asks for never costs more because of
what the others have.
"""

import sqlite3
from collections.abc import Sequence

from pyoco_gateway.access.caller import DEFAULT_TENANT


class IndexTenants:
    """A small number for each tenant, which takes less room in an index than its name."""

    def __init__(self, db: sqlite3.Connection, orders: Sequence[str]) -> None:
        self._db = db
        self._orders = orders
        self._numbers: dict[str, int] = {}

    @property
    def are_several(self) -> bool:
        """Whether there are runs of more than one tenant, and indexes that tell them apart."""
        return len(self._numbers) > 1

    def find(self, tenant_id: str) -> int | None:
        """Return the number of a tenant; None for one that has no runs."""
        return self._numbers.get(tenant_id)

    def number_of(self, tenant_id: str | None) -> int:
        """Return the number of a tenant, which may be new; that of runs without one, for None."""
        tenant_id = tenant_id or DEFAULT_TENANT
        if (known := self._numbers.get(tenant_id)) is not None:
            return known
        number = self._numbers[tenant_id] = len(self._numbers) + 1
        if number == 2:
            self._tell_apart()
        return number

    def _tell_apart(self) -> None:
        for order in self._orders:
            self._db.execute(f"CREATE INDEX tenant_{order} ON runs (tenant, {order}, key)")
        for column in ("status", "flow", "tag"):
            name = f"groups_by_tenant_and_{column}"
            self._db.execute(f"CREATE INDEX {name} ON groups (tenant, {column})")
