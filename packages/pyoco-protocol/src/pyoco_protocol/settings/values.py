"""Types of setting values and their validation."""

import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from pyoco_protocol.ids import MAX_TAG_CHARS, is_tag

_BOOLEANS: Final = {
    **dict.fromkeys(("0", "false", "no", "off"), False),
    **dict.fromkeys(("1", "true", "yes", "on"), True),
}
_MAX_NAME_CHARS: Final = 200
# A child with the engine loaded needs 180 MB of virtual memory.
MIN_MEMORY_BYTES: Final = 268_435_456
_YEAR_SEC: Final = 31_536_000

# A token of a subject, stream name or bucket name. NATS allows more characters, tools do not.
_WORD: Final = r"[A-Za-z0-9_-]+"
_NATS_SCHEMES: Final = ("nats", "tls", "ws", "wss")

# The default maximum of a NATS message, and the space for the rest of a message.
NATS_PAYLOAD_BYTES: Final = 1_048_576
_ENVELOPE_BYTES: Final = 65_536


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = _BOOLEANS.get(value.lower()) if isinstance(value, str) else None
    if known is None:
        raise ValueError("must be 1, true, yes or on, or 0, false, no or off")
    return known


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _tag(text: str) -> str:
    if not is_tag(text):
        raise ValueError(f"must be 1 to {MAX_TAG_CHARS} letters, digits, '_' or '-' (no dots)")
    return text


def split_commas(text: str) -> tuple[str, ...]:
    """Return the non-empty parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def split_tags(text: str) -> tuple[str, ...]:
    """Return the tags in a comma-separated list, without repeats."""
    return tuple(dict.fromkeys(split_commas(text)))


def _tags(text: str) -> str:
    for tag in split_tags(text):
        _tag(tag)
    return text


def _name(text: str) -> str:
    if not re.fullmatch(_WORD, text) or len(text) > _MAX_NAME_CHARS:
        raise ValueError(f"must be 1 to {_MAX_NAME_CHARS} letters, digits, '_' or '-'")
    return text


def _subject_prefix(text: str) -> str:
    if not re.fullmatch(rf"{_WORD}(\.{_WORD})*", text) or len(text) > _MAX_NAME_CHARS:
        raise ValueError("must be words of letters, digits, '_' or '-', separated by single dots")
    return text


def _header_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", text):
        raise ValueError("must be the name of an HTTP header")
    return text


def split_urls(text: str) -> list[str]:
    """Return the addresses in a comma-separated list."""
    return [url.strip() for url in text.split(",")]


def _nats_urls(text: str) -> str:
    # The value may contain a password, so error messages never include it.
    for url in split_urls(text):
        try:
            parts = urlsplit(url)
            usable = parts.scheme in _NATS_SCHEMES and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or re.search(r"[\s\x00-\x1f\x7f]", url):
            raise ValueError(
                f"must be an address like nats://host:4222 (schemes: {', '.join(_NATS_SCHEMES)}); "
                "several are separated by commas"
            )
    return text


def _module_names(text: str) -> str:
    for name in split_commas(text):
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
            raise ValueError(
                "must be names of modules such as my_company.tasks, separated by commas"
            )
    return text


def _memory_limit(value: int) -> int:
    if 0 < value < MIN_MEMORY_BYTES:
        raise ValueError(f"must be 0 for no limit, or at least {MIN_MEMORY_BYTES}")
    return value


def _path(value: Path) -> Path:
    if "\0" in str(value):
        raise ValueError("must be a path")
    return value


Boolean = Annotated[bool, BeforeValidator(_boolean)]
TagName = Annotated[str, AfterValidator(_tag)]
TagNames = Annotated[str, AfterValidator(_tags)]
Name = Annotated[str, AfterValidator(_name)]
SubjectPrefix = Annotated[str, AfterValidator(_subject_prefix)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
NatsUrls = Annotated[str, AfterValidator(_nats_urls)]
ModuleNames = Annotated[str, AfterValidator(_module_names)]
PathValue = Annotated[Path, AfterValidator(_path)]
UPPER: Final = BeforeValidator(_upper)
LOWER: Final = BeforeValidator(_lower)

# Shorter intervals would be busy loops.
Interval = Annotated[float, Field(ge=0.01, le=_YEAR_SEC, allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0, le=_YEAR_SEC, allow_inf_nan=False)]
# JetStream ages are whole seconds; the maximum keeps them within its 64-bit nanoseconds.
Age = Annotated[int, Field(ge=0, le=100 * _YEAR_SEC)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=0, le=2**53)]
MemoryLimit = Annotated[Limit, AfterValidator(_memory_limit)]
Replicas = Annotated[int, Field(ge=1, le=5)]
StoredBytes = Annotated[int, Field(ge=1, le=2**40)]
MessageBytes = Annotated[int, Field(ge=1024, le=NATS_PAYLOAD_BYTES - _ENVELOPE_BYTES)]
ParamsBytes = Annotated[int, Field(ge=256, le=NATS_PAYLOAD_BYTES - _ENVELOPE_BYTES)]
