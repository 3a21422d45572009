"""Every failure the product names, by its id."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyoco_protocol.problems.access_entries import ACCESS
from pyoco_protocol.problems.added_entries import ADDED
from pyoco_protocol.problems.entries import CatalogueEntry
from pyoco_protocol.problems.published_entries import PUBLISHED

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = MappingProxyType(
    {entry.err_id: entry for entry in (*PUBLISHED, *ADDED, *ACCESS)}
)
