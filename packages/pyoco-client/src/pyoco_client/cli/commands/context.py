"""The commands `context list`, `show`, `use`, `set` and `delete`."""

import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from pyoco_client.addresses import shown_address
from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.connection import EXIT_OK
from pyoco_client.cli.display.output import (
    Form,
    Layout,
    data_output,
    print_note,
    print_record,
    print_records,
)
from pyoco_client.cli.display.tables import Column
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import HelpfulGroup
from pyoco_client.configuration import (
    API_KEY_VARIABLE,
    CONTEXT_VARIABLE,
    FILE_VARIABLE,
    SERVER_VARIABLE,
    Context,
    Contexts,
    checked_header,
    checked_key,
    checked_lang,
    checked_name,
    checked_server,
    contexts_path,
    read_contexts,
    write_contexts,
)
from pyoco_client.environment import variables
from pyoco_client.errors import ConfigurationError

# Shown instead of an API key; reveals neither a part of the key nor its length.
MASK: Final = "********"
_SET_EXAMPLE: Final = "pyoco-client context set local --server http://127.0.0.1:8000"

_COLUMNS: Final = (
    Column("CURRENT", lambda record: "*" if record["current"] else ""),
    Column("NAME", lambda record: record["name"]),
    Column("SERVER", lambda record: record["server"], shrinks=True),
    Column("API KEY", lambda record: record["api_key"] or ""),
)
_LAYOUT: Final = Layout(
    "name",
    _COLUMNS,
    (
        *_COLUMNS,
        Column("HEADER", lambda record: record["api_key_header"] or ""),
        Column("LANG", lambda record: record["lang"] or ""),
    ),
)


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        _, contexts = _read()
    except (ConfigurationError, BadArgumentError):
        return []
    return [name for name in contexts.by_name if name.startswith(incomplete)]


@click.group(
    cls=HelpfulGroup,
    no_args_is_help=False,
    epilog=examples("pyoco-client context list"),
)
def context() -> None:
    """Store gateways under names and choose one.

    The file is readable only for its owner: PYOCO_CONFIG, or else pyoco/contexts.toml in
    XDG_CONFIG_HOME or ~/.config. Options and environment variables take precedence over
    it, except over a context chosen with --context: only options take precedence over that.
    """


@context.command("list", epilog=examples("pyoco-client context list"))
@data_output
def list_contexts(form: Form | None) -> int:
    """List the stored gateways."""
    path, contexts = _read()
    records = [_record(name, contexts) for name in contexts.by_name]
    if not records:
        print_note(f"There is no context in {path} yet. Create one: {_SET_EXAMPLE}")
    print_records(records, form, _LAYOUT)
    _warn_if_readable_by_others(path)
    return EXIT_OK


@context.command(
    "show",
    epilog=examples("pyoco-client context show", "pyoco-client context show local"),
)
@click.argument("name", required=False, shell_complete=_names)
@data_output
def show_context(name: str | None, form: Form | None) -> int:
    """Show one context, or the current one; API keys are never shown."""
    path, contexts = _read()
    chosen = name or variables().get(CONTEXT_VARIABLE) or contexts.current
    if chosen is None:
        raise BadArgumentError(f"{path} has no current context", _SET_EXAMPLE)
    _require(contexts, chosen)
    print_record(_record(chosen, contexts), form, replace(_LAYOUT, columns=_LAYOUT.wide))
    _warn_if_readable_by_others(path)
    _note_overriding_variables()
    return EXIT_OK


@context.command("use", epilog=examples("pyoco-client context use local"))
@click.argument("name", shell_complete=_names)
def use_context(name: str) -> int:
    """Make a context the current one."""
    path, contexts = _read()
    _require(contexts, name)
    write_contexts(path, contexts.using(name))
    print_note(f"the current context is {name}: {shown_address(contexts.named(name).server)}")
    _note_overriding_variables()
    return EXIT_OK


