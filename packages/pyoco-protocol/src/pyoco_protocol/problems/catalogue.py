"""The catalogue of all errors, by error id."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyoco_protocol.problems.catalogue_access import ACCESS_ENTRIES
from pyoco_protocol.problems.catalogue_entry import CatalogueEntry
from pyoco_protocol.problems.catalogue_executions import EXECUTION_ENTRIES
from pyoco_protocol.problems.catalogue_server import SERVER_ENTRIES
from pyoco_protocol.problems.catalogue_spec import SPEC_ENTRIES

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = MappingProxyType(
    {
        entry.err_id: entry
        for entry in (*SPEC_ENTRIES, *SERVER_ENTRIES, *ACCESS_ENTRIES, *EXECUTION_ENTRIES)
    }
)
