"""Data to stdout, everything else to stderr."""

import json
import re
import sys
from typing import Any, Final

import click

from pyoco_client.errors import GatewayUnreachableError, PyocoApiError, PyocoError

_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def print_data(value: Any) -> None:
    """Print one JSON document: indented for people, on one line for programs."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    text = json.dumps(
        value,
        ensure_ascii=encoding != "utf8",
        indent=2 if sys.stdout.isatty() else None,
    )
    click.echo(_harmless(text))


def print_note(text: str) -> None:
    """Print a line about what goes on."""
    click.echo(_harmless(text), err=True)


def print_problem(error: PyocoError) -> None:
    """Print what failed, what the gateway says about it, and what to do next."""
    print_note(f"pyoco-client: {error}")
    if isinstance(error, PyocoApiError) and error.detail not in (None, error.message):
        print_note(f"  detail: {_in_one_line(error.detail)}")
    if isinstance(error, GatewayUnreachableError) and error.may_have_arrived:
        print_note("  The request may have arrived all the same: look before you submit again.")
    if error.hint:
        print_note(f"  hint: {error.hint}")
    if error.request_id:
        print_note(f"  request id: {error.request_id}")


def print_bad_arguments(what: str, *, example: str, help_command: str) -> None:
    """Print what is wrong with the arguments and a command line that is right."""
    from pyoco_protocol.problems import CATALOGUE

    entry = CATALOGUE["ERR-PYOCO-0018"]
    print_note(f"pyoco-client: {entry.err_id}: {entry.message['en']}")
    print_note(f"  {what}")
    print_note(f"  example: {example}")
    print_note(f"  all options: {help_command}")


def _in_one_line(detail: Any) -> str:
    return detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)


def _harmless(text: str) -> str:
    # Flow names, errors and output come from elsewhere and must not steer the terminal.
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
