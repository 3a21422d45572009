import io
import json
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.cli.params import ParamsOptions


def test_no_options_give_no_params() -> None:
    assert ParamsOptions(None, None, []).merged() == {}


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
def test_the_value_of_a_pair_is_json_if_it_parses_and_text_otherwise(
    text: str, value: object
) -> None:
    assert ParamsOptions(None, None, [f"key={text}"]).merged() == {"key": value}


@pytest.mark.parametrize("name", ["params.yaml", "params.YML", "params", "params.json", "p.txt"])
@pytest.mark.parametrize(
    "text",
    [
        "name: 世界\nlist: [1, two]\n",
        "{name: 世界, list: [1, two]}",
        '{"name": "世界", "list": [1, "two"]}',
        "# a comment\nbase: &base [1, two]\nname: 世界\nlist: *base\n",
    ],
)
def test_a_params_file_is_json_or_yaml_whatever_its_name(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    params = ParamsOptions(file, None, []).merged()
    assert (params["name"], params["list"]) == ("世界", [1, "two"])


def test_yaml_scalars_have_the_values_that_they_have_in_a_workflow_file(tmp_path: Path) -> None:
    file = tmp_path / "params"
    file.write_text("a: 0o17\nb: ~\nc: 1e3\nd: '2026-01-31'\ne: !!str 5\nf: True\ng: NaN\n")
    assert ParamsOptions(file, None, []).merged() == {
        "a": 15,
        "b": None,
        "c": 1000.0,
        "d": "2026-01-31",
        "e": "5",
        "f": True,
        "g": "NaN",
    }


@pytest.mark.parametrize("text", ['{"name": "世界"}', "name: 世界\n", "\ufeffname: 世界\n"])
def test_stdin_may_be_json_or_yaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert ParamsOptions(Path("-"), None, []).merged() == {"name": "世界"}


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("p.json", b"[1]", "object"),
        ("p.json", b'{"a": NaN}', "NaN"),
        ("p.json", b'{"a": 1e999}', "range"),
        ("p.json", rb'{"a": "\ud800"}', "half of a character"),
        ("p.json", b"\xff", "cannot be read"),
        ("p.yaml", b"a: 2026-01-31", "quote"),
        ("p.yaml", b"a: 1\nb: yes", "line 2, column 4"),
        ("p.yaml", b"a: .nan", "quote"),
        ("p", b"a: 1\nb: [", "line 2"),
        ("p", b"just text", "object"),
        ("p", b"a: !!timestamp 2026-01-31", "quote"),
        # A file that begins like JSON and is neither gets the explanation of the JSON error.
        ("p", b'{"a": 1\n "b": 2}', "line 2, column 2"),
        ("p.json", b'{"a": [1, 2}', "JSON"),
        ("p.yaml", b"1: a", "quote"),
        ("p.yaml", b"a: [", "YAML"),
        ("p.yaml", b"", "object"),
        ("p.yaml", b"a: !!python/object/apply:os.getcwd []", "YAML"),
    ],
)
def test_a_file_without_params_is_rejected_with_its_name(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(click.UsageError, match=what) as caught:
        ParamsOptions(file, None, []).merged()
    assert name in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False).map(float),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
).filter(lambda value: "Infinity" not in json.dumps(value))


@given(st.dictionaries(st.text(), json_values))
def test_any_json_object_is_parsed_unchanged(params: dict[str, object]) -> None:
    assert ParamsOptions(None, json.dumps(params), []).merged() == params


@given(st.text(min_size=1).filter(lambda name: "=" not in name), json_values)
def test_any_json_value_of_a_pair_is_parsed_unchanged(name: str, value: object) -> None:
    assert ParamsOptions(None, None, [f"{name}={json.dumps(value)}"]).merged() == {name: value}
