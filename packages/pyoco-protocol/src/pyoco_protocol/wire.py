"""Base class of messages and stored records."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A message or stored record; ignores unknown fields, so that peers can differ in version."""

    model_config = ConfigDict(frozen=True, extra="ignore")
