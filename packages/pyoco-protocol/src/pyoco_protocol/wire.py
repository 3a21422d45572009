"""The base of all that travels or rests outside a process."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A value on the wire; skips unknown fields, for peers are upgraded one by one."""

    model_config = ConfigDict(frozen=True, extra="ignore")
