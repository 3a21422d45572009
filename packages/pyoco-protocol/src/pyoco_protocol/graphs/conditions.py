"""Conditions on edges: comparisons of facts, without arithmetic, calls or regular expressions."""

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyoco_protocol.graphs.facts import Fact, Missing, Opaque
from pyoco_protocol.graphs.paths import Path, read_path
from pyoco_protocol.graphs.problems import LanguageError

MAX_TOKENS: Final = 200
MAX_NESTING: Final = 20

Lookup = Callable[[Path], Fact]
_Test = Callable[[Lookup], bool]
_Operand = Callable[[Lookup], Fact]

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SIGN: Final = re.compile(r"==|!=|<=|>=|<|>|[()\[\],]")
_ESCAPES: Final = {"'": "'", '"': '"', "\\": "\\", "n": "\n"}
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset({"and", "or", "not", "in", "exists", *_LITERALS})
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition and the paths that it reads."""

    text: str
    paths: tuple[Path, ...]
    _test: _Test

    def holds(self, lookup: Lookup) -> bool:
        """Return whether the condition is true for the facts that `lookup` returns."""
        return self._test(lookup)


def parse_condition(text: str) -> Condition:
    """Return the condition; raise LanguageError with the position of the fault."""
    parser = _Parser(_tokens(text), len(text))
    test = parser.expression(0)
    parser.expect_end()
    return Condition(text, tuple(dict.fromkeys(parser.paths)), test)


def read_literal(text: str, at: int) -> tuple[str | int | float | bool | None, int]:
    """Return the literal at a position, and the position after it; raise LanguageError."""
    word = _WORD.match(text, at)
    if at < len(text) and (word is None or word.group() in _LITERALS):
        token, end = _token(text, at)
        if token.kind == "literal" and not isinstance(token.value, Path | Missing | Opaque):
            return token.value, end
    raise LanguageError("a number, a text, true, false or null is expected", at)


@dataclass(frozen=True, slots=True)
class _Token:
    # "sign", "word", "path" or "literal".
    kind: str
    position: int
    text: str
    value: Path | Fact = None


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        if match := _SPACE.match(text, at):
            at = match.end()
            continue
        token, at = _token(text, at)
        tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            raise LanguageError(f"a condition has at most {MAX_TOKENS} tokens", token.position)
    return tokens


def _token(text: str, at: int) -> tuple[_Token, int]:
    if match := _SIGN.match(text, at):
        return _Token("sign", at, match.group()), match.end()
    if text[at] in "'\"":
        return _quoted(text, at)
    if match := _NUMBER.match(text, at):
        return _number(match.group(), at), match.end()
    if match := _WORD.match(text, at):
        word = match.group()
        # No path begins with one of these.
        if word in _RESERVED:
            if word in _LITERALS:
                return _Token("literal", at, word, _LITERALS[word]), match.end()
            return _Token("word", at, word), match.end()
        path, end = read_path(text, at)
        return _Token("path", at, path.text, path), end
    raise LanguageError(f"{text[at]!r} is not expected", at)


def _number(written: str, at: int) -> _Token:
    value: int | float
    try:
        value = json.loads(written)
    except ValueError:
        # Python refuses to convert integers of thousands of digits.
        raise LanguageError("the number has too many digits", at) from None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise LanguageError("the number is beyond 1e308", at)
    return _Token("literal", at, written, value)


def _quoted(text: str, start: int) -> tuple[_Token, int]:
    quote, at = text[start], start + 1
    chars: list[str] = []
    while at < len(text):
        char = text[at]
        if char == quote:
            return _Token("literal", start, text[start : at + 1], "".join(chars)), at + 1
        if char == "\\":
            escaped = _ESCAPES.get(text[at + 1 : at + 2])
            if escaped is None:
                raise LanguageError("the escapes are \\' \\\" \\\\ \\n", at)
            char, at = escaped, at + 1
        chars.append(char)
        at += 1
    raise LanguageError("the text has no closing quote", start)


class _Parser:
    """Recursive descent; the depth is limited."""

    def __init__(self, tokens: list[_Token], end: int) -> None:
        self.paths: list[Path] = []
        self._tokens = tokens
        self._next = 0
        self._end = end

    def expression(self, depth: int) -> _Test:
        tests = [self._conjunction(depth)]
        while self._take("word", "or"):
            tests.append(self._conjunction(depth))
        if len(tests) == 1:
            return tests[0]
        return lambda lookup: any(test(lookup) for test in tests)

    def expect_end(self) -> None:
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            raise LanguageError(f"{token.text!r} is not expected", token.position)

    def _conjunction(self, depth: int) -> _Test:
        tests = [self._negation(depth)]
        while self._take("word", "and"):
            tests.append(self._negation(depth))
        if len(tests) == 1:
            return tests[0]
        return lambda lookup: all(test(lookup) for test in tests)

    def _negation(self, depth: int) -> _Test:
        if depth > MAX_NESTING:
            raise LanguageError(f"a condition is nested at most {MAX_NESTING} deep", self._position)
        if self._take("word", "not"):
            test = self._negation(depth + 1)
            return lambda lookup: not test(lookup)
        return self._comparison(depth)

    def _comparison(self, depth: int) -> _Test:
        if self._take("sign", "("):
            test = self.expression(depth + 1)
            self._expect(")")
            return test
        if self._take("word", "exists"):
            self._expect("(")
            path = self._path()
            self._expect(")")
            return lambda lookup: not isinstance(lookup(path), Missing)
        left = self._operand()
        if self._take("word", "in"):
            choices = self._list()
            return lambda lookup: any(_equal(left(lookup), choice) for choice in choices)
        if sign := self._comparator():
            right = self._operand()
            return lambda lookup: _compared(left(lookup), sign, right(lookup))
        return lambda lookup: left(lookup) is True

    def _operand(self) -> _Operand:
        token = self._peek()
        if token is not None and token.kind == "path":
            path = self._path()
            return lambda lookup: lookup(path)
        value = self._literal("a path or a literal")
        return lambda _: value

    def _literal(self, expected: str = "a literal") -> Fact:
        token = self._peek()
        if token is None or token.kind != "literal" or isinstance(token.value, Path):
            found = "the end" if token is None else repr(token.text)
            raise LanguageError(f"{expected} is expected, not {found}", self._position)
        self._next += 1
        return token.value

    def _path(self) -> Path:
        token = self._peek()
        if token is None or not isinstance(token.value, Path):
            raise LanguageError("a path is expected", self._position)
        self._next += 1
        self.paths.append(token.value)
        return token.value

    def _list(self) -> tuple[Fact, ...]:
        self._expect("[")
        values: list[Fact] = []
        if self._take("sign", "]"):
            return ()
        while True:
            values.append(self._literal())
            if self._take("sign", "]"):
                return tuple(values)
            self._expect(",")

    def _comparator(self) -> str | None:
        token = self._peek()
        if token is None or token.text not in ("==", "!=", *_ORDER) or token.kind != "sign":
            return None
        self._next += 1
        return token.text

    @property
    def _position(self) -> int:
        token = self._peek()
        return self._end if token is None else token.position

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, kind: str, text: str) -> bool:
        token = self._peek()
        found = token is not None and token.kind == kind and token.text == text
        self._next += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._take("sign", sign):
            raise LanguageError(f"{sign!r} is expected", self._position)


def _compared(left: Fact, sign: str, right: Fact) -> bool:
    if isinstance(left, Missing | Opaque) or isinstance(right, Missing | Opaque):
        return False
    if sign == "==":
        return _equal(left, right)
    if sign == "!=":
        return not _equal(left, right)
    if (_is_number(left) and _is_number(right)) or (
        isinstance(left, str) and isinstance(right, str)
    ):
        return _ORDER[sign](left, right)
    return False


def _equal(left: Fact, right: Fact) -> bool:
    if isinstance(left, Missing | Opaque) or isinstance(right, Missing | Opaque):
        return False
    if _is_number(left) and _is_number(right):
        return left == right
    return type(left) is type(right) and left == right


def _is_number(value: Fact) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
