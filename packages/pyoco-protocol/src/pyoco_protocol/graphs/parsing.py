"""Parses graph documents in JSON and YAML; duplicate keys and NaN are refused."""

import json
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.graphs.problems import GraphInvalidError, GraphProblem

MAX_DEPTH: Final = 64
# Enough for 1,000 nodes and 2,000 edges with all of their fields.
_MAX_YAML_VALUES: Final = 100_000


def parse_json(data: bytes) -> JsonValue:
    """Return the value of a JSON text; raise GraphInvalidError."""
    try:
        value: JsonValue = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refused_constant,
            parse_int=_integer,
        )
    except RecursionError:
        raise _invalid(f"is nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError:
        raise _invalid("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _invalid(
            f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise _invalid(f"is not JSON: {error}") from None
    return value


def parse_yaml(data: bytes) -> JsonValue:
    """Return the value of a YAML text; raise GraphInvalidError. Needs the extra `workflows`."""
    from pyoco_protocol.workflows.problems import WorkflowInvalidError
    from pyoco_protocol.workflows.scan import plain, scan

    try:
        return plain(scan(data, max_nodes=_MAX_YAML_VALUES))
    except WorkflowInvalidError as error:
        raise GraphInvalidError(
            GraphProblem(
                code="FIELD_INVALID",
                where="document",
                message=(f"line {problem.line}: " if problem.line is not None else "")
                + problem.what,
            )
            for problem in error.problems
        ) from None


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} occurs twice in one object")
        found[key] = value
    return found


def _refused_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        # The words of Python name a function to call.
        raise ValueError(f"an integer has {len(text)} characters, which is too many") from None


def _invalid(message: str) -> GraphInvalidError:
    return GraphInvalidError(
        [GraphProblem(code="FIELD_INVALID", where="document", message=message)]
    )
