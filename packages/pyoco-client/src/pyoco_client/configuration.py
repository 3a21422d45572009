"""The settings of a client, from arguments, the environment and the file of contexts.

A setting comes from the first of these that has it: an argument, a context named by an argument,
the environment variable, the current context, the default. This module does not import httpx or
pydantic, because the command line reads its settings on every start.
"""

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from pyoco_client import environment
from pyoco_client.addresses import shown_address
from pyoco_client.errors import ConfigurationError

DEFAULT_SERVER: Final = "http://127.0.0.1:8000"
DEFAULT_API_KEY_HEADER: Final = "X-API-Key"

SERVER_VARIABLE: Final = "PYOCO_SERVER"
API_KEY_VARIABLE: Final = "PYOCO_API_KEY"
API_KEY_HEADER_VARIABLE: Final = "PYOCO_API_KEY_HEADER"
LANG_VARIABLE: Final = "PYOCO_LANG"
CONTEXT_VARIABLE: Final = "PYOCO_CONTEXT"
FILE_VARIABLE: Final = "PYOCO_CONFIG"

ARGUMENT: Final = "argument"
DEFAULT: Final = "default"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_LANG: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Context:
    """One stored gateway: its address, its API key and the language.

    `more` holds keys of the file that this release does not know; they are written back unchanged.
    """

    server: str
    api_key: str | None = field(default=None, repr=False)
    api_key_header: str | None = None
    lang: str | None = None
    more: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The file of contexts: all contexts by name, and the current one."""

    current: str | None = None
    by_name: Mapping[str, Context] = field(default_factory=dict)
    more: Mapping[str, Scalar] = field(default_factory=dict)

    def with_context(self, name: str, context: Context) -> "Contexts":
        """Return the contexts with one added or replaced; the first one becomes the current one."""
        checked_name(name)
        return Contexts(self.current or name, {**self.by_name, name: context}, self.more)

    def without(self, name: str) -> "Contexts":
        """Return the contexts without one; raise ConfigurationError for an unknown name."""
        self.named(name)
        left = {other: context for other, context in self.by_name.items() if other != name}
        return Contexts(None if self.current == name else self.current, left, self.more)

    def using(self, name: str) -> "Contexts":
        """Return the contexts with another current one."""
        self.named(name)
        return Contexts(name, self.by_name, self.more)

    def named(self, name: str) -> Context:
        """Return the context of a name; raise ConfigurationError for an unknown name."""
        try:
            return self.by_name[name]
        except KeyError:
            known = ", ".join(self.by_name) or "none"
            raise ConfigurationError(
                f"there is no context {name!r}; there are: {known}",
                hint="Use one of these, or create it: pyoco-client context set NAME --server URL",
            ) from None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a client; `sources` has the source of each value.

    A source is `argument`, the name of an environment variable, `context NAME` or `default`.
    """

    server: str
    api_key: str | None = field(repr=False)
    api_key_header: str
    lang: str | None
    context: str | None
    sources: Mapping[str, str]

    def __repr__(self) -> str:
        # The address may contain a password.
        address = shown_address(self.server)
        return f"Settings(server={address!r}, context={self.context!r}, lang={self.lang!r})"


