import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_protocol.workflows import scan as scanning
from pyoco_protocol.workflows.problems import MAX_PROBLEMS, WorkflowInvalidError
from pyoco_protocol.workflows.scan import MAX_DEPTH, MAX_NODES, MappingNode, plain, scan

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(
            st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=10),
            values,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def faults(data: bytes | str) -> list[tuple[str, int | None]]:
    """Return code and line of each problem."""
    with pytest.raises(WorkflowInvalidError) as refused:
        scan(data)
    return [(problem.code, problem.line) for problem in refused.value.problems]


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the C parser and with the Python parser."""
    if request.param == "in Python":
        monkeypatch.setitem(sys.modules, "yaml._yaml", None)


def test_values_have_their_lines() -> None:
    root = scan("a: 1\nb:\n  - x\n  - {c: 'yes'}\n")
    assert plain(root) == {"a": 1, "b": ["x", {"c": "yes"}]}
    assert isinstance(root, MappingNode)
    assert {key: (entry.line, entry.value.line) for key, entry in root.entries.items()} == {
        "a": (1, 1),
        "b": (2, 3),
    }


def test_quoted_scalars_are_text() -> None:
    root = scan("a: '1'\nb: \"null\"\nc: |\n  2020-01-01\n'1': x\n")
    assert plain(root) == {"a": "1", "b": "null", "c": "2020-01-01\n", "1": "x"}


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", "\ufeff"])
def test_a_byte_order_mark_is_skipped(mark: bytes | str) -> None:
    text = mark + b"a: 1" if isinstance(mark, bytes) else mark + "a: 1"
    assert plain(scan(text)) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: &x 1", "yaml.anchor", 1),
        ("a: 1\nb: &x [1]", "yaml.anchor", 2),
        ("a: 1\nb: !!python/object/apply:os.system [id]", "yaml.tag", 2),
        ("a: !<tag:yaml.org,2002:int> '1'", "yaml.tag", 1),
        ("a: ! x", "yaml.tag", 1),
        ("a: 1\n<<: {b: 2}", "yaml.merge_key", 2),
        ("a: 1\nb: 2\na: 3", "yaml.duplicate_key", 3),
        ("a: {b: 1, b: 2}", "yaml.duplicate_key", 1),
        ("a:\n  b: 12:30:45", "yaml.scalar", 2),
        ("a: .inf", "yaml.scalar", 1),
        ("1: x", "yaml.key", 1),
        ("yes: x", "yaml.key", 1),
        ("? \n: x", "yaml.key", 1),
        ("? [a]\n: 1", "yaml.key", 1),
        ("? {a: b}\n: 1", "yaml.key", 1),
        ("? |\n  " + "k" * 600 + "\n: 1", "yaml.key", 1),
        ("a: 1\n---\nb: 2", "yaml.documents", 2),
        ("%YAML 1.1\n---\na: 1", "yaml.directive", 1),
        ("%TAG ! tag:x,2000:\n---\na: 1", "yaml.directive", 1),
        ("", "yaml.empty", None),
        ("# nothing", "yaml.empty", None),
        ("a: [1, 2", "yaml.syntax", None),
        ("a:\n\t- b", "yaml.syntax", 2),
        ("a: \x01", "yaml.syntax", None),
        ("a: 1\nb: \0", "yaml.encoding", 2),
        (b"a: 1\nb: \xff", "yaml.encoding", 2),
        ("a: 1\n".encode("utf-16"), "yaml.encoding", 1),
        ("a: \ud800", "yaml.encoding", 1),
        ("[" * 100_000, "yaml.too_deep", 1),
        ("{a: " * 1_000, "yaml.too_deep", 1),
        ("- " * 1_000, "yaml.too_deep", 1),
        ("[" + "1," * (MAX_NODES + 1) + "]", "yaml.too_many", 1),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_refused_construct_is_reported_with_its_line(
    text: bytes | str, code: str, line: int | None
) -> None:
    found = faults(text)
    assert found[0][0] == code
    assert line is None or found[0][1] == line


def test_nested_aliases_are_refused_without_being_expanded() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    assert {code for code, _ in faults(bomb)} == {"yaml.anchor", "yaml.alias"}


def test_all_problems_of_a_well_formed_file_are_reported_at_once() -> None:
    text = "a: &x 1\nb: *x\nc: !!str d\n<<: {}\na: 2\ne: yes\n"
    assert [code for code, _ in faults(text)] == [
        "yaml.anchor",
        "yaml.alias",
        "yaml.tag",
        "yaml.merge_key",
        "yaml.duplicate_key",
        "yaml.scalar",
    ]


def test_the_number_of_reported_problems_is_limited() -> None:
    assert len(faults("[" + "yes," * 1_000 + "]")) == MAX_PROBLEMS


def test_files_at_the_limits_are_accepted() -> None:
    assert plain(scan("[" * MAX_DEPTH + "]" * MAX_DEPTH)) is not None
    listed = plain(scan("[" + "1," * (MAX_NODES - 1) + "]"))
    assert isinstance(listed, list)
    assert len(listed) == MAX_NODES - 1


def test_a_scan_that_takes_too_long_is_refused() -> None:
    clock = iter([0.0, scanning.MAX_SCAN_SEC + 1])
    with pytest.raises(WorkflowInvalidError, match="took more than"):
        scan("a: 1", clock=lambda: next(clock))


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_input_gives_a_tree_or_a_problem(data: bytes | str) -> None:
    _check_tree_or_problem(data)


YAML_WORDS = st.sampled_from(
    [
        *("[", "]", "{", "}", ",", ":", "-", "?", "&a", "*a", "!!int", "!x", "<<", "|", ">", "'"),
        *('"', "#", "%YAML 1.2", "---", "...", "\n", "\n  ", " ", "\t", "a", "1", "0x1", "1:2"),
        *("2020-01-01", ".nan", "\\x", "~", "@", "`", "\u2028", "\u0085", "\ufeff", "é"),
    ]
)


@settings(max_examples=500)
@given(st.lists(YAML_WORDS, max_size=40).map("".join))
def test_any_yaml_like_text_gives_a_tree_or_a_problem(text: str) -> None:
    _check_tree_or_problem(text)


def _check_tree_or_problem(data: bytes | str) -> None:
    try:
        value = plain(scan(data))
    except WorkflowInvalidError:
        return
    json.dumps(value, allow_nan=False)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), JSON_VALUES, max_size=5))
def test_json_is_read_with_its_values(value: dict[str, Any]) -> None:
    assert plain(scan(json.dumps(value, ensure_ascii=False))) == value
