"""Reads graph documents from request bodies."""

from dataclasses import dataclass
from functools import partial

from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.http.body_rules import YAML
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.parsing import parse_json, parse_yaml
from pyoco_protocol.graphs.validation import validate_graph


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """Parses and validates the document in a body."""

    parse: ParseDocument

    async def __call__(self, body: bytes, media_type: bytes) -> CompiledGraph:
        """Return the graph; raise GraphInvalidError with all problems of the document."""
        return await self.parse(partial(_graph, body, media_type), len(body))


def _graph(body: bytes, media_type: bytes) -> CompiledGraph:
    return validate_graph(parse_yaml(body) if media_type == YAML else parse_json(body))