def settings_of(
    *,
    server: str | None = None,
    api_key: str | None = None,
    api_key_header: str | None = None,
    lang: str | None = None,
    context: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings from arguments, environment and contexts.

    The key of a context is sent only to the server of that context: with another `server` it is
    ignored.
    """
    found = environment.variables() if variables is None else variables
    name, chosen = _chosen_context(context, found)
    label = f"context {name}"
    sources: dict[str, str] = {}

    def first(what: str, argument: str | None, variable: str, fallback: str | None) -> str | None:
        value = environment.value_of(found, variable)
        given = [(argument, ARGUMENT), (value, variable), (fallback, label)]
        if context is not None:
            # A context that is named by an argument takes precedence over the environment.
            given = [given[0], given[2], given[1]]
        for value, source in given:
            if value is not None:
                sources[what] = source
                return value
        sources[what] = DEFAULT
        return None

    at = first("server", server, SERVER_VARIABLE, chosen.server if chosen else None)
    address = checked_server(DEFAULT_SERVER if at is None else at)
    is_of_context = chosen is not None and checked_server(chosen.server) == address
    for_server = chosen if is_of_context else None
    key = first("api_key", api_key, API_KEY_VARIABLE, for_server.api_key if for_server else None)
    header = first(
        "api_key_header",
        api_key_header,
        API_KEY_HEADER_VARIABLE,
        for_server.api_key_header if for_server else None,
    )
    language = first("lang", lang, LANG_VARIABLE, chosen.lang if chosen else None)
    return Settings(
        server=address,
        api_key=None if key is None else checked_key(key),
        api_key_header=checked_header(DEFAULT_API_KEY_HEADER if header is None else header),
        lang=None if language is None else checked_lang(language),
        context=name if chosen else None,
        sources=MappingProxyType(sources),
    )


def _chosen_context(
    argument: str | None, found: Mapping[str, str]
) -> tuple[str | None, Context | None]:
    path = contexts_path(found)
    contexts = Contexts() if path is None else read_contexts(path)
    if name := argument or environment.value_of(found, CONTEXT_VARIABLE):
        return name, contexts.named(name)
    if contexts.current is None:
        return None, None
    return contexts.current, contexts.named(contexts.current)


def contexts_path(variables: Mapping[str, str] | None = None) -> Path | None:
    """Return the path of the file of contexts, or None for a process without a home directory.

    `PYOCO_CONFIG`, or else `pyoco/contexts.toml` in `XDG_CONFIG_HOME` or `~/.config`.
    """
    found = environment.variables() if variables is None else variables
    if named := environment.value_of(found, FILE_VARIABLE):
        return Path(named).expanduser()
    # The XDG specification says to ignore a relative path.
    if (base := found.get("XDG_CONFIG_HOME")) and Path(base).is_absolute():
        return Path(base) / "pyoco" / "contexts.toml"
    home = environment.home()
    return None if home is None else home / ".config" / "pyoco" / "contexts.toml"


def read_contexts(path: Path) -> Contexts:
    """Return the contexts in a file; no contexts if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    try:
        return _parsed(document)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _parsed(document: Mapping[str, Any]) -> Contexts:
    current, tables = document.get("current"), document.get("contexts", {})
    if not isinstance(current, str | None):
        raise ValueError("current must be the name of a context")
    if not isinstance(tables, dict):
        raise ValueError("contexts must be tables such as [contexts.local]")
    by_name = {checked_name(name): _parsed_context(name, table) for name, table in tables.items()}
    if current is not None and current not in by_name:
        raise ValueError(f"current is {current!r}, but there is no [contexts.{current}]")
    return Contexts(current, by_name, _scalars(document, {"current", "contexts"}))


def _parsed_context(name: str, table: object) -> Context:
    if not isinstance(table, dict):
        raise ValueError(f"contexts.{name} must be a table")
    known = ("server", "api_key", "api_key_header", "lang")
    for key in known:
        if not isinstance(table.get(key), str | None):
            raise ValueError(f"contexts.{name}.{key} must be text")
    if "server" not in table:
        raise ValueError(f"contexts.{name} has no server")
    return Context(
        server=table["server"],
        api_key=table.get("api_key"),
        api_key_header=table.get("api_key_header"),
        lang=table.get("lang"),
        more=_scalars(table, set(known)),
    )


def _scalars(table: Mapping[str, Any], known: set[str]) -> dict[str, Scalar]:
    return {
        key: value
        for key, value in table.items()
        if key not in known and isinstance(value, Scalar) and re.fullmatch(r"[\w-]+", key, re.ASCII)
    }


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Replace the file of contexts atomically; only its owner can read it."""
    # For a symbolic link, replace the file that it points to.
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `mkstemp` creates a file that only the owner can read.
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_written(contexts))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def _written(contexts: Contexts) -> str:
    top = {"current": contexts.current, **contexts.more}
    parts = ["# Gateways by name; written by `pyoco-client context`.", *_lines(top)]
    for name, context in contexts.by_name.items():
        table = {
            "server": context.server,
            "api_key": context.api_key,
            "api_key_header": context.api_key_header,
            "lang": context.lang,
            **context.more,
        }
        parts += ["", f"[contexts.{checked_name(name)}]", *_lines(table)]
    return "\n".join(parts) + "\n"


def _lines(table: Mapping[str, Scalar | None]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]


def _toml(value: Scalar) -> str:
    # A JSON string is a TOML string too, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def checked_name(name: str) -> str:
    """Return the name of a context; raise ConfigurationError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a context: use letters, digits, - and _"
        )
    return name


def checked_server(server: str) -> str:
    """Return the address of a gateway without a final /; raise ConfigurationError if invalid."""
    example = f"server must be a URL such as {DEFAULT_SERVER}, not {_without_password(server)!r}"
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError as error:
        raise ConfigurationError(f"{example}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ConfigurationError(example)
    if url.query or url.fragment or re.search(r"[\s\x00-\x1f\x7f]", server):
        raise ConfigurationError(f"{example}: nothing may follow the path")
    return server.rstrip("/")


def _without_password(server: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", server)


def checked_header(name: str) -> str:
    """Return the name of a header; raise ConfigurationError if it is invalid."""
    if not _HEADER.fullmatch(name):
        raise ConfigurationError(f"api_key_header {name!r} cannot be the name of a header")
    return name


def checked_key(key: str) -> str:
    """Return the API key; raise ConfigurationError if a header cannot carry it."""
    # The error does not show the key: it is a secret.
    if not _KEY.fullmatch(key):
        raise ConfigurationError("api_key must be printable ASCII without spaces")
    return key


def checked_lang(lang: str) -> str:
    """Return a language for `Accept-Language`; raise ConfigurationError if it is invalid."""
    if not _LANG.fullmatch(lang):
        raise ConfigurationError(f"lang must be a language such as en or ja, not {lang!r}")
    return lang
