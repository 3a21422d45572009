"""Argument types, checks and errors that several commands share."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # `click.Choice` takes no type argument before click 8.2.
    _Choice = click.Choice

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class BadArgumentError(click.UsageError):
    """An argument is wrong; `example` is a correct command line.

    Without `example` the error shows the first example of the current command.
    """

    def __init__(self, message: str, example: str | None = None) -> None:
        super().__init__(message, click.get_current_context(silent=True))
        self.example = example


class _Seconds(click.FloatRange):
    """A finite number of seconds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds; reject infinity and NaN."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


POSITIVE_SECONDS: Final = _Seconds(min=0, min_open=True)
UNIX_SECONDS: Final = _Seconds(min=0)


def reject_invalid_utf8(words: Sequence[str]) -> None:
    """Reject arguments that are not UTF-8: JSON, URLs and headers cannot carry them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadArgumentError(f"{word!r} is not UTF-8 text") from None


class UpperChoice(_Choice):
    """A choice of upper-case words that accepts lower case too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word in upper case; reject any other word."""
        return super().convert(value.upper() if isinstance(value, str) else value, param, ctx)


def with_options(command: Decorated, *options: Callable[[Decorated], Decorated]) -> Decorated:
    """Return a command with more options, in the order in which its help lists them."""
    for option in reversed(options):
        command = option(command)
    return command


def run_id_argument(command: Decorated) -> Decorated:
    """Add one run id to a command, as an argument or as `--run-id`; the command gets `run_id`."""
    return id_argument("run_id", "run id", checked_run_id)(command)


def execution_id_argument(command: Decorated) -> Decorated:
    """Add one execution id to a command, as an argument or as `--execution-id`."""
    return id_argument("execution_id", "execution id", checked_execution_id)(command)


def node_id_argument(command: Decorated) -> Decorated:
    """Add one node id to a command, as an argument or as `--node-id`."""
    return id_argument("node_id", "node id", checked_path_part)(command)


def graph_id_argument(command: Decorated) -> Decorated:
    """Add one graph id to a command, as an argument or as `--graph-id`."""
    return id_argument("graph_id", "graph id", checked_path_part)(command)


def id_argument(
    name: str, what: str, checked: Callable[[str], str]
) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds an id as an argument or as an option; both have this `name`."""
    option_name = f"{name}_option"

    def taken(context: click.Context, _: click.Parameter, value: str | None) -> str:
        named = context.params.pop(option_name, None)
        if value is not None and named is not None and value != named:
            raise BadArgumentError(f"two {what}s are given: {value} and {named}")
        found = value if value is not None else named
        if found is None and not context.resilient_parsing:
            raise BadArgumentError(f"Missing argument '{name.upper()}'.")
        return checked(str(found))

    def decorate(command: Decorated) -> Decorated:
        option = click.option(
            f"--{name.replace('_', '-')}",
            option_name,
            is_eager=True,
            help=f"The {what}, instead of the argument.",
        )
        return option(click.argument(name, required=False, callback=taken)(command))

    return decorate


def checked_run_id(text: str) -> str:
    """Return `text` if it has the form of a run id; raise BadArgumentError otherwise."""
    from pyoco_protocol.ids import is_run_id

    if not is_run_id(text):
        raise BadArgumentError(f"{text!r} is not a run id; list them: pyoco-client list -o name")
    return text


def checked_execution_id(text: str) -> str:
    """Return `text` if it has the form of an execution id; raise BadArgumentError otherwise."""
    from pyoco_protocol.ids import is_execution_id

    if not is_execution_id(text):
        listing = "pyoco-client execution list -o name"
        raise BadArgumentError(f"{text!r} is not an execution id; list them: {listing}")
    return text


def checked_path_part(text: str) -> str:
    """Return an id that can be a part of a path; raise BadArgumentError for another one."""
    # An id that is empty, only dots or in parts would change the path of the request.
    if not text.strip(".") or "/" in text:
        raise BadArgumentError(f"{text!r} is not an id")
    return text


def cannot_read(what: str, error: OSError | UnicodeDecodeError) -> str:
    """Return that a file cannot be read, and why."""
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{what} cannot be read: {reason or error}"


def checked_idempotency_key(key: str | None, example: str) -> str | None:
    """Return an idempotency key; raise BadArgumentError if a header cannot carry it."""
    if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise BadArgumentError(
            "--idempotency-key must be 1 to 255 printable ASCII characters", example
        )
    return key
