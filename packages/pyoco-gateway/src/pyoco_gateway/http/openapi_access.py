"""Who may read the description of the API."""

from typing import Literal

DocsMode = Literal["auto", "open", "off"]
DocsAccess = Literal["open", "key", "off"]


def docs_access(mode: DocsMode, *, auth_on: bool) -> DocsAccess:
    """Return who may read `/openapi.json`: everybody, whoever has a key, or nobody."""
    if mode == "auto":
        return "key" if auth_on else "open"
    return mode
