"""Explains usage errors: the problem, and a correct command line."""

import shlex
from collections.abc import Sequence
from typing import Final

import click

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.display.output import print_note
from pyoco_client.cli.examples import hint_for
from pyoco_client.cli.language import Language
from pyoco_client.cli.lazy_group import NoSuchCommandError

PROGRAM: Final = "pyoco-client"


def explain(error: click.UsageError, arguments: Sequence[str], language: Language) -> None:
    """Print the problem of the arguments and a correct command line."""
    # Imported here because the catalogue imports pydantic, which is slow to load.
    from pyoco_protocol.problems import CATALOGUE

    entry = CATALOGUE["ERR-PYOCO-0018"]
    path = error.ctx.command_path if error.ctx is not None else PROGRAM
    print_note(f"{PROGRAM}: {entry.err_id}: {entry.message[language]}")
    print_note(f"  {problem_of(error)}")
    print_note(f"  example: {corrected_line(error, arguments)}")
    print_note(f"  all options: {path} --help")


def context_of(group: click.Group, arguments: Sequence[str]) -> click.Context:
    """Return the context of the command that the arguments name, or of the group."""
    context = click.Context(group, info_name=PROGRAM)
    for word in arguments:
        if not isinstance(context.command, click.Group):
            break
        if (command := context.command.get_command(context, word)) is not None:
            context = click.Context(command, info_name=word, parent=context)
    return context


def problem_of(error: click.UsageError) -> str:
    """Return one sentence about the error."""
    if isinstance(error, click.NoSuchOption) and _is_global(error):
        return f"{error.option_name} goes before the command."
    return error.format_message()


def corrected_line(error: click.UsageError, arguments: Sequence[str]) -> str:
    """Return the corrected command line if the correction is known, else an example."""
    if isinstance(error, BadArgumentError) and error.example is not None:
        return error.example
    if isinstance(error, NoSuchCommandError) and error.meant is not None and error.ctx is not None:
        if arguments[-1] != error.name:
            return _with_word(arguments, error.name, error.meant)
        return hint_for(error.ctx, error.meant)
    if isinstance(error, click.NoSuchOption):
        if _is_global(error):
            return _with_global_options_first(arguments, _global_options(error))
        if error.possibilities and arguments[-1] != error.option_name:
            return _with_word(arguments, error.option_name, sorted(error.possibilities)[0])
    return hint_for(error.ctx)


def _is_global(error: click.NoSuchOption) -> bool:
    is_below = error.ctx is not None and error.ctx.parent is not None
    return is_below and error.option_name in _global_options(error)


def _global_options(error: click.UsageError) -> frozenset[str]:
    if error.ctx is None:
        return frozenset()
    return frozenset(
        name
        for option in error.ctx.find_root().command.params
        if isinstance(option, click.Option) and not option.is_flag
        for name in option.opts
    )


def _with_word(arguments: Sequence[str], wrong: str, right: str) -> str:
    words = [
        right + word.removeprefix(wrong) if word == wrong or word.startswith(f"{wrong}=") else word
        for word in arguments
    ]
    return _command_line(words)


def _with_global_options_first(arguments: Sequence[str], options: frozenset[str]) -> str:
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, separator, _ = word.partition("=")
        if name not in options:
            rest.append(word)
        else:
            first += [word] if separator else [word, next(words, "VALUE")]
    return _command_line([*first, *rest])


def _command_line(words: Sequence[str]) -> str:
    shown = list(words)
    for place, word in enumerate(words):
        # Never print an API key: stderr often ends up in a log.
        if word.startswith("--api-key="):
            shown[place] = "--api-key=KEY"
        elif place and words[place - 1] == "--api-key":
            shown[place] = "KEY"
    return shlex.join([PROGRAM, *shown])
