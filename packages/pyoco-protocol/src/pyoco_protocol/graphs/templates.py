"""Templates: texts with `${path}`, in wait keys, in prompts and in the params of runs."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.conditions import read_literal
from pyoco_protocol.graphs.facts import Fact, Missing, Opaque
from pyoco_protocol.graphs.paths import Path, read_path
from pyoco_protocol.graphs.problems import LanguageError, shown

_OPEN: Final = "${"
_ESCAPED: Final = "$${"
_DEFAULT: Final = "??"

FactLookup = Callable[[Path], Fact]
ValueLookup = Callable[[Path], JsonValue | Missing]


class UnresolvedError(ValueError):
    """A path of a template leads nowhere and has no default."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has no value")
        self.path = path


@dataclass(frozen=True, slots=True)
class Reference:
    """A `${path}` of a template, and the literal after `??` if there is one."""

    path: Path
    has_default: bool = False
    default: JsonValue = None


@dataclass(frozen=True, slots=True)
class Template:
    """A text and its references, in the order in which they are written."""

    text: str
    parts: tuple[str | Reference, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that the template reads."""
        return tuple(part.path for part in self.parts if isinstance(part, Reference))


def parse_template(text: str, *, for_params: bool = False) -> Template:
    """Return the template; raise LanguageError with the position of the fault.

    `for_params` allows defaults and the paths of the execution, which only params may have.
    """
    parts: list[str | Reference] = []
    plain: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith(_ESCAPED, at):
            plain.append(_OPEN)
            at += len(_ESCAPED)
        elif text.startswith(_OPEN, at):
            if plain:
                parts.append("".join(plain))
                plain = []
            reference, at = _reference(text, at, for_params=for_params)
            parts.append(reference)
        else:
            end = _next_dollar(text, at)
            plain.append(text[at:end])
            at = end
    if plain:
        parts.append("".join(plain))
    return Template(text, tuple(parts))


def _next_dollar(text: str, at: int) -> int:
    found = text.find("$", at + 1)
    return len(text) if found < 0 else found


def _reference(text: str, start: int, *, for_params: bool) -> tuple[Reference, int]:
    at = _skip_spaces(text, start + len(_OPEN))
    path, at = read_path(text, at, edge=False, execution=for_params)
    at = _skip_spaces(text, at)
    reference = Reference(path)
    if for_params and text.startswith(_DEFAULT, at):
        at = _skip_spaces(text, at + len(_DEFAULT))
        default, at = read_literal(text, at)
        reference = Reference(path, has_default=True, default=default)
        at = _skip_spaces(text, at)
    if not text.startswith("}", at):
        raise LanguageError("'}' is expected after the path", at)
    return reference, at + 1


def _skip_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def strings_of(value: JsonValue, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string of a JSON value with its place in it; keys are shortened there."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_of(item, f"{where}.{shown(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings_of(item, f"{where}[{index}]")


def render_text(template: Template, lookup: FactLookup) -> str:
    """Return the text of a wait key or prompt; a missing fact is empty text."""
    return "".join(
        part if isinstance(part, str) else _fact_text(lookup(part.path)) for part in template.parts
    )


def _fact_text(fact: Fact) -> str:
    if isinstance(fact, str):
        return fact
    if fact is None or isinstance(fact, Missing | Opaque):
        return ""
    return json.dumps(fact)


def render_object(value: Mapping[str, JsonValue], lookup: FactLookup) -> dict[str, JsonValue]:
    """Return a prompt with the templates in its strings rendered."""

    def rendered(text: str) -> str:
        return render_text(parse_template(text), lookup)

    return {key: _mapped(item, rendered) for key, item in value.items()}


def resolve_params(value: JsonValue, lookup: ValueLookup) -> JsonValue:
    """Return params with their templates resolved; raise UnresolvedError.

    A string that is one `${path}` and nothing else becomes the value itself, of any type.
    """
    return _mapped(value, lambda text: _resolved(parse_template(text, for_params=True), lookup))


def _resolved(template: Template, lookup: ValueLookup) -> JsonValue:
    values = [part if isinstance(part, str) else _value(part, lookup) for part in template.parts]
    if len(values) == 1:
        return values[0]
    return "".join(
        _value_text(value) if isinstance(part, Reference) else part
        for part, value in zip(template.parts, values, strict=True)
    )


def _value(reference: Reference, lookup: ValueLookup) -> JsonValue:
    value = lookup(reference.path)
    if not isinstance(value, Missing):
        return value
    if not reference.has_default:
        raise UnresolvedError(reference.path.text)
    return reference.default


def _value_text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value).decode()


def _mapped(value: JsonValue, change: Callable[[str], JsonValue]) -> JsonValue:
    if isinstance(value, str):
        return change(value) if "$" in value else value
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value
