"""A log record as fields, and fields as one line: whatever is in them, it stays one line."""

import json
import logging
import math
import re
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.problems import PyocoError

Fields = dict[str, JsonValue]

# What logging itself puts on a record; `extra` may not use these names.
RESERVED: Final = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})
# uvicorn's second wording of its message, with terminal colours.
_DROPPED: Final = frozenset({"color_message"})

_MAX_DEPTH: Final = 8
_LONGEST_INT_BITS: Final = 4096
# What ends a line or steers a terminal somewhere: C0 and C1 controls, the Unicode line breaks,
# what reverses the direction of text, and halves of characters, which UTF-8 cannot carry.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# What `text_line` shows in its own place.
_IN_HEAD: Final = frozenset(
    {"ts", "level", "service", "logger", "message", "pathname", "lineno", "func"}
)
_PLAIN: Final = re.compile(r"[^\s\"=]+")


def error_fields(error: PyocoError) -> Fields:
    """Return what a log line should say of `error`, for `extra`."""
    own = {key: value for key, value in error.extra.items() if key not in RESERVED}
    return {
        **own,
        "err_id": error.entry.err_id,
        "msg_id": error.entry.msg_id,
        "detail": error.detail,
    }


def fields_of(
    record: logging.LogRecord, *, service: str, utc: bool = True, include_traceback: bool = True
) -> Fields:
    """Return a record as JSON-able fields.

    `log_error` among them says that a part could not be shown; the rest is there all the same.
    """
    troubles: list[str] = []
    fields: Fields = {
        "ts": _timestamp(record.created, utc=utc),
        "service": service,
        "level": record.levelname,
        "logger": record.name,
        "message": _message(record, troubles),
        "pathname": record.pathname,
        "lineno": record.lineno,
        "func": record.funcName,
    }
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        fields.update(_exception_fields(error, troubles, include_traceback=include_traceback))
    if record.stack_info:
        fields["stack"] = record.stack_info
    for key, value in record.__dict__.items():
        if key not in RESERVED and key not in _DROPPED:
            # An extra never replaces a fact about the record itself.
            own = key if key not in fields else f"extra_{key}"
            fields[own] = shown(value, troubles)
    if isinstance(error, PyocoError):
        for key, value in error_fields(error).items():
            fields.setdefault(key, shown(value, troubles))
    if troubles:
        fields["log_error"] = "; ".join(troubles)
    return fields


def json_line(fields: Mapping[str, JsonValue], *, ascii_only: bool = False) -> str:
    """Return fields as one line of JSON; `ascii_only` suits a stream that cannot take more."""
    line = json.dumps(fields, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def text_line(fields: Mapping[str, JsonValue], *, ascii_only: bool = False) -> str:
    """Return fields as one line for people: when, how grave, where, what, then the rest."""
    head = f"{fields['ts']} {fields['level']:<8} {fields['service']} {fields['logger']}"
    rest = [f"{key}={_text_value(item)}" for key, item in fields.items() if key not in _IN_HEAD]
    place = _text_value(f"{fields['pathname']}:{fields['lineno']}")
    line = escaped(" ".join([f"{head}: {fields['message']}", *rest, f"at={place}"]))
    return line.encode("ascii", "backslashreplace").decode() if ascii_only else line


def escaped(text: str) -> str:
    """Return `text` with everything escaped that would end its line or steer a terminal."""
    return _UNSAFE.sub(_escape, text)


def shown(value: object, troubles: list[str]) -> JsonValue:
    """Return `value` as JSON can hold it; what JSON does not know becomes text.

    What cannot even become text is replaced by its type, and told in `troubles`.
    """
    try:
        return _jsonable(value, troubles, 0)
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        return _replaced(value, error, troubles)


def _jsonable(value: object, troubles: list[str], depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        # Python refuses to write out very long integers in decimal.
        return int(value) if value.bit_length() <= _LONGEST_INT_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {
                _text(key, troubles): _jsonable(item, troubles, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [_jsonable(item, troubles, depth + 1) for item in value]
    return _text(value, troubles)


def _replaced(value: object, error: Exception, troubles: list[str]) -> str:
    troubles.append(f"{type(value).__name__} could not be shown: {type(error).__name__}")
    return f"<{type(value).__name__}>"


def _text(value: object, troubles: list[str]) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        return _replaced(value, error, troubles)


def _message(record: logging.LogRecord, troubles: list[str]) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - runs foreign code, and a log line must come out
        troubles.append(f"message could not be formatted: {type(error).__name__}")
        return _text(record.msg, troubles)


def _timestamp(created: float, *, utc: bool) -> str:
    moment = datetime.fromtimestamp(created, UTC)
    if utc:
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return moment.astimezone().isoformat(timespec="milliseconds")


def _exception_fields(
    error: BaseException, troubles: list[str], *, include_traceback: bool
) -> Fields:
    """Return who failed, of what, and where: the place is that of the first failure of a chain."""
    first = list(_chain(error))[-1]
    fields: Fields = {
        "exc_type": _type_name(error),
        "exc_message": _text(error, troubles),
        "exc_origin": _origin(first),
    }
    if first is not error:
        fields["exc_cause"] = f"{_type_name(first)}: {_text(first, troubles)}"
    if include_traceback:
        fields["exc_traceback"] = _traceback(error, troubles)
    return fields


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _origin(error: BaseException) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno} {frames[-1].name}" if frames else None


def _traceback(error: BaseException, troubles: list[str]) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as failure:  # noqa: BLE001 - runs foreign code, and a log line must come out
        troubles.append(f"traceback could not be formatted: {type(failure).__name__}")
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
