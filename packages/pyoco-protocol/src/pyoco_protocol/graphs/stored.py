"""Loads stored graph documents.

A stored document was accepted by the version that stored it, and executions use it for months. So
the rules of acceptance, which may be stricter now, are not applied again. The limits of single
fields are: a later version may widen them, but must not narrow them.
"""

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from pyoco_protocol.graphs.compiled import CompiledGraph, compiled
from pyoco_protocol.graphs.document import GraphDocument


class GraphUnusableError(ValueError):
    """A stored document cannot be compiled. The message has no values of it."""


def load_graph(source: dict[str, JsonValue]) -> CompiledGraph:
    """Return the graph of a stored document; raise GraphUnusableError."""
    try:
        document = GraphDocument.model_validate_json(to_json(source))
    except ValidationError:
        # Not chained: the original error would carry values of the document into the log.
        raise GraphUnusableError("a field is invalid") from None
    if len({node.id for node in document.nodes}) < len(document.nodes):
        raise GraphUnusableError("two nodes have the same id")
    try:
        return compiled(document, source)
    except (LookupError, ValueError) as error:
        raise GraphUnusableError(type(error).__name__) from None
