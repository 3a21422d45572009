"""The query strings of the lists of executions and open nodes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Route

from pyoco_gateway.executions.index.list_query import (
    ExecutionFilters,
    ListQuery,
    OpenList,
    OpenNodeQuery,
    Order,
    moment,
    parse_execution_query,
    parse_ready_query,
    parse_wait_query,
)
from pyoco_gateway.executions.list_routes import router as list_router
from pyoco_gateway.executions.wait_routes import router as wait_router
from pyoco_gateway.http.query_reader import Pairs
from pyoco_gateway.http.query_rules import parameters_of
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.problems import InvalidRequestError

PARSERS: dict[str, Callable[[Pairs, str], ListQuery | OpenNodeQuery]] = {
    "/executions": parse_execution_query,
    "/waits": parse_wait_query,
    "/ready-tasks": parse_ready_query,
}
PARAMETERS = {
    route.path: parameters_of(route)
    for route in (*list_router.routes, *wait_router.routes)
    if isinstance(route, Route)
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_an_empty_query_lists_fifty_executions_that_are_not_archived() -> None:
    assert parse_execution_query([], "acme") == ListQuery(
        ExecutionFilters("acme", is_archived=False), order=None, cursor=None, limit=50
    )
    assert parse_wait_query([], "acme") == OpenNodeQuery(OpenList.WAITS, "acme", limit=50)
    assert parse_ready_query([], "acme") == OpenNodeQuery(OpenList.READY_TASKS, "acme", limit=50)


def test_every_parameter_of_executions_is_parsed() -> None:
    query = parse_execution_query(
        [
            *(("status", "ACTIVE"), ("status", "FAILED"), ("label", "eu"), ("label", "日本")),
            *(("graphId", "orders"), ("graphVersion", "3"), ("cancelRequested", "false")),
            *(("archived", "any"), ("createdAfter", "2026-11-18T03:15:27.123Z")),
            *(("createdBefore", "2026-11-18t12:15:27.1231+09:00"), ("order", "created")),
            *(("limit", "200"), ("cursor", "abc")),
        ],
        "acme",
    )

    assert query == ListQuery(
        ExecutionFilters(
            tenant_id="acme",
            statuses=frozenset({ExecutionStatus.ACTIVE, ExecutionStatus.FAILED}),
            graph_id="orders",
            graph_version=3,
            labels=frozenset({"eu", "日本"}),
            is_cancel_requested=False,
            is_archived=None,
            created_after=1_794_971_727_123,
            # Rounded up: no execution that was created before it is left out.
            created_before=1_794_971_727_124,
        ),
        Order.CREATED,
        cursor="abc",
        limit=200,
    )


def test_every_parameter_of_open_nodes_is_parsed() -> None:
    waits = parse_wait_query([("graphId", "g"), ("approver", "ann"), ("limit", "1")], "acme")
    ready = parse_ready_query([("graphId", "g"), ("waitSec", "30"), ("cursor", "c")], "acme")

    assert (waits.graph_id, waits.approver, waits.limit) == ("g", "ann", 1)
    assert (ready.graph_id, ready.wait_sec, ready.cursor) == ("g", 30, "c")


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("/executions", "status", "PAUSED"),
        ("/executions", "status", "active"),
        ("/executions", "graphId", ""),
        ("/executions", "graphVersion", "0"),
        ("/executions", "graphVersion", "1.0"),
        ("/executions", "cancelRequested", "yes"),
        ("/executions", "archived", "all"),
        ("/executions", "label", ""),
        ("/executions", "createdAfter", "2026-11-18"),
        ("/executions", "createdAfter", "2026-11-18T03:15:27"),
        ("/executions", "createdAfter", "2026-11-18T03:15:27 09:00"),
        ("/executions", "createdBefore", "2026-02-30T03:15:27Z"),
        ("/executions", "createdBefore", "1794971727"),
        ("/executions", "order", "seq"),
        ("/executions", "limit", "201"),
        ("/waits", "limit", "0"),
        ("/waits", "cursor", "x" * 513),
        ("/waits", "approver", ""),
        ("/ready-tasks", "waitSec", "31"),
        ("/ready-tasks", "waitSec", "-1"),
        ("/ready-tasks", "limit", "ten"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_parameter(
    path: str, name: str, value: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        PARSERS[path]([(name, value)], "acme")
    assert [where for where, _ in refused.value.faults] == [name]


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path, names in PARAMETERS.items() for name in sorted(names)],
)
def test_only_statuses_and_labels_may_be_repeated(path: str, name: str) -> None:
    value = {
        "status": "ACTIVE",
        "graphVersion": "1",
        "cancelRequested": "true",
        "archived": "any",
        "createdAfter": "2026-11-18T03:15:27Z",
        "createdBefore": "2026-11-18T03:15:27Z",
        "order": "created",
        "limit": "1",
        "waitSec": "1",
    }.get(name, "x")

    def parse() -> object:
        return PARSERS[path]([(name, value), (name, value)], "acme")

    if name in ("status", "label"):
        assert parse() == PARSERS[path]([(name, value)], "acme")
        return
    with pytest.raises(InvalidRequestError, match=name):
        parse()


def test_more_labels_than_an_execution_can_have_are_refused() -> None:
    labels = [("label", f"l{number}") for number in range(11)]
    assert len(parse_execution_query(labels[:10], "acme").filters.labels) == 10
    with pytest.raises(InvalidRequestError, match="label"):
        parse_execution_query(labels, "acme")


@given(st.sampled_from(sorted(PARSERS)), st.data())
def test_any_query_is_parsed_or_refused(path: str, data: st.DataObject) -> None:
    names = st.sampled_from(sorted(PARAMETERS[path]))
    pairs = data.draw(st.lists(st.tuples(names, st.text()), max_size=6))
    try:
        named = {name for name, _ in pairs if 1 <= PARSERS[path](pairs, "acme").limit <= 200}
    except InvalidRequestError as refused:
        named = {where for where, _ in refused.faults}
    assert named <= {name for name, _ in pairs}


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the offset is drawn
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_a_time_is_understood_with_any_offset(local: datetime, minutes: int) -> None:
    at = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))

    found = moment(at.isoformat())

    rounding = timedelta(milliseconds=found) - (at - EPOCH)
    assert timedelta(0) <= rounding < timedelta(milliseconds=1)


FIELDS: list[dict[str, Any]] = [
    {},
    {"statuses": frozenset({ExecutionStatus.ACTIVE})},
    {"graph_id": "1"},
    {"graph_version": 1},
    {"labels": frozenset({"1"})},
    {"is_cancel_requested": True},
    {"is_archived": True},
    {"created_after": 1},
    {"created_before": 1},
]


def test_different_filters_have_different_fingerprints() -> None:
    fingerprints = {ExecutionFilters("acme", **fields).fingerprint for fields in FIELDS}
    assert len(fingerprints) == len(FIELDS)
    nodes = {
        OpenNodeQuery(open_list, "acme", graph_id=graph_id, approver=approver).fingerprint
        for open_list in OpenList
        for graph_id in (None, "a")
        for approver in (None, "a")
    }
    assert len(nodes) == 8
