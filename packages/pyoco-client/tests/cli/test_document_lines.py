import json

import pytest

from pyoco_client.cli.document_lines import lines_of

YAML = """\
title: Order
nodes:
  - {id: start, type: Start}
  - id: fetch
    type: Task
    retry:
      maxAttempts: 99
  - {id: done, type: Success}
edges:
  - {from: start, to: fetch}
  - from: fetch
    to: done
"""


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("title", 1),
        ("nodes", 2),
        ("nodes[0]", 3),
        ("nodes[1]", 4),
        ("nodes[1].retry.maxAttempts", 7),
        ("nodes[2].type", 8),
        ("edges[1].to", 12),
        # What is missing has the line of the value around it.
        ("nodes[1].timeoutSec", 4),
        ("nodes[1].retry.backoff.factor", 6),
        ("nodes[9]", 2),
        ("title.more", 1),
        # The whole document, and what is not in it, has no line.
        ("document", None),
        ("", None),
        ("nothing[0]", None),
    ],
)
def test_a_problem_has_the_line_of_its_value(where: str, line: int | None) -> None:
    lines = lines_of(YAML)
    assert lines is not None
    assert lines.line_of(where) == line


def test_json_has_lines_too() -> None:
    text = json.dumps({"nodes": [{"id": "a"}, {"id": "b"}]}, indent=2)
    lines = lines_of(text)
    assert lines is not None
    assert lines.line_of("nodes[1].id") == 7


@pytest.mark.parametrize("text", ["a: [", "", "\t- x: 1\n a", "[" * 100_000])
def test_a_text_that_is_not_yaml_has_no_lines(text: str) -> None:
    assert lines_of(text) is None
