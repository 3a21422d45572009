"""Lists of one tenant in an index with runs of others."""

import re
from dataclasses import replace

import pytest

from pyoco_gateway.runs.index.cursors import FollowCursor
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.queries import counts
from pyoco_protocol.runs.lifecycle import RunStatus
from run_index_model import TENANTS, World


@pytest.mark.parametrize("strategy", ["merge", "scan", "sort"])
def test_a_tenants_list_reads_no_rows_of_other_tenants(strategy: str) -> None:
    """Their number must neither slow down a list nor be visible in its response time."""
    world = World(strategy)
    for number in range(40):
        world.write(f"r{number}", tenant_id="acme", flow_name=f"f{number}", submitted_at=9.0)
    own = [f"m{number}" for number in range(3)]
    for number, run_id in enumerate(own):
        world.write(run_id, tenant_id="globex", submitted_at=1.0, updated_at=float(number))
    queries: list[str] = []
    world.tables.db.set_trace_callback(queries.append)
    for filters in (
        ListFilters(tenant_id="globex"),
        ListFilters(frozenset({RunStatus.PENDING}), tenant_id="globex"),
        ListFilters(tenant_id="globex", submitted_after=0.5),
        ListFilters(tenant_id="globex", flow_prefix="h", tag="default"),
    ):
        for query in (
            ListQuery(filters),
            ListQuery(filters, order=Order.CREATED),
            ListQuery(filters, updated_after=-1.0),
        ):
            items, _ = world.page(query)
            assert {item["run_id"] for item in items} == set(own)
        items, _ = world.page(ListQuery(filters), FollowCursor(0))
        assert {item["run_id"] for item in items} == set(own)
        counts(world.tables, replace(filters, submitted_after=None))
    world.tables.db.set_trace_callback(None)

    assert len(queries) >= 16
    for sql in queries:
        traced = sql.replace("Inf", "9e999")
        plan = [row[-1] for row in world.tables.db.execute(f"EXPLAIN QUERY PLAN {traced}")]
        searches = [step for step in plan if " runs " in step or " groups " in step]
        # Runs and groups are found in the tenant's range of an index, or by id.
        assert searches
        for step in searches:
            assert re.search(r"\((tenant|group_id|id|rowid)=\?", step), (traced, plan)


@pytest.mark.parametrize("strategy", ["merge", "scan", "sort"])
def test_runs_without_a_tenant_belong_to_the_default_tenant(strategy: str) -> None:
    world = World(strategy)
    for run_id, tenant_id in TENANTS.items():
        world.write(run_id, tenant_id=tenant_id)
    for tenant_id in ("default", "acme", "globex", "unknown"):
        own = {run_id for run_id, owner in TENANTS.items() if (owner or "default") == tenant_id}
        for filters in (ListFilters(), ListFilters(flow="hello", submitted_after=0.0)):
            items, _ = world.page(ListQuery(replace(filters, tenant_id=tenant_id)))
            assert {item["run_id"] for item in items} == own
        assert sum(counts(world.tables, ListFilters(tenant_id=tenant_id)).values()) == len(own)


def test_tenant_indexes_exist_only_with_more_than_one_tenant() -> None:
    world = World()
    world.write("r1", tenant_id="acme")
    world.write("r2", tenant_id="acme")

    def indexes() -> int:
        (found,) = world.tables.db.execute(
            "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'index' AND name LIKE '%tenant%'"
        ).fetchone()
        return int(found)

    assert indexes() == 0
    assert len(world.page(ListQuery(ListFilters(tenant_id="acme")))[0]) == 2
    assert world.page(ListQuery(ListFilters(tenant_id="globex")))[0] == []
    assert sum(counts(world.tables, ListFilters(tenant_id="globex")).values()) == 0
    world.write("r3", tenant_id="globex")
    assert indexes() == 6
    assert len(world.page(ListQuery(ListFilters(tenant_id="acme")))[0]) == 2
    world.tables.clear()
    assert indexes() == 0
