"""Formats log records as fields, and fields as one line of JSON or text."""

import json
import logging
import math
import re
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.problems import CATALOGUE, CatalogueEntry, PyocoError

Fields = dict[str, JsonValue]

# Attributes that logging sets on a record; `extra` may not use these names.
RESERVED: Final = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})
# uvicorn's message with terminal colours.
_DROPPED: Final = frozenset({"color_message"})

_MAX_DEPTH: Final = 8
_LONGEST_INT_BITS: Final = 4096
# Characters that end a line or control a terminal: C0 and C1 controls, Unicode line breaks, text
# direction marks, and lone surrogates, which UTF-8 cannot encode.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Fields that `text_line` writes at a fixed position.
_IN_HEAD: Final = frozenset(
    {"ts", "level", "service", "logger", "message", "pathname", "lineno", "func"}
)
# The fields of an exception that an extra cannot replace.
_OF_EXCEPTION: Final = ("exc_type", "exc_message", "exc_origin", "exc_cause")
# Errors outside the catalogue have these ids.
_INTERNAL: Final = CATALOGUE["ERR-PYOCO-0106"]
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# A traceback inside another text: its first line, and the indented lines after it.
_TRACEBACK_SIGN: Final = "(most recent call "
_TRACEBACK: Final = re.compile(
    r"[^\n:]*\(most recent call (?:last|first)\):[^\n]*\n?(?:[ \t|+].*(?:\n|\Z))*"
)
_PLAIN: Final = re.compile(r"[^\s\"=]+")


def error_fields(error: BaseException, *, reason: str | None = None) -> Fields:
    """Return the fields of `error` for the `extra` of a log call.

    A log call with `exc_info=error` has these fields too, and the cause and the traceback. The text
    of a cause may show values of a request, so a refused request is logged without it. `reason` is
    a word for programs, such as the reason of a dead letter; by default it follows from the class.
    """
    return _error_fields(error, [], reason=reason)


def fields_of(
    record: logging.LogRecord, *, service: str, utc: bool = True, include_traceback: bool = True
) -> Fields:
    """Return the fields of a record, as JSON values.

    The field `log_error` reports values that could not be formatted.
    """
    faults: list[str] = []
    fields: Fields = {
        "ts": _timestamp(record.created, utc=utc),
        "service": service,
        "level": record.levelname,
        "logger": record.name,
        "message": _message(record, faults),
        "pathname": record.pathname,
        "lineno": record.lineno,
        "func": record.funcName,
    }
    error = record.exc_info[1] if record.exc_info else None
    about: Fields = {}
    if error is not None:
        about = {**_error_fields(error, faults), **_cause_field(error, faults)}
        # An extra never replaces a field of the record itself, nor one of its exception.
        fields.update({key: about[key] for key in _OF_EXCEPTION if key in about})
        fields["exc_traceback"] = _traceback(error, faults)
    if record.stack_info:
        fields["stack"] = record.stack_info
    for key, value in record.__dict__.items():
        if key not in RESERVED and key not in _DROPPED:
            own = key if key not in fields else f"extra_{key}"
            fields[own] = shown(value, faults)
    for key, value in about.items():
        fields.setdefault(key, shown(value, faults))
    if record.levelno >= logging.ERROR or fields.get("exc_type") is not None:
        _complete(fields)
    if faults:
        fields["log_error"] = "; ".join(faults)
    return fields if include_traceback else without_tracebacks(fields)


