"""An entry of the error catalogue: two ids, a message and a hint in two languages."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Language = Literal["en", "ja"]
Texts = Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One kind of error. Ids never change; texts may be improved.

    `retryable` says whether a retry can succeed after the hint was followed. Whether a program
    may repeat a request by itself depends on the HTTP status instead.
    """

    err_id: str
    msg_id: str
    message: Texts
    hint: Texts
    retryable: bool


def entry(number: str, message: Texts, hint: Texts, *, retryable: bool = True) -> CatalogueEntry:
    """Return the catalogue entry with this number."""
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
