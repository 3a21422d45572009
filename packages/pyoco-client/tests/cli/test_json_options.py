import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.json_options import json_object_option

EXAMPLE = "pyoco-client some --input a=1"


def parsed(*values: str) -> Any:
    @click.command()
    @json_object_option("input", "The input", EXAMPLE)
    def command(input: Any) -> Any:  # noqa: A002 - the name of the option
        return input

    arguments = [word for value in values for word in ("--input", value)]
    return command.main(arguments, standalone_mode=False)


def test_without_the_option_there_is_no_object() -> None:
    assert parsed() is None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (['{"a": 1}'], {"a": 1}),
        ([' {"a": "b=c"}'], {"a": "b=c"}),
        (["a=1"], {"a": 1}),
        (["a=one"], {"a": "one"}),
        (["a=b=c"], {"a": "b=c"}),
        (["{}"], {}),
        (['{"a": 1, "b": 1}', "b=2", "c=[3]"], {"a": 1, "b": 2, "c": [3]}),
    ],
)
def test_an_object_is_json_or_pairs_and_the_last_one_wins(
    values: list[str], found: dict[str, Any]
) -> None:
    assert parsed(*values) == found


def test_an_object_can_be_in_a_file_or_on_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "input.yaml"
    path.write_text("name: 世界\nlines: 2\n", encoding="utf-8")
    assert parsed(f"@{path}", "lines=3") == {"name": "世界", "lines": 3}
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps({"a": 1}).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert parsed("@-") == {"a": 1}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{'a': 1}", "use double quotes"),
        ("[1]", "must be an object"),
        ("order.json", "is neither a JSON object nor KEY=VALUE; write @FILE to read a file"),
        ("=1", "is not of the form key=value"),
        ("@absent.json", "--input @absent.json cannot be read: No such file or directory"),
    ],
)
def test_a_value_that_is_no_object_is_explained(value: str, problem: str) -> None:
    with pytest.raises(BadArgumentError) as caught:
        parsed(value)
    assert "--input" in caught.value.message
    assert problem in caught.value.message
    assert caught.value.example == EXAMPLE
