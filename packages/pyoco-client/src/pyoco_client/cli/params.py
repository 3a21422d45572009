"""The options that give the params of a run, and how they are merged."""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from pyoco_client.cli.arguments import BadArgumentError, cannot_read, with_options
from pyoco_client.cli.json_faults import explained

_FILE_EXAMPLE: Final = "pyoco-client submit --flow-name hello --params-file params.json"
_TEXT_EXAMPLE: Final = """pyoco-client submit --flow-name hello --params '{"name": "world"}'"""
_PAIR_EXAMPLE: Final = "pyoco-client submit --flow-name hello --param name=world --param count=3"


@dataclass(frozen=True, slots=True)
class ParamsOptions:
    """The params of a run as the command line gives them."""

    file: Path | None
    text: str | None
    pairs: Sequence[str]

    def merged(self) -> dict[str, Any]:
        """Return the params: those of the file, then `--params`, then each `--param`.

        The later one wins, key by key at the top level.
        """
        merged: dict[str, Any] = {}
        if self.file is not None:
            merged |= object_in_file(self.file, f"--params-file {self.file}", _FILE_EXAMPLE)
        if self.text is not None:
            merged |= object_in_text(self.text, "--params", _TEXT_EXAMPLE)
        for pair in self.pairs:
            merged |= object_of_pair(pair, "--param", _PAIR_EXAMPLE)
        return merged


def params_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the three options for params to a command; the command gets them as `params`."""

    @functools.wraps(command)
    def with_params(
        *args: Any,
        params_file: Path | None,
        params: str | None,
        pairs: tuple[str, ...],
        **options: Any,
    ) -> int:
        return command(*args, params=ParamsOptions(params_file, params, pairs), **options)

    return with_options(
        with_params,
        click.option(
            "--params-file",
            type=click.Path(path_type=Path),
            help="File with a JSON or YAML object, whatever its name; - is stdin.",
        ),
        click.option("--params", help="Params as a JSON object; wins over --params-file."),
        click.option(
            "--param",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="One param, repeatable; JSON if it parses, text otherwise. The last one wins.",
        ),
    )


def object_in_file(path: Path, option: str, example: str) -> dict[str, Any]:
    """Return the JSON or YAML object in a file, or on stdin for `-`."""
    try:
        if str(path) == "-":
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        else:
            text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgumentError(cannot_read(option, error), example) from error
    try:
        return _json_object(_json_or_yaml(text))
    except ValueError as error:
        raise BadArgumentError(f"{option}: {error}", example) from error


def object_in_text(text: str, option: str, example: str) -> dict[str, Any]:
    """Return the JSON object in a text."""
    try:
        return _json_object(_json(text))
    except ValueError as error:
        raise BadArgumentError(f"{option}: {error}", example) from error


def object_of_pair(pair: str, option: str, example: str) -> dict[str, Any]:
    """Return the object of one `key=value`; the value is JSON if it parses, text otherwise."""
    name, separator, text = pair.partition("=")
    if not separator or not name:
        raise BadArgumentError(f"{option} {pair!r} is not of the form key=value", example)
    try:
        value = _json_value(_json(text))
    except ValueError:
        # A value that is not JSON is text, so that a word needs no second pair of quotes.
        value = text
    return {name: value}


class _JsonSyntaxError(ValueError):
    """The text is not JSON; it may be YAML."""


def _json_or_yaml(text: str) -> Any:
    try:
        return _json(text)
    except _JsonSyntaxError as error:
        if not text.strip():
            raise
        no_json = error
    from pyoco_client.cli.yaml_values import YamlSyntaxError, yaml_value

    try:
        return yaml_value(text)
    except YamlSyntaxError as error:
        # A text that is neither is explained as what it begins like.
        raise (no_json if text.lstrip().startswith(("{", "[")) else error) from None


def _json(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON; leave it out or put it into double quotes")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise _JsonSyntaxError(f"is not JSON: {explained(text, error)}") from error
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _json_value(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half of a character: {error.object[error.start]!r}") from error
    except TypeError as error:
        # YAML reads 2026-01-31 as a date.
        raise ValueError(f"holds a value that JSON does not have ({error}); quote it") from error
    return value


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError('must be an object of names and values, such as {"name": "world"}')
    if wrong := [key for key in value if not isinstance(key, str)]:
        raise ValueError(f"the key {wrong[0]!r} is not text; quote it")
    checked: dict[str, Any] = _json_value(value)
    return checked
