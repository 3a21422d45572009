import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyoco_client import execution_calls as calls
from pyoco_client.http_call import Call
from pyoco_client.retry_rules import Repeat

DOCUMENT = {"nodes": [{"id": "start", "type": "Start"}], "edges": []}
YAML = "nodes:\n  - {id: start, type: Start}\nedges: []\n"


def created(**options: object) -> Call:
    fields = {"graph_version": None, "input": None, "labels": None, "start": True}
    return calls.creation("g", **{**fields, "idempotency_key": None, **options})  # type: ignore[arg-type] # the values fit their names


def test_each_command_has_its_own_idempotency_key_and_is_repeated() -> None:
    made = [
        created(),
        created(),
        calls.execution_command("x", "start", {}, None),
        calls.node_command("x", "n", "start", {}, None),
    ]
    assert {call.repeat for call in made} == {Repeat.ALWAYS}
    assert len({call.headers["X-Idempotency-Key"] for call in made}) == len(made)
    assert created(idempotency_key="k").headers["X-Idempotency-Key"] == "k"


@pytest.mark.parametrize("key", ["", "x" * 256, "line\nbreak", "鍵"])
def test_an_idempotency_key_that_a_header_cannot_carry_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        created(idempotency_key=key)


def test_a_body_has_camel_case_names_and_only_the_given_fields() -> None:
    call = created(graph_version=2, labels=("a", "b"), input={"order_id": None})
    assert json.loads(call.content or b"") == {
        "graphId": "g",
        "graphVersion": 2,
        "input": {"order_id": None},
        "labels": ["a", "b"],
        "start": True,
    }
    assert calls.node_command("x", "n", "success", {"worker_id": None}, None).content == b"{}"


def test_a_text_is_one_label() -> None:
    assert json.loads(created(labels="vip").content or b"")["labels"] == ["vip"]
    assert ("label", "vip") in calls.executions({"label": "vip"}).query


def test_the_request_for_a_cancel_waits_longer_than_others() -> None:
    assert calls.execution_command("x", "cancel", {}, None).min_timeout_sec > 20
    assert calls.execution_command("x", "start", {}, None).min_timeout_sec == 0


def test_a_request_that_waits_gets_time_for_its_wait() -> None:
    assert calls.execution("x", min_seq=3, wait_sec=30).min_timeout_sec > 30
    assert calls.ready_tasks(None, wait_sec=30).min_timeout_sec > 30
    assert calls.ready_tasks(None).min_timeout_sec == 0


@pytest.mark.parametrize(
    "make",
    [
        calls.execution,
        lambda odd: calls.node_command("x", odd, "start", {}, None),
        lambda odd: calls.graph(odd, None),
    ],
)
@pytest.mark.parametrize("odd", ["", ".", ".."])
def test_an_id_that_would_change_the_path_is_rejected(
    make: Callable[[str], Call], odd: str
) -> None:
    with pytest.raises(ValueError, match=r"is not a valid \w+ id"):
        make(odd)


def test_ids_are_quoted_in_a_path() -> None:
    assert calls.node_command("x", "a/b?", "start", {}, None).path == (
        "/executions/x/nodes/a%2Fb%3F/start"
    )


def test_a_query_has_the_names_of_the_gateway() -> None:
    call = calls.executions(
        {
            "status": ["ACTIVE", "FAILED"],
            "graph_id": "g",
            "cancel_requested": True,
            "archived": "any",
            "created_after": datetime(2026, 11, 18, 3, 15, 27, 123_999, UTC),
            "created_before": "2026-11-19T00:00:00.000Z",
        },
        limit=5,
        order="created",
    )
    assert call.query == (
        ("status", "ACTIVE"),
        ("status", "FAILED"),
        ("graphId", "g"),
        ("cancelRequested", "true"),
        ("archived", "any"),
        ("createdAfter", "2026-11-18T03:15:27.123Z"),
        ("createdBefore", "2026-11-19T00:00:00.000Z"),
        ("limit", "5"),
        ("order", "created"),
    )
    assert calls.execution("x", at_seq=3, include_values=True).query == (
        ("atSeq", "3"),
        ("include", "values"),
    )


def test_a_time_without_a_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="time zone"):
        calls.executions({"created_after": datetime(2026, 11, 18)})  # noqa: DTZ001 - the error under test


def test_an_unknown_filter_is_rejected_like_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stauts'"):
        calls.executions({"stauts": "FAILED"})  # type: ignore[typeddict-unknown-key] # the typing error under test
    with pytest.raises(TypeError, match="unexpected keyword argument 'tag'"):
        calls.waits({"tag": "x"}, limit=None, cursor=None)  # type: ignore[typeddict-unknown-key] # the typing error under test


def test_a_graph_can_be_a_mapping_text_bytes_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "order.yaml"
    path.write_text(YAML, encoding="utf-8")
    for source in (YAML, YAML.encode(), path, str(path)):
        assert calls.graph_content(source) == (YAML.encode(), "application/yaml")
    content, media_type = calls.graph_content(DOCUMENT)
    assert (json.loads(content), media_type) == (DOCUMENT, "application/json")
    # With tabs this is JSON, but not YAML.
    tabbed = json.dumps(DOCUMENT, indent="\t")
    assert calls.graph_content(tabbed) == (tabbed.encode(), "application/json")


def test_a_graph_with_an_expected_version_is_stored_once() -> None:
    assert calls.graph_put("g", YAML, None).repeat is Repeat.ALWAYS
    assert "If-Match" not in calls.graph_put("g", YAML, None).headers
    expecting = calls.graph_put("g", YAML, 0)
    assert (expecting.repeat, expecting.headers["If-Match"]) == (Repeat.IF_UNSENT, "0")
