"""Commands: their fields, the limits of each field, and what is refused."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from pyoco_protocol.executions.commands import (
    COMMAND_CLASSES,
    AnyCommand,
    Command,
)

UNION: TypeAdapter[AnyCommand] = TypeAdapter(Command)
NODE: dict[str, Any] = {"nodeId": "fetch"}
GRAPH: dict[str, Any] = {"graphId": "order-intake"}
ATTEMPT_AND_WORKER = {"attempt", "workerId"}

# The fields of each command, as clients write them.
FIELDS: dict[str, set[str]] = {
    "CreateExecution": {"graphId", "graphVersion", "input", "labels", "start"},
    "StartExecution": set(),
    "CancelExecution": {"reason"},
    "ArchiveExecution": {"reason"},
    "MarkNodeReady": {"nodeId"},
    "StartNode": {"nodeId", *ATTEMPT_AND_WORKER},
    "ReportNodeProgress": {"nodeId", "progress", "message", "metrics", *ATTEMPT_AND_WORKER},
    "PutNodeWaiting": {"nodeId", "waitKey", "prompt", "timeoutSec", *ATTEMPT_AND_WORKER},
    "RequestResumeNode": {"nodeId", "resumeKey", "comment", "payload"},
    "ResumeNode": {"nodeId", "resumeKey", "payload"},
    "SucceedNode": {"nodeId", "output", *ATTEMPT_AND_WORKER},
    "FailNode": {"nodeId", "error", "retryable", *ATTEMPT_AND_WORKER},
}
OF_WORK = ("StartNode", "ReportNodeProgress", "PutNodeWaiting", "SucceedNode", "FailNode")


def needed(name: str) -> dict[str, Any]:
    """Return the members without which a command is refused."""
    return {**(GRAPH if name == "CreateExecution" else NODE if "Node" in name else {})}


def command(name: str, **members: Any) -> AnyCommand:
    return UNION.validate_python({"name": name, **needed(name), **members})


# Command, field, values that are accepted, values that are refused.
LIMITS: list[tuple[str, str, list[Any], list[Any]]] = [
    (
        "CreateExecution",
        "graphId",
        ["g", "9", "g" * 64, "order-intake_2"],
        ["", "g" * 65, "-g", "_g", "a b", "a.b", "ä", "g\n", 1, None],
    ),
    ("CreateExecution", "graphVersion", [None, 1, 1.0, 10**9], [0, -1, True, 1.5, "1", []]),
    ("CreateExecution", "input", [None, {}, {"a": [None]}], [[], "{}", 1, True]),
    (
        "CreateExecution",
        "labels",
        [None, [], ["x"], ["x" * 64], [str(i) for i in range(10)]],
        [[""], ["x" * 65], [str(i) for i in range(11)], [1], [None], "x", {"x": 1}],
    ),
    ("CreateExecution", "start", [True, False], [1, 0, "true", None, "yes"]),
    ("CancelExecution", "reason", [None, "", "x" * 1000], ["x" * 1001, 1, True, ["x"]]),
    ("ArchiveExecution", "reason", [None, "", "x" * 1000], ["x" * 1001, 1, True, ["x"]]),
    *((name, "attempt", [None, 1, 1.0, 20], [0, -1, 1.5, True, "1"]) for name in OF_WORK),
    *((name, "workerId", [None, "w", "w" * 128], ["", "w" * 129, 1, True]) for name in OF_WORK),
    (
        "ReportNodeProgress",
        "progress",
        [None, 0, 100, 0.5, 99.99],
        [-0.01, 100.01, -1, 101, True, "5", float("nan"), float("inf")],
    ),
    ("ReportNodeProgress", "message", [None, "", "x" * 500], ["x" * 501, 1]),
    ("ReportNodeProgress", "metrics", [None, {}, {"rows": None}], [[], "{}", 1]),
    ("PutNodeWaiting", "waitKey", [None, "", "k" * 200], ["k" * 201, 1]),
    ("PutNodeWaiting", "prompt", [None, {}, {"text": None}], [[], "{}", 1]),
    (
        "PutNodeWaiting",
        "timeoutSec",
        [None, 1, 1.5, 31_536_000],
        [0, 0.999, 31_536_000.001, 31_536_001, -1, True, "60", float("nan"), float("inf")],
    ),
    ("RequestResumeNode", "resumeKey", [None, "", "k" * 200], ["k" * 201, 1]),
    ("RequestResumeNode", "comment", [None, "", "x" * 1000], ["x" * 1001, 1]),
    ("RequestResumeNode", "payload", [None, {}, {"a": None}], [[], "{}", 1]),
    ("ResumeNode", "resumeKey", [None, "", "k" * 200], ["k" * 201, 1]),
    ("ResumeNode", "payload", [None, {}, {"a": None}], [[], "{}", 1]),
    ("SucceedNode", "output", [None, {}, {"a": None}], [[], "{}", 1]),
    ("FailNode", "retryable", [True, False], [1, 0, "false", None]),
    (
        "FailNode",
        "error",
        [
            None,
            {},
            {"code": "x" * 64},
            {"message": "x" * 2000},
            {"detail": {"a": [None]}},
            {"code": None, "message": None, "detail": None},
        ],
        [
            [],
            "broken",
            {"code": "x" * 65},
            {"code": 1},
            {"message": "x" * 2001},
            {"message": 1},
            {"detail": []},
            {"detail": "x"},
            {"trace": "x"},
        ],
    ),
]
CASES = [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in LIMITS]


def test_there_are_exactly_the_12_commands_of_the_specification() -> None:
    assert list(COMMAND_CLASSES) == list(FIELDS)
    assert len(COMMAND_CLASSES) == 12


@pytest.mark.parametrize("name", FIELDS)
def test_a_command_has_exactly_the_fields_of_the_specification(name: str) -> None:
    fields = COMMAND_CLASSES[name].model_fields
    aliases = {field.alias or key for key, field in fields.items() if key != "name"}
    assert aliases == FIELDS[name]


def test_the_limits_of_every_field_are_tested() -> None:
    tested = {(name, field) for name, field, _, _ in LIMITS}
    wanted = {(name, field) for name, fields in FIELDS.items() for field in fields}
    assert tested == {(name, field) for name, field in wanted if field != "nodeId"}


@pytest.mark.parametrize("name", FIELDS)
def test_a_command_is_a_member_of_the_union_by_its_name(name: str) -> None:
    assert type(command(name)) is COMMAND_CLASSES[name]
    assert command(name).name == name


@pytest.mark.parametrize("name", FIELDS)
def test_a_command_comes_back_from_its_json(name: str) -> None:
    for row in LIMITS:
        if row[0] == name:
            for value in row[2]:
                given = command(name, **{row[1]: value})
                assert UNION.validate_python(given.to_wire()) == given


@pytest.mark.parametrize(("name", "field", "accepted", "refused"), CASES)
def test_a_value_up_to_the_limit_is_accepted(
    name: str, field: str, accepted: list[Any], refused: list[Any]
) -> None:
    assert refused
    for value in accepted:
        found = command(name, **{field: value}).to_wire()
        expected = value
        if field == "error" and value is not None:
            expected = {key: each for key, each in value.items() if each is not None}
        assert found.get(field) == expected


@pytest.mark.parametrize(("name", "field", "accepted", "refused"), CASES)
def test_a_value_above_the_limit_or_of_another_type_is_refused(
    name: str, field: str, accepted: list[Any], refused: list[Any]
) -> None:
    assert accepted
    for value in refused:
        with pytest.raises(ValidationError):
            command(name, **{field: value})


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("field", ["unknown", "executionId", "tenantId", "actor"])
def test_an_unknown_field_is_refused(name: str, field: str) -> None:
    with pytest.raises(ValidationError, match="extra"):
        command(name, **{field: "x"})


@pytest.mark.parametrize("name", [name for name in FIELDS if needed(name)])
def test_a_command_without_its_node_or_graph_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="missing"):
        UNION.validate_python({"name": name})


@pytest.mark.parametrize("name", [None, "", "SleepNode", "startnode"])
def test_an_unknown_command_is_refused(name: str | None) -> None:
    with pytest.raises(ValidationError):
        UNION.validate_python({"name": name, **NODE})


def test_fields_that_are_left_out_have_their_defaults() -> None:
    assert command("CreateExecution").to_wire() == {
        "name": "CreateExecution",
        "graphId": "order-intake",
        "start": False,
    }
    assert command("FailNode").to_wire() == {
        "name": "FailNode",
        "nodeId": "fetch",
        "retryable": True,
    }
