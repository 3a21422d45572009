"""Whether and where a `.env` file is read."""

from pathlib import Path

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    Boolean,
    PathValue,
)


class DotenvSettings(PyocoSettings):
    """The `.env` file. Both settings are read from the environment only."""

    load_dotenv: Boolean = setting(True, "Whether the `.env` file is read.", "0")
    env_file: PathValue = setting(
        Path(".env"),
        "Path of the `.env` file; the environment overrides it. A path set here must exist.",
        "/etc/pyoco/server.env",
    )
