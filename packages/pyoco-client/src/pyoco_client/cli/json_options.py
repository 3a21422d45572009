"""Options that give a JSON object: as JSON, as a file, or as `key=value`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pyoco_client.cli.arguments import BadArgumentError, Decorated
from pyoco_client.cli.params import object_in_file, object_in_text, object_of_pair


def json_object_option(name: str, help_text: str, example: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds `--NAME`; the command gets the object, or None without one.

    The option is repeatable. Objects are merged key by key; the last one wins.
    """
    option = f"--{name}"

    def merged(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Any:
        found: dict[str, Any] = {}
        for value in values:
            found |= _object_in(value, option, example)
        return found if values else None

    return click.option(
        option,
        name,
        multiple=True,
        metavar="JSON|@FILE|KEY=VALUE",
        callback=merged,
        help=f"{help_text}: a JSON object, a file with JSON or YAML (@- is stdin), or one value, "
        "which is JSON if it parses and text otherwise. Repeatable; the last one wins.",
    )


def _object_in(value: str, option: str, example: str) -> dict[str, Any]:
    if value.startswith("@"):
        return object_in_file(Path(value[1:]), f"{option} {value}", example)
    if value.lstrip().startswith(("{", "[")):
        return object_in_text(value, option, example)
    if "=" not in value:
        forms = "neither a JSON object nor KEY=VALUE; write @FILE to read a file"
        raise BadArgumentError(f"{option} {value!r} is {forms}", example)
    return object_of_pair(value, option, example)
