"""Lists of one tenant, among the runs of others."""

import re
from dataclasses import replace

import pytest

from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.queries import counts
from pyoco_protocol.runs.lifecycle import RunStatus
from run_index_model import TENANTS, World


@pytest.mark.parametrize("way", ["merge", "walk", "sort"])
def test_a_tenants_list_does_not_pass_by_the_runs_of_others(way: str) -> None:
    """Their number must not make it slower: neither to serve, nor for who has a clock to see."""
    world = World(way)
    for number in range(40):
        world.write(f"r{number}", tenant_id="acme", flow_name=f"f{number}", submitted_at=9.0)
    mine = [f"m{number}" for number in range(3)]
    for number, run_id in enumerate(mine):
        world.write(run_id, tenant_id="globex", submitted_at=1.0, updated_at=float(number))
    asked: list[str] = []
    world.tables.db.set_trace_callback(asked.append)
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
            assert {item["run_id"] for item in items} == set(mine)
        counts(world.tables, replace(filters, submitted_after=None))
    world.tables.db.set_trace_callback(None)

    # By the moment of a change, which is halved for: one row each, whosever it is.
    others = [sql for sql in asked if "changed_at" not in sql]
    assert len(others) >= 12
    for sql in others:
        asked_sql = sql.replace("Inf", "9e999")
        plan = [row[-1] for row in world.tables.db.execute(f"EXPLAIN QUERY PLAN {asked_sql}")]
        looked = [step for step in plan if " runs " in step or " groups " in step]
        # A run or a group is found in the tenant's own stretch of an index, or by its number.
        assert looked
        for step in looked:
            assert re.search(r"\((tenant|group_id|id|rowid)=\?", step), (asked_sql, plan)


@pytest.mark.parametrize("way", ["merge", "walk", "sort"])
def test_runs_that_do_not_say_whose_they_are_are_the_default_tenants(way: str) -> None:
    world = World(way)
    for run_id, tenant_id in TENANTS.items():
        world.write(run_id, tenant_id=tenant_id)
    for tenant_id in ("default", "acme", "globex", "nobody"):
        own = {run_id for run_id, whose in TENANTS.items() if (whose or "default") == tenant_id}
        for filters in (ListFilters(), ListFilters(flow="hello", submitted_after=0.0)):
            items, _ = world.page(ListQuery(replace(filters, tenant_id=tenant_id)))
            assert {item["run_id"] for item in items} == own
        assert sum(counts(world.tables, ListFilters(tenant_id=tenant_id)).values()) == len(own)


def test_with_one_tenant_alone_no_index_is_kept_for_telling_it_apart() -> None:
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
