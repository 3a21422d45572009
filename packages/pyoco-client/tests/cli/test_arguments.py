import io
import json
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.cli.arguments import merged_params


def test_the_later_place_wins(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"a": 1, "b": 1, "c": 1}')
    merged = merged_params(file, '{"b": 2, "c": 2}', ["c=3", "d=4", "d=5"])
    assert merged == {"a": 1, "b": 2, "c": 3, "d": 5}


def test_nothing_given_is_no_params() -> None:
    assert merged_params(None, None, []) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        ('"3"', "3"),
        ("world", "world"),
        ("", ""),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        (r'"\ud800"', r'"\ud800"'),
        ("1e999", "1e999"),
        ("{oops", "{oops"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_pair_is_json_where_it_parses_and_text_otherwise(text: str, value: object) -> None:
    assert merged_params(None, None, [f"key={text}"]) == {"key": value}


@pytest.mark.parametrize("name", ["params.yaml", "params.YML"])
def test_a_yaml_file_is_read_as_yaml(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("name: 世界\nlist: [1, two]\n", encoding="utf-8")
    assert merged_params(file, None, []) == {"name": "世界", "list": [1, "two"]}


@pytest.mark.parametrize("text", ['{"name": "世界"}', "name: 世界\n", "\ufeffname: 世界\n"])
def test_stdin_may_hold_either(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert merged_params(Path("-"), None, []) == {"name": "世界"}


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("p.json", b"[1]", "object"),
        ("p.json", b'{"a": NaN}', "NaN"),
        ("p.json", b'{"a": 1e999}', "range"),
        ("p.json", rb'{"a": "\ud800"}', "half of a character"),
        ("p.json", b"\xff", "cannot be read"),
        ("p.yaml", b"a: 2026-01-31", "quote"),
        ("p.yaml", b"1: a", "quote"),
        ("p.yaml", b"a: [", "YAML"),
        ("p.yaml", b"", "object"),
        ("p.yaml", b"a: !!python/object/apply:os.getcwd []", "YAML"),
    ],
)
def test_a_file_that_holds_no_params_is_refused_by_its_name(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(click.UsageError, match=what) as caught:
        merged_params(file, None, [])
    assert name in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False).map(float),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
).filter(lambda value: "Infinity" not in json.dumps(value))


@given(st.dictionaries(st.text(), json_values))
def test_any_json_object_arrives_as_it_was_written(params: dict[str, object]) -> None:
    assert merged_params(None, json.dumps(params), []) == params


@given(st.text(min_size=1).filter(lambda name: "=" not in name), json_values)
def test_any_json_value_arrives_through_a_pair(name: str, value: object) -> None:
    assert merged_params(None, None, [f"{name}={json.dumps(value)}"]) == {name: value}
