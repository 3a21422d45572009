"""Base class of the messages of executions, with field names in camelCase on the wire."""

from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from pyoco_protocol.wire import WireModel

# Input, output and prompts of users. The content is opaque and was parsed from JSON, so it is
# not validated again.
JsonObject = dict[str, Any]


class CamelModel(WireModel):
    """A message with camelCase names; fields that are None are left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    def to_wire(self) -> JsonObject:
        """Return the JSON object, without the fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
