"""Arguments that are wrong and what to type instead; params, from wherever they are given."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pyoco_client.cli.json_faults import explained

_YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # Older releases of click know no types here.
    _Choice = click.Choice

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class BadArgumentError(click.UsageError):
    """An argument is wrong; `example` is a command line that would have been right.

    Without one, the example of the command at hand is shown.
    """

    def __init__(self, message: str, example: str | None = None) -> None:
        super().__init__(message, click.get_current_context(silent=True))
        self.example = example


class _Seconds(click.FloatRange):
    """A length of time that has an end."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds; refuse what is none."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


POSITIVE_SECONDS: Final = _Seconds(min=0, min_open=True)
UNIX_SECONDS: Final = _Seconds(min=0)


def refuse_what_is_no_text(words: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8: nothing of ours could carry them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadArgumentError(f"{word!r} is not UTF-8 text") from None


class UpperChoice(_Choice):
    """One of some words in capitals, which may be typed in small letters."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word in capitals; refuse what is none of them."""
        return super().convert(value.upper() if isinstance(value, str) else value, param, ctx)


def params_options(command: _Decorated) -> _Decorated:
    """Give a command the three ways to name params."""
    for option in (
        click.option(
            "--param",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="One param, repeatable; JSON where it parses, text otherwise. The last one wins.",
        ),
        click.option("--params", help="Params as a JSON object; wins over --params-file."),
        click.option(
            "--params-file",
            type=click.Path(path_type=Path),
            help="File with a JSON object (YAML: .yaml or .yml); - is stdin, with either.",
        ),
    ):
        command = option(command)
    return command


def one_run(command: _Decorated) -> _Decorated:
    """Give a command one run id: as its argument, or as `--run-id`; it takes `run_id`."""

    def taken(context: click.Context, _: click.Parameter, value: str | None) -> str:
        named = context.params.pop("run_id_option", None)
        if value is not None and named is not None and value != named:
            raise BadArgumentError(f"two run ids are named: {value} and {named}")
        found = value if value is not None else named
        if found is None and not context.resilient_parsing:
            raise BadArgumentError("Missing argument 'RUN_ID'.")
        return checked_run_id(str(found))

    option = click.option(
        "--run-id", "run_id_option", is_eager=True, help="The id, if it is not an argument."
    )
    return option(click.argument("run_id", required=False, callback=taken)(command))


def checked_run_id(text: str) -> str:
    """Return a text that can be a run id; refuse any other."""
    from pyoco_protocol.ids import is_run_id

    if not is_run_id(text):
        raise BadArgumentError(
            f"{text!r} is not a run id; `pyoco-client list -o name` prints those there are"
        )
    return text


def labels_in(text: str | None) -> list[str] | None:
    """Return the labels of a text that separates them by commas."""
    if text is None:
        return None
    return [label for label in (part.strip() for part in text.split(",")) if label]


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


def _is_no_json_object(text: str) -> bool:
    # Stdin has no name that says which it is; what begins otherwise can only be YAML.
    return not text.lstrip().startswith(("{", "[")) and bool(text.strip())


def _from_file(path: Path) -> dict[str, Any]:
    example = "pyoco-client submit --flow-name hello --params-file params.json"
    is_stdin = str(path) == "-"
    try:
        if is_stdin:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        else:
            text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgumentError(f"--params-file {path} cannot be read: {error}", example) from error
    try:
        is_yaml = path.suffix.lower() in _YAML_SUFFIXES or (is_stdin and _is_no_json_object(text))
        value = _yaml(text) if is_yaml else _json(text)
        return _json_object(value)
    except ValueError as error:
        raise BadArgumentError(f"--params-file {path}: {error}", example) from error


def _from_text(text: str) -> dict[str, Any]:
    try:
        return _json_object(_json(text))
    except ValueError as error:
        raise BadArgumentError(
            f"--params: {error}",
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
        raise ValueError(f"{constant} is not JSON; leave it out or put it into double quotes")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {explained(text, error)}") from error
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from error


def _json_value(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half of a character: {error.object[error.start]!r}") from error
    except TypeError as error:
        # YAML makes a date of 2026-01-31.
        raise ValueError(f"holds a value that JSON does not know ({error}); quote it") from error
    return value


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError('must be an object of names and values, such as {"name": "world"}')
    if strangers := [key for key in value if not isinstance(key, str)]:
        raise ValueError(f"the key {strangers[0]!r} is not text; quote it")
    checked: dict[str, Any] = _json_value(value)
    return checked
