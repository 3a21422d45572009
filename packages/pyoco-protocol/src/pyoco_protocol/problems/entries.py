"""How a failure is described: its two ids, its words in two languages, what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Language = Literal["en", "ja"]
Texts = Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One failure; ids are stable for ever, texts may get better.

    `retryable` says whether trying again can help once the hint has been followed. It is not
    a licence for a machine to repeat a request: that follows from the HTTP status.
    """

    err_id: str
    msg_id: str
    message: Texts
    hint: Texts
    retryable: bool


def entry(number: str, message: Texts, hint: Texts, *, retryable: bool = True) -> CatalogueEntry:
    """Return the failure with this number."""
    return CatalogueEntry(
        err_id=f"ERR-PYOCO-{number}",
        msg_id=f"MSG-PYOCO-{number}",
        message=MappingProxyType(message),
        hint=MappingProxyType(hint),
        retryable=retryable,
    )


def texts(en: str, ja: str) -> dict[Language, str]:
    """Return a text in both languages."""
    return {"en": en, "ja": ja}
