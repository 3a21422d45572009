"""Arguments that are wrong and what to type instead; params, from wherever they are given."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

_YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})


class BadArgumentError(click.UsageError):
    """An argument is wrong; `example` is a command line that would have been right.

    Without one, the example of the command at hand is shown.
    """

    def __init__(self, message: str, example: str | None = None) -> None:
        super().__init__(message, click.get_current_context(silent=True))
        self.example = example


def merged_params(
    params_file: Path | None, params: str | None, pairs: Sequence[str]
) -> dict[str, Any]:
    """Return the params of a run: those of the file, then `--params`, then each `--param`.

    The later one wins, key by key at the top level.
    """
    merged: dict[str, Any] = {}
    if params_file is not None:
        merged |= _from_file(params_file)
    if params is not None:
        merged |= _from_text(params)
    for pair in pairs:
        merged |= _from_pair(pair)
    return merged


def _from_file(path: Path) -> dict[str, Any]:
    example = "pyoco-client submit --flow-name hello --params-file params.json"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgumentError(f"--params-file {path} cannot be read: {error}", example) from error
    try:
        value = _yaml(text) if path.suffix.lower() in _YAML_SUFFIXES else _json(text)
        return _json_object(value)
    except ValueError as error:
        raise BadArgumentError(f"--params-file {path}: {error}", example) from error


def _from_text(text: str) -> dict[str, Any]:
    try:
        return _json_object(_json(text))
    except ValueError as error:
        raise BadArgumentError(
            f"--params {text!r}: {error}",
            """pyoco-client submit --flow-name hello --params '{"name": "world"}'""",
        ) from error


def _from_pair(pair: str) -> dict[str, Any]:
    name, separator, text = pair.partition("=")
    if not separator or not name:
        raise BadArgumentError(
            f"--param {pair!r} is not of the form key=value",
            "pyoco-client submit --flow-name hello --param name=world --param count=3",
        )
    try:
        value = _json_value(_json(text))
    except ValueError:
        # What is not JSON is text, so that nobody has to quote a word twice.
        value = text
    return {name: value}


def _json(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from error


def _json_value(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except TypeError as error:
        # YAML makes a date of 2026-01-31.
        raise ValueError(f"holds a value that JSON does not know ({error}); quote it") from error
    return value


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be an object of names and values")
    if strangers := [key for key in value if not isinstance(key, str)]:
        raise ValueError(f"the key {strangers[0]!r} is not text; quote it")
    checked: dict[str, Any] = _json_value(value)
    return checked