def json_line(fields: Mapping[str, JsonValue], *, ascii_only: bool = False) -> str:
    """Return fields as one line of JSON; `ascii_only` is for streams without Unicode."""
    line = json.dumps(fields, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def text_line(fields: Mapping[str, JsonValue], *, ascii_only: bool = False) -> str:
    """Return fields as one line for people: time, level, service, logger, message, others."""
    head = f"{fields['ts']} {fields['level']:<8} {fields['service']} {fields['logger']}"
    rest = [f"{key}={_text_value(item)}" for key, item in fields.items() if key not in _IN_HEAD]
    place = _text_value(f"{fields['pathname']}:{fields['lineno']}")
    line = escaped(" ".join([f"{head}: {fields['message']}", *rest, f"at={place}"]))
    return line.encode("ascii", "backslashreplace").decode() if ascii_only else line


def escaped(text: str) -> str:
    """Return `text` with line breaks and terminal control characters escaped."""
    return _UNSAFE.sub(_escape, text)


def shown(value: object, faults: list[str]) -> JsonValue:
    """Return `value` as a JSON value; other types become text.

    A value that cannot become text is replaced by its type and reported in `faults`.
    """
    try:
        return _jsonable(value, faults, 0)
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        return _replaced(value, error, faults)


def _jsonable(value: object, faults: list[str], depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        # Python refuses to convert very long integers to decimal.
        return int(value) if value.bit_length() <= _LONGEST_INT_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {
                _text(key, faults): _jsonable(item, faults, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [_jsonable(item, faults, depth + 1) for item in value]
    return _text(value, faults)


def _replaced(value: object, error: Exception, faults: list[str]) -> str:
    faults.append(f"{type(value).__name__} could not be shown: {type(error).__name__}")
    return f"<{type(value).__name__}>"


def _text(value: object, faults: list[str]) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        return _replaced(value, error, faults)


def _message(record: logging.LogRecord, faults: list[str]) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        faults.append(f"message could not be formatted: {type(error).__name__}")
        return _text(record.msg, faults)


def _timestamp(created: float, *, utc: bool) -> str:
    moment = datetime.fromtimestamp(created, UTC)
    if utc:
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return moment.astimezone().isoformat(timespec="milliseconds")


def _error_fields(error: BaseException, faults: list[str], *, reason: str | None = None) -> Fields:
    """Return the ids, the class, the message and the location of an exception.

    The location is that of its root cause. An exception outside the catalogue is an internal error.
    """
    entry = getattr(error, "entry", None)
    if not isinstance(entry, CatalogueEntry):
        entry = _INTERNAL
    fields: Fields = {}
    if isinstance(error, PyocoError):
        fields |= {key: value for key, value in error.extra.items() if key not in RESERVED}
        fields["detail"] = error.detail
    fields |= {
        "err_id": entry.err_id,
        "msg_id": entry.msg_id,
        "reason": reason or _reason(error, entry),
        "exc_type": type(error).__name__,
        "exc_message": _text(error, faults),
        "exc_origin": _origin(_root_of(error)),
    }
    return fields


def _cause_field(error: BaseException, faults: list[str]) -> Fields:
    root = _root_of(error)
    return {} if root is error else {"exc_cause": f"{type(root).__name__}: {_text(root, faults)}"}


def _root_of(error: BaseException) -> BaseException:
    return list(_chain(error))[-1]


def _reason(error: BaseException, entry: CatalogueEntry) -> str:
    """Return the class name as a word: `FlowNotFoundError` is `flow_not_found`."""
    if entry is _INTERNAL:
        return "internal_error"
    return _WORD_START.sub("_", type(error).__name__.removesuffix("Error")).lower()


def _complete(fields: Fields) -> None:
    """Add the fields of an error that are missing: other libraries log errors without exceptions.

    The location is then that of the log call.
    """
    fields.setdefault("err_id", _INTERNAL.err_id)
    fields.setdefault("msg_id", _INTERNAL.msg_id)
    fields.setdefault("reason", "internal_error")
    fields.setdefault("exc_type", "InternalError")
    fields.setdefault("exc_message", fields["message"])
    if fields.get("exc_origin") is None:
        fields["exc_origin"] = f"{fields['pathname']}:{fields['lineno']} {fields['func']}"


def without_tracebacks(fields: Fields) -> Fields:
    """Return the fields without tracebacks, also those inside messages and other texts."""
    return {
        key: _without_traceback(value)
        for key, value in fields.items()
        if key not in ("exc_traceback", "stack")
    }


def _without_traceback(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _TRACEBACK.sub("", value) if _TRACEBACK_SIGN in value else value
    if isinstance(value, list):
        return [_without_traceback(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_traceback(item) for key, item in value.items()}
    return value


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _origin(error: BaseException) -> str | None:
    # Without `traceback.extract_tb`, which reads source files.
    link = error.__traceback__
    if link is None:
        return None
    while link.tb_next is not None:
        link = link.tb_next
    code = link.tb_frame.f_code
    return f"{code.co_filename}:{link.tb_lineno} {code.co_name}"


def _traceback(error: BaseException, faults: list[str]) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as failure:  # noqa: BLE001 - runs foreign code, and a log line must come out
        faults.append(f"traceback could not be formatted: {type(failure).__name__}")
        return "".join(traceback.format_tb(error.__traceback__))


def _text_value(value: JsonValue) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
