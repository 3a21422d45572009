"""Writes the types of fields as docs/executions-reference.md writes them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from pyoco_protocol.graphs import document

# The tables of parts of a graph have other headings than their classes.
GRAPH_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "Graph documents": document.GraphDocument,
    "Graph: inputSchema": document.InputSchema,
    "Graph: inputSchema, property": document.InputProperty,
    "Edge": document.Edge,
    "Task: run": document.RunBinding,
    "Task: retry": document.RetryPolicy,
    "Task: retry, backoff": document.Backoff,
    "Wait: wait": document.WaitSpec,
    "Failed: error": document.EndError,
}
_HEADINGS: Final = {part.__name__: heading for heading, part in GRAPH_PARTS.items()}
_PLURALS: Final = {"Edge": "edges", "InputProperty": "properties"}
_FORMATS: Final = {document.GRAPH_ID_PATTERN: "graph id", document.NODE_ID_PATTERN: "node id"}
# Enums without a table of their own: their values are the type.
_INLINE: Final = frozenset({"ActorKind", "FailurePolicy", "JoinPolicy", "Losers", "OnTimeout"})
_NODES: Final = "[nodes](#node)"

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class FieldText:
    """A field as a row of the page."""

    name: str
    type: str
    is_required: bool
    default: Any

    @property
    def default_text(self) -> str:
        """The default as the page writes it; an object is described by its own table."""
        if self.is_required:
            return "required"
        if self.default is None or isinstance(self.default, dict):
            return "–"
        return str(self.default if isinstance(self.default, str) else json.dumps(self.default))

    @property
    def presence(self) -> str:
        """Whether the field is always present: it is required, or has a default."""
        return "yes" if self.is_required or self.default is not None else "no"


def field_texts(model: type[BaseModel], *left_out: str) -> Iterator[FieldText]:
    """Yield the fields of a model by their names on the wire."""
    whole = model.model_json_schema()
    required = whole.get("required", ())
    for name, schema in whole["properties"].items():
        if name in left_out:
            continue
        shown = dict(schema)
        if name not in required and "anyOf" in shown:
            # An optional field is left out, not null.
            shown["anyOf"] = [each for each in shown["anyOf"] if each.get("type") != "null"]
        text = _type(shown, whole.get("$defs", {}))
        yield FieldText(name, text, name in required, schema.get("default"))


def schema_text(schema: Schema) -> str:
    """Return the type of a schema without references."""
    return _type(schema, {})


def _type(schema: Schema, definitions: Schema) -> str:
    if "$ref" in schema:
        name = _referred(schema)
        if name in _INLINE:
            return _listed(definitions[name]["enum"])
        return _link(name, "object" if name in _HEADINGS else name)
    if "anyOf" in schema:
        return " or ".join(_type(each, definitions) for each in schema["anyOf"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return _listed(schema["enum"])
    match schema["type"]:
        case "array":
            items = f"array of {_items(schema['items'], definitions)}"
            return _joined(items, _range(schema, "Items", " items"))
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_items(schema['additionalProperties'], definitions)}"
        case "string" if schema.get("pattern") in _FORMATS:
            return _FORMATS[schema["pattern"]]
        case "string":
            return _joined("string", _range(schema, "Length", " characters"))
        case kind:
            return _joined(kind, _range(schema, "imum", ""))


def _items(schema: Schema, definitions: Schema) -> str:
    """Return the type of items, in the plural."""
    if "anyOf" in schema:
        return _NODES
    if "$ref" in schema:
        name = _referred(schema)
        return _link(name, _PLURALS.get(name, name))
    if "enum" in schema:
        return _listed(schema["enum"])
    length = _range(schema, "Length", " characters")
    return f"{schema['type']}s" + (f" of {length}" if length else "")


def _referred(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _link(name: str, word: str) -> str:
    anchor = re.sub(r"[^\w -]", "", _HEADINGS.get(name, name)).lower().replace(" ", "-")
    return f"[{word}](#{anchor})"


def _listed(values: list[str]) -> str:
    return _joined(*(f"`{value}`" for value in values))


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _range(schema: Schema, name: str, unit: str) -> str:
    least, most = schema.get(f"min{name}"), schema.get(f"max{name}")
    if least is None and most is None:
        return ""
    if least is None:
        return f"≤ {most:,}{unit}"
    return f"≥ {least:,}{unit}" if most is None else f"{least:,}–{most:,}{unit}"
