"""Settings of the dashboard."""

from typing import Annotated, Literal

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    LOWER,
)


class DashboardSettings(PyocoSettings):
    """Language of the dashboard."""

    dashboard_lang: Annotated[Literal["auto", "ja", "en"], LOWER] = setting(
        "auto", "Language of the dashboard; `auto` follows the server's locale.", "ja"
    )
