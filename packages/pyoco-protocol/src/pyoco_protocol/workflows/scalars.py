"""What a plain scalar means: the core schema of YAML 1.2, and nothing two readers disagree on."""

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
# What YAML 1.1 reads as a number, a date or a boolean and 1.2 as text or another number.
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

# 64 bits, and the digits they can have: no text of a million digits is ever converted.
_MAX_INT: Final = 2**63 - 1
_MAX_INT_CHARS: Final = 24
_MAX_FLOAT_CHARS: Final = 400

Scalar = str | int | float | bool | None


class ScalarError(ValueError):
    """A plain scalar that has no place in a workflow file; says what to write instead."""


def plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar; raise ScalarError for one that is refused."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    first = text[0]
    # Most scalars are words; of the others none that matters is long.
    if not (first in "+-.=" or first.isdigit() or first in "yYnNoO"):
        return text
    if len(text) > _MAX_FLOAT_CHARS:
        if _looks_like_a_number(text):
            raise ScalarError("is a number that is too long; write it in quotes to have its text")
        return text
    return _number_or_text(text)


def _looks_like_a_number(text: str) -> bool:
    # Of one character after another, so that its cost is plain.
    return _NUMERIC.fullmatch(text) is not None


def _number_or_text(text: str) -> Scalar:
    if _NOT_JSON.fullmatch(text):
        raise ScalarError("is no number that JSON can carry; write it in quotes to have its text")
    for form, base in ((_DECIMAL, 10), (_HEX, 16), (_OCTAL, 8)):
        if form.fullmatch(text):
            return _integer(text, base)
    if _AMBIGUOUS.fullmatch(text):
        raise ScalarError(
            "means one thing in YAML 1.1 and another in YAML 1.2; write it in quotes to have its "
            "text, or write the value that is meant"
        )
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScalarError("is a number beyond 1e308; write it in quotes to have its text")
        return number
    return text


def _integer(text: str, base: int) -> int:
    # A number of 64 bits needs fewer, whatever its base.
    value = int(text, base) if len(text) <= _MAX_INT_CHARS + 2 else _MAX_INT + 1
    if not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise ScalarError("is an integer of more than 64 bits; write it in quotes to have its text")
    return value