@context.command(
    "set",
    epilog=examples(
        "pyoco-client context set local --server http://127.0.0.1:8000",
        "pyoco-client context set team --server https://pyoco.example.com --api-key-stdin",
    ),
)
@click.argument("name", shell_complete=_names)
@click.option("--server", metavar="URL", help="Address of the gateway; required for a new name.")
@click.option("--api-key", help="API key. Other users of this machine may see it in `ps`.")
@click.option(
    "--api-key-stdin", is_flag=True, help="Read the key from stdin; on a terminal, ask for it."
)
@click.option("--no-api-key", is_flag=True, help="Delete the stored key.")
@click.option("--api-key-header", help="Header that carries the key.  [default: X-API-Key]")
@click.option("--lang", help="Language of messages: en or ja.")
def set_context(
    *,
    name: str,
    server: str | None,
    api_key: str | None,
    api_key_stdin: bool,
    no_api_key: bool,
    api_key_header: str | None,
    lang: str | None,
) -> int:
    """Store a gateway under a name, or change a stored one.

    Values without an option stay as they are. The first context becomes the current one; `context
    use` selects another.
    """
    if (api_key is not None) + api_key_stdin + no_api_key > 1:
        raise BadArgumentError(
            "--api-key, --api-key-stdin and --no-api-key exclude each other", _SET_EXAMPLE
        )
    path, contexts = _read()
    before = contexts.by_name.get(name)
    if before is None and server is None:
        raise BadArgumentError(
            f"the new context {name!r} needs a --server",
            f"pyoco-client context set {name} --server http://127.0.0.1:8000",
        )
    try:
        checked_name(name)
        after = before or Context(server="")
        if server is not None:
            server = checked_server(server)
            if before is not None and before.api_key is not None and before.server != server:
                # A key belongs to one server and must not be sent to another one.
                after = replace(after, api_key=None)
                print_note("the stored API key belonged to the previous server and is deleted")
            after = replace(after, server=server)
        if api_key_stdin:
            api_key = _read_key()
        if api_key is not None:
            after = replace(after, api_key=checked_key(api_key))
        if no_api_key:
            after = replace(after, api_key=None)
        if api_key_header is not None:
            after = replace(after, api_key_header=checked_header(api_key_header))
        if lang is not None:
            after = replace(after, lang=checked_lang(lang))
    except ConfigurationError as error:
        raise BadArgumentError(str(error), _SET_EXAMPLE) from error
    changed = contexts.with_context(name, after)
    write_contexts(path, changed)
    print_note(f"context {name} is stored in {path}")
    if changed.current != name:
        print_note(f"  make it the current one: pyoco-client context use {name}")
    return EXIT_OK


@context.command("delete", epilog=examples("pyoco-client context delete local"))
@click.argument("name", shell_complete=_names)
def delete_context(name: str) -> int:
    """Delete a stored gateway and its key."""
    path, contexts = _read()
    _require(contexts, name)
    write_contexts(path, contexts.without(name))
    print_note(f"context {name} is deleted")
    return EXIT_OK


def _read() -> tuple[Path, Contexts]:
    path = contexts_path()
    if path is None:
        raise BadArgumentError(
            f"there is no home directory to store contexts in; set {FILE_VARIABLE} to a file",
            f"{FILE_VARIABLE}=contexts.toml {_SET_EXAMPLE}",
        )
    return path, read_contexts(path)


def _require(contexts: Contexts, name: str) -> None:
    try:
        contexts.named(name)
    except ConfigurationError as error:
        raise BadArgumentError(str(error)) from error


def _read_key() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("API key", hide_input=True, err=True))
    return sys.stdin.readline().strip()


def _record(name: str, contexts: Contexts) -> Mapping[str, Any]:
    found = contexts.by_name[name]
    return {
        "name": name,
        "current": name == contexts.current,
        "server": shown_address(found.server),
        "api_key": None if found.api_key is None else MASK,
        "api_key_header": found.api_key_header,
        "lang": found.lang,
    }


def _warn_if_readable_by_others(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        print_note(f"warning: other users can read {path}; restrict it: chmod 600 {path}")


def _note_overriding_variables() -> None:
    found = variables()
    for name in (SERVER_VARIABLE, API_KEY_VARIABLE):
        if found.get(name):
            print_note(f"note: {name} is set and takes precedence over the context")
