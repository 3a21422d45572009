from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.runs.index.list_query import (
    ListFilters,
    ListQuery,
    Order,
    parse_count_query,
    parse_list_query,
)
from pyoco_protocol.problems import ListQueryError
from pyoco_protocol.runs.lifecycle import RunStatus

PARAMETERS = [
    *("status", "flow", "tag", "workflow_yaml_sha256", "submitted_after", "submitted_before"),
    *("updated_after", "cursor", "order", "limit", "include"),
]


def test_an_empty_query_returns_the_latest_fifty_runs() -> None:
    assert parse_list_query([]) == ListQuery(limit=50)


def test_every_parameter_is_parsed() -> None:
    query = parse_list_query(
        [
            *(("status", "FAILED"), ("status", "CANCELLED")),
            *(("flow", "日次 集計"), ("tag", "gpu"), ("workflow_yaml_sha256", "ab" * 32)),
            *(("submitted_after", "1.5"), ("submitted_before", "2e3"), ("updated_after", "0")),
            *(("cursor", "abc"), ("order", "updated"), ("limit", "200"), ("include", "full")),
        ]
    )

    assert query == ListQuery(
        filters=ListFilters(
            statuses=frozenset({RunStatus.FAILED, RunStatus.CANCELLED}),
            flow="日次 集計",
            tag="gpu",
            workflow_yaml_sha256="ab" * 32,
            submitted_after=1.5,
            submitted_before=2000.0,
        ),
        order=Order.UPDATED,
        updated_after=0.0,
        cursor="abc",
        limit=200,
        full=True,
    )


@pytest.mark.parametrize(
    ("flow", "exact", "prefix"),
    [("daily", "daily", None), ("daily*", None, "daily"), ("*", None, ""), ("a*b", "a*b", None)],
)
def test_a_star_at_the_end_of_a_flow_makes_it_a_prefix(
    flow: str, exact: str | None, prefix: str | None
) -> None:
    filters = parse_list_query([("flow", flow)]).filters
    assert (filters.flow, filters.flow_prefix) == (exact, prefix)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("status", "failed"), ("status", ""), ("flow", ""), ("flow", "x" * 600), ("tag", "")),
        *(("limit", "0"), ("limit", "201"), ("limit", "-1"), ("limit", "1.0"), ("limit", "x")),
        *(("limit", "9" * 5000), ("limit", "١"), ("limit", " 5"), ("limit", "")),
        *(("updated_after", "nan"), ("updated_after", "inf"), ("updated_after", "-1")),
        *(("updated_after", "1_000"), ("updated_after", "1e999"), ("updated_after", "today")),
        *(("submitted_after", "x"), ("submitted_before", ""), ("order", "newest")),
        *(("include", "everything"), ("cursor", ""), ("cursor", "x" * 600)),
    ],
)
def test_an_invalid_parameter_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ListQueryError) as refused:
        parse_list_query([(name, value)])
    assert [where for where, _ in refused.value.faults] == [name]


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ListQueryError) as refused:
        parse_list_query([("limit", "0"), ("status", "x"), ("order", "up")])
    assert {where for where, _ in refused.value.faults} == {"limit", "status", "order"}


@pytest.mark.parametrize("name", sorted(set(PARAMETERS) - {"status", "include"}))
def test_a_single_valued_parameter_given_twice_is_refused(name: str) -> None:
    with pytest.raises(ListQueryError, match=f"{name}: is given more than once"):
        parse_list_query([(name, "1"), (name, "1")])


def test_updated_after_with_order_created_is_refused() -> None:
    with pytest.raises(ListQueryError, match="updated_after"):
        parse_list_query([("updated_after", "0"), ("order", "created")])


@pytest.mark.parametrize("name", ["cursor", "limit", "order", "updated_after", "submitted_after"])
def test_a_count_takes_filters_but_no_paging_parameters(name: str) -> None:
    assert parse_count_query([("tag", "gpu"), (name, "wrong")]) == ListFilters(tag="gpu")


@given(st.lists(st.tuples(st.sampled_from(PARAMETERS) | st.text(), st.text()), max_size=6))
def test_any_query_is_parsed_or_refused(pairs: list[tuple[str, str]]) -> None:
    try:
        named = {name[:40] for name, _ in pairs if 1 <= parse_list_query(pairs).limit <= 200}
    except ListQueryError as refused:
        named = {where for where, _ in refused.faults}
    assert named <= {name[:40] for name, _ in pairs}


@given(
    st.builds(
        ListFilters,
        statuses=st.frozensets(st.sampled_from(RunStatus)),
        flow=st.none() | st.text(),
        flow_prefix=st.none() | st.text(),
        tag=st.none() | st.text(),
        submitted_after=st.none() | st.floats(0, 10),
        tenant_id=st.none() | st.text(),
    ),
    st.sampled_from(["flow", "flow_prefix", "tag", "workflow_yaml_sha256", "tenant_id"]),
)
def test_different_filters_have_different_fingerprints(filters: ListFilters, field: str) -> None:
    values: dict[str, Any] = {name: getattr(filters, name) for name in ListFilters.__slots__}
    assert ListFilters(**values).fingerprint == filters.fingerprint
    values[field] = f"{values[field]}!"
    assert ListFilters(**values).fingerprint != filters.fingerprint
