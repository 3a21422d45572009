"""The parameters of requests for graphs: which texts are accepted."""

import pytest
from starlette.requests import Request

from pyoco_gateway.graphs.requests import (
    PageQuery,
    expected_version,
    graph_page_query,
    valid_graph_id,
    version_number,
    version_page_query,
)
from pyoco_protocol.problems import InvalidRequestError


def asked(query: str = "", *if_match: str) -> Request:
    return Request(
        {
            "type": "http",
            "query_string": query.encode(),
            "headers": [(b"if-match", each.encode()) for each in if_match],
        }
    )


@pytest.mark.parametrize(
    ("header", "version"),
    [("0", 0), ("1", 1), ('"1"', 1), (" 12 ", 12), ('"0"', 0), ("9" * 15, 10**15 - 1)],
)
def test_if_match_is_a_number_with_or_without_quotes(header: str, version: int) -> None:
    assert expected_version(asked("", header)) == version


def test_without_if_match_any_version_will_do() -> None:
    assert expected_version(asked()) is None


@pytest.mark.parametrize(
    "headers",
    [
        *(("",), ("*",), ("x",), ("-1",), ("01",), ("1.0",), ('W/"1"',), ('"1',), ("1, 2",)),
        *(('"1", "2"',), ("9" * 16,), ("١",), ("1", "1")),
    ],
)
def test_if_match_is_one_number_and_nothing_else(headers: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        expected_version(asked("", *headers))


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("42", 42), ("9" * 15, 10**15 - 1)])
def test_the_number_of_a_version_is_written_without_zeros_in_front(text: str, number: int) -> None:
    assert version_number(text) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "01", "1.0", "x", "1 ", "9" * 16, "١", "1\n"])
def test_another_text_is_the_number_of_no_version(text: str) -> None:
    assert version_number(text) is None


@pytest.mark.parametrize("graph_id", ["a", "0", "A-b_9", "a" * 64])
def test_an_id_has_up_to_64_letters_digits_and_signs(graph_id: str) -> None:
    assert valid_graph_id(graph_id) == graph_id


@pytest.mark.parametrize(
    "graph_id", ["", "-a", "_a", "a.b", "a*", ">", "a b", "ä", "a" * 65, "a\n", "a/b"]
)
def test_another_text_is_no_id(graph_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        valid_graph_id(graph_id)


def test_a_page_has_50_items_unless_the_query_says_otherwise() -> None:
    assert graph_page_query(asked()) == PageQuery(None, 50)
    assert graph_page_query(asked("limit=1")) == PageQuery(None, 1)
    assert graph_page_query(asked("limit=200&cursor=a-b")) == PageQuery("a-b", 200)
    assert version_page_query(asked("cursor=17")) == PageQuery("17", 50)


@pytest.mark.parametrize("limit", ["0", "201", "-1", "x", "1.5", "", "9" * 400])
def test_a_page_has_1_to_200_items(limit: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        graph_page_query(asked(f"limit={limit}"))
    assert [where for where, _ in refused.value.faults] == ["limit"]


@pytest.mark.parametrize("query", ["limit=1&limit=1", "cursor=a&cursor=b"])
def test_a_parameter_is_given_once(query: str) -> None:
    with pytest.raises(InvalidRequestError, match="more than once"):
        graph_page_query(asked(query))


@pytest.mark.parametrize("cursor", ["", "-", "a%20b", "*", "a" * 65])
def test_the_cursor_of_graphs_is_an_id(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        graph_page_query(asked(f"cursor={cursor}"))


@pytest.mark.parametrize("cursor", ["", "0", "a", "-1", "01", "9" * 16])
def test_the_cursor_of_versions_is_a_number(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        version_page_query(asked(f"cursor={cursor}"))
