"""Which paths are those of executions and graphs."""

import pytest

from pyoco_gateway.http.execution_paths import is_execution_path, path_in_target


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/executions", True),
        ("/executions/", True),
        ("/executions/c0de/nodes/a/start", True),
        ("/graphs", True),
        ("/graphs/validate", True),
        ("/waits", True),
        ("/waits/none", True),
        ("/ready-tasks", True),
        ("/executionsX", False),
        ("/executions-old", False),
        ("/executions\n", False),
        ("/Executions", False),
        ("//executions", False),
        ("/runs/executions", False),
        ("/graph", False),
        ("/ready", False),
        ("/", False),
        ("", False),
        ("executions", False),
        ("xexecutions", False),
    ],
)
def test_the_first_segment_of_a_path_decides_exactly(path: str, is_one: bool) -> None:
    assert is_execution_path(path) is is_one


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/executions?limit=1", "/executions"),
        (b"/%65xecutions/a%20b", "/executions/a b"),
        (b"http://host:1/graphs/x?y=/runs", "/graphs/x"),
        (b"http://host?x=/graphs", ""),
        (b"/waits#x", "/waits"),
        (b"*", ""),
        (b"", ""),
        (b"/\xff", "/ÿ"),
    ],
)
def test_the_path_of_a_target_is_decoded_and_without_its_query(target: bytes, path: str) -> None:
    assert path_in_target(target) == path
