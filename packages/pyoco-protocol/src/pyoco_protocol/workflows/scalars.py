"""Converts plain YAML scalars; refuses those that YAML 1.1 and 1.2 read differently."""

import math
import re
from typing import Final

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_JSON: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# Scalars that YAML 1.1 reads as a number, date or boolean and 1.2 as text or another number.
_AMBIGUOUS: Final = re.compile(
    r"""
      [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?      # base 60
    | [-+]?0[0-9_]+                                     # octal
    | [-+]?0b[01_]+ | [-+]0[xo][0-9a-fA-F_]+            # binary; signed hexadecimal and octal
    | [-+]?(?=[0-9._]*_)(?=[0-9])[0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?  # 1_000
    | 0x[0-9a-fA-F_]*_[0-9a-fA-F_]*
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\ \t].*)?       # dates
    | yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF
    | =
    """,
    re.VERBOSE,
)

_NUMERIC: Final = re.compile(r"[0-9a-fA-FxobE+\-._:]*")

# Integers have at most 64 bits. Longer digit strings are never converted.
_MAX_INT: Final = 2**63 - 1
_MAX_INT_CHARS: Final = 24
_MAX_FLOAT_CHARS: Final = 400

Scalar = str | int | float | bool | None


class ScalarError(ValueError):
    """A plain scalar is not allowed in a workflow file; the message says what to write instead."""


def plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar; raise ScalarError if it is not allowed."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    first = text[0]
    # Fast path: most scalars are words.
    if not (first in "+-.=" or first.isdigit() or first in "yYnNoO"):
        return text
    if len(text) > _MAX_FLOAT_CHARS:
        if _looks_like_a_number(text):
            raise ScalarError("is a number that is too long; quote it if it is text")
        return text
    return _number_or_text(text)


def _looks_like_a_number(text: str) -> bool:
    # A single character class, so that the time is linear.
    return _NUMERIC.fullmatch(text) is not None


def _number_or_text(text: str) -> Scalar:
    if _NOT_JSON.fullmatch(text):
        raise ScalarError("is a number that JSON does not have; quote it if it is text")
    for form, base in ((_DECIMAL, 10), (_HEX, 16), (_OCTAL, 8)):
        if form.fullmatch(text):
            return _integer(text, base)
    if _AMBIGUOUS.fullmatch(text):
        raise ScalarError(
            "has different meanings in YAML 1.1 and YAML 1.2; quote it if it is text, or write the "
            "intended value"
        )
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScalarError("is a number beyond 1e308; quote it if it is text")
        return number
    return text


def _integer(text: str, base: int) -> int:
    # A longer text has more than 64 bits in any base.
    value = int(text, base) if len(text) <= _MAX_INT_CHARS + 2 else _MAX_INT + 1
    if not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise ScalarError("is an integer of more than 64 bits; quote it if it is text")
    return value
