"""Authentication of HTTP callers."""

from typing import Annotated, Literal

from pydantic import SecretStr

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    LOWER,
    HeaderName,
)


class HttpAuthSettings(PyocoSettings):
    """API keys of HTTP callers."""

    http_auth_mode: Annotated[Literal["none", "api_key"], LOWER] = setting(
        "none", "`none` accepts every request, `api_key` requires an API key.", "api_key"
    )
    http_api_key_header: HeaderName = setting("X-API-Key", "Header with the API key.", "X-API-Key")
    auth_pepper: SecretStr | None = setting(
        None,
        "Optional secret for the hashes of stored API keys, at least 16 characters. Keys issued "
        "with another pepper are not accepted; keys issued without one are.",
        "a-long-random-secret",
        secret=True,
    )
