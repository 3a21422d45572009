"""Reads settings from the environment and the `.env` file. No other module does."""

import difflib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from dotenv.parser import Binding, parse_stream
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from pyoco_protocol.command_language import CommandLanguage, language_for
from pyoco_protocol.problems import SettingProblem, SettingsError
from pyoco_protocol.settings.base import PREFIX, PyocoSettings, SettingRuleError
from pyoco_protocol.settings.env_file import DotenvSettings
from pyoco_protocol.settings.groups import GROUPS

Settings = TypeVar("Settings", bound=PyocoSettings)

_MAX_SHOWN_CHARS: Final = 120
_SIMILAR: Final = 0.75

# Variables of the workflow engine and the client, and those a worker sets for flows.
_OTHER_VARIABLES: Final = frozenset(
    {
        "PYOCO_API_KEY",
        "PYOCO_API_KEY_HEADER",
        "PYOCO_ATTEMPT",
        "PYOCO_CONFIG",
        "PYOCO_CONTEXT",
        "PYOCO_CUTE",
        "PYOCO_DISCOVERY_MODULES",
        "PYOCO_FAILPOINT",
        "PYOCO_LANG",
        "PYOCO_MAX_LOG_BYTES",
        "PYOCO_MAX_RUN_HISTORY",
        "PYOCO_RUN_ARCHIVE_DIR",
        "PYOCO_RUN_ID",
        "PYOCO_SERVER",
        "PYOCO_WEBHOOK_RETRIES",
        "PYOCO_WEBHOOK_SECRET",
        "PYOCO_WEBHOOK_TIMEOUT",
        "PYOCO_WEBHOOK_URL",
    }
)

_NOTES: Final = {
    "PYOCO_WORKERS_KV_TTL_SEC": "PYOCO_WORKERS_KV_TTL_SEC has no effect: registry records do not "
    "expire, and PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC decides when a worker is DISCONNECTED"
}


class SettingDoc(NamedTuple):
    """One row of `docs/settings.md`."""

    variable: str
    default: str
    meaning: str
    example: str


class UnknownVariable(NamedTuple):
    """An unknown variable with our prefix, and the known one with the most similar name."""

    name: str
    nearest: str | None


def load_settings(cls: type[Settings], environ: Mapping[str, str] | None = None) -> Settings:
    """Return a group of settings from the environment and the `.env` file.

    Raises one SettingsError that names all invalid values. A command adds its options to the
    environment: `load_settings(BrokerSettings, {**os.environ, "PYOCO_NATS_URL": option})`.
    """
    return _build(cls, read_environment(environ))


def read_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of the `.env` file, overridden by those of the environment.

    One of our variables that is empty counts as not set, in the environment and in the file:
    container tools pass variables without a value on as empty ones.
    """
    own = _set_ones(os.environ if environ is None else environ)
    dotenv = _build(DotenvSettings, own)
    if not dotenv.load_dotenv:
        return own
    found = _read_file(dotenv.env_file, must_exist="PYOCO_ENV_FILE" in own)
    return {**_set_ones(found), **own}


def command_language(arguments: Sequence[str]) -> CommandLanguage:
    """Return the language in which a command prints errors, from its words and the environment.

    The `.env` file is not read: it may be the reason of the error.
    """
    return language_for(arguments, os.environ)


def unknown_variables(environ: Mapping[str, str]) -> list[UnknownVariable]:
    """Return the variables with our prefix that are not settings, for a warning at start."""
    known = [variable for variable, _ in _fields()]
    return [
        UnknownVariable(name, next(iter(_similar(name.upper(), known)), None))
        for name in sorted(environ)
        if name.upper().startswith(PREFIX) and name not in known and name not in _OTHER_VARIABLES
    ]


def settings_notes(environ: Mapping[str, str]) -> list[str]:
    """Return notes for the operator about set variables, to be logged at start."""
    return [note for variable, note in _NOTES.items() if variable in environ]


def document_settings() -> list[SettingDoc]:
    """Return every variable with its default, its description and an example."""
    return [
        SettingDoc(variable, _as_text(field.default), field.description or "", _example(field))
        for variable, field in _fields()
    ]


def _set_ones(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if value.strip() or not name.startswith(PREFIX)
    }


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    for group in GROUPS:
        for name, field in group.model_fields.items():
            yield _variable(name), field


def _variable(field_name: str) -> str:
    return PREFIX + field_name.upper()


def _example(field: FieldInfo) -> str:
    return str((field.examples or [""])[0])


def _as_text(default: object) -> str:
    if default is None:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


def _similar(name: str, known: list[str]) -> list[str]:
    return difflib.get_close_matches(name, known, n=1, cutoff=_SIMILAR)


def _build(cls: type[Settings], variables: Mapping[str, str]) -> Settings:
    fields = cls.model_fields
    given = {name: variables[_variable(name)] for name in fields if _variable(name) in variables}
    try:
        return cls(**given)
    except ValidationError as error:
        # The chained error could show the value, which may be a secret.
        raise SettingsError([_problem(cls, fault, given) for fault in error.errors()]) from None


def _problem(
    cls: type[PyocoSettings], fault: ErrorDetails, given: Mapping[str, str]
) -> SettingProblem:
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, SettingRuleError):
        return SettingProblem(cause.variable, str(cause), cause.example)
    name = str(fault["loc"][0])
    field = cls.model_fields[name]
    what = str(cause) if isinstance(cause, ValueError) else fault["msg"]
    if field.repr:
        what = f"{_shortened(given[name])} is not valid: {what}"
    return SettingProblem(_variable(name), what, _example(field))


def _shortened(text: str) -> str:
    shown = text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
    return repr(shown)


def _read_file(path: Path, *, must_exist: bool) -> dict[str, str]:
    """Return the variables of the file that have our prefix."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        # `.env` is often a directory: a virtual environment.
        if not must_exist:
            return {}
        raise _file_error(path, str(error.strerror)) from error
    except OSError as error:
        raise _file_error(path, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise _file_error(path, "not UTF-8 text") from error
    found: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(text)):
        if binding.error and PREFIX in binding.original.string:
            raise _file_error(path, f"line {_line_of(binding)}: not of the form NAME=value")
        if binding.key is not None and binding.key.upper().startswith(PREFIX):
            if binding.value is None:
                raise _file_error(path, f"line {_line_of(binding)}: no value")
            found[binding.key] = binding.value
    return found


def _line_of(binding: Binding) -> int:
    # The parser counts blank lines before a statement as part of it.
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _file_error(path: Path, what: str) -> SettingsError:
    field = DotenvSettings.model_fields["env_file"]
    what = f"{_shortened(str(path))}: {what} (PYOCO_LOAD_DOTENV=0 skips it)"
    return SettingsError([SettingProblem("PYOCO_ENV_FILE", what, _example(field))])
