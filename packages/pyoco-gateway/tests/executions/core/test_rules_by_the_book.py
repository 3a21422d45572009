"""The orchestrator against an oracle that follows the specification literally."""

from typing import Any

import pytest
from hypothesis import given

from execution_histories import (
    BEGIN,
    EXECUTION_ID,
    MANY,
    STOP_GRACE_SEC,
    TENANT,
    TIME_LIMIT_SEC,
    Commit,
    History,
    histories,
)
from executions.core.by_the_book import Book
from pyoco_gateway.executions.core.reduce import Origin, Reducer
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_strategies import graph_documents

pytestmark = pytest.mark.timeout(TIME_LIMIT_SEC)


def book_of(history: History, commit: Commit) -> Book:
    """Return the oracle on the state after the events that were decided."""
    at = max(commit.after.last_at, BEGIN)
    reducer = Reducer(commit.before, Origin(EXECUTION_ID, TENANT, commit.actor, at))
    for event in commit.plan.decided:
        reducer.apply(event)
    assert reducer.state is not None
    return Book(reducer.state, history.graph, at, STOP_GRACE_SEC)


@MANY
@given(histories())
def test_the_orchestrator_does_what_the_specification_says(history: History) -> None:
    """Order, colours, dead paths, gates of every policy, losers, ends: event by event."""
    for commit in history.commits:
        if commit.events:
            book = book_of(history, commit)
            assert [caused.event for caused in commit.plan.followed] == book.run()
            assert book.rounds <= 5 * len(book.nodes) + 4


def book_of_start(document: dict[str, Any]) -> Book:
    """Return the oracle on a graph whose execution was just created."""
    history = History(validate_graph(document))
    return book_of(history, history.create(start=False))


@MANY
@given(graph_documents())
def test_the_order_of_nodes_is_the_earliest_of_the_document_that_may_be_next(
    document: dict[str, Any],
) -> None:
    book = book_of_start(document)
    assert list(book.graph.order) == book.order


@MANY
@given(graph_documents())
def test_failure_policies_and_losers_are_those_of_the_specification(
    document: dict[str, Any],
) -> None:
    book = book_of_start(document)
    graph = book.graph
    assert {name: policy.value for name, policy in graph.failure_policy.items()} == {
        name: book.policy(name) for name in graph.node_ids
    }
    assert dict(graph.losers_of) == {
        join: tuple(name for name in book.order if book.pdom(name, join)) for join in graph.joins
    }
