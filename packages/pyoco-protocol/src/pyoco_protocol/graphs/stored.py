"""Loads stored graph documents.

A stored document was accepted by the version that stored it, and executions use it for months. It
is not checked against the limits and rules of this version, which may be stricter.
"""

from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from pyoco_protocol.graphs.compiled import CompiledGraph, compiled
from pyoco_protocol.graphs.document import NODE_CLASSES, GraphDocument, NodeBase


class GraphUnusableError(ValueError):
    """A stored document cannot be compiled. The message has no values of it."""


def load_graph(source: dict[str, JsonValue]) -> CompiledGraph:
    """Return the graph of a stored document; raise GraphUnusableError."""
    try:
        return compiled(_document(source), source)
    except GraphUnusableError:
        raise
    except (LookupError, ValueError, ArithmeticError, RecursionError) as error:
        # Not chained: the original error would carry values of the document into the log.
        raise GraphUnusableError(type(error).__name__) from None


def _document(source: dict[str, JsonValue]) -> GraphDocument:
    document: GraphDocument = _without_limits(GraphDocument, source)
    if len({node.id for node in document.nodes}) < len(document.nodes):
        raise GraphUnusableError("two nodes have the same id")
    return document


def _model(model: type[BaseModel], raw: JsonValue) -> Any:
    """Return a part of the document, also one beyond its limits."""
    try:
        # Nearly all parts are within the limits, and this is much faster.
        return model.model_validate(raw)
    except ValidationError:
        return _without_limits(model, raw)


def _without_limits(model: type[BaseModel], raw: JsonValue) -> Any:
    """Return a part of the document; names and types of its fields must fit."""
    if not isinstance(raw, dict):
        raise GraphUnusableError(f"{model.__name__} is no object")
    values = {}
    known = {field.alias or name: field for name, field in model.model_fields.items()}
    for name, value in raw.items():
        if name not in known:
            raise GraphUnusableError(f"{model.__name__} has an unknown field")
        values[name] = _value(known[name].annotation, value)
    for name, field in known.items():
        if field.is_required() and name not in raw:
            raise GraphUnusableError(f"{model.__name__} has no field {name}")
    return model.model_construct(**values)


def _value(kind: Any, raw: JsonValue) -> Any:
    """Return a value of the type `kind`, one of those that graph documents use."""
    arguments = get_args(kind)
    match get_origin(kind):
        case None:
            return _simple(kind, raw)
        case origin if origin is Annotated:
            return _value(arguments[0], raw)
        case origin if origin in (Union, UnionType):
            return _one_of(arguments, raw)
        case origin if origin is Literal:
            return arguments[arguments.index(raw)]
        case origin if origin is dict and isinstance(raw, dict):
            return {name: _value(arguments[1], value) for name, value in raw.items()}
        case origin if origin in (list, tuple) and isinstance(raw, list | str):
            # A single type of an input may be written without brackets.
            items = [raw] if isinstance(raw, str) else raw
            return origin(_value(arguments[0], item) for item in items)
    raise GraphUnusableError("a field has another type")


def _one_of(kinds: tuple[Any, ...], raw: JsonValue) -> Any:
    """Return an optional value, or a node."""
    if NoneType not in kinds:
        return _model(NODE_CLASSES[str(raw["type"])] if isinstance(raw, dict) else NodeBase, raw)
    if raw is None:
        return None
    return _value(next(kind for kind in kinds if kind is not NoneType), raw)


def _simple(kind: Any, raw: JsonValue) -> Any:
    if kind is Any or type(raw) is kind:
        return raw
    if kind is float and type(raw) is int:
        return float(raw)
    if issubclass(kind, BaseModel):
        return _model(kind, raw)
    if issubclass(kind, Enum):
        return kind(raw)
    raise GraphUnusableError("a field has another type")
