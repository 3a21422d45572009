"""Access to the API description."""

from typing import Literal

DocsMode = Literal["auto", "open", "off"]
DocsAccess = Literal["open", "key", "off"]


def docs_access(mode: DocsMode, *, auth_on: bool) -> DocsAccess:
    """Return whether `/openapi.json` is public, requires a key, or is not served."""
    if mode == "auto":
        return "key" if auth_on else "open"
    return mode
