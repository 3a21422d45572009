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

    def taken(context: click.Context, _: click.Parameter, value: str | None) -> str:
        named = context.params.pop("run_id_option", None)
        if value is not None and named is not None and value != named:
            raise BadArgumentError(f"two run ids are given: {value} and {named}")
        found = value if value is not None else named
        if found is None and not context.resilient_parsing:
            raise BadArgumentError("Missing argument 'RUN_ID'.")
        return checked_run_id(str(found))

    option = click.option(
        "--run-id", "run_id_option", is_eager=True, help="The run id, instead of the argument."
    )
    return option(click.argument("run_id", required=False, callback=taken)(command))


def checked_run_id(text: str) -> str:
    """Return `text` if it has the form of a run id; raise BadArgumentError otherwise."""
    from pyoco_protocol.ids import is_run_id

    if not is_run_id(text):
        raise BadArgumentError(f"{text!r} is not a run id; list them: pyoco-client list -o name")
    return text
