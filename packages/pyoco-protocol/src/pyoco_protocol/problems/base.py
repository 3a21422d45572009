"""Base classes of all errors in the catalogue."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar

from pydantic import JsonValue

from pyoco_protocol.problems.catalogue_entry import CatalogueEntry, Language, Texts

# Pairs of a location (`params.n`, `limit`) and a description of the fault there.
Faults = Sequence[tuple[str, str]]


class PyocoError(Exception):
    """Base of all errors. Each subclass has one catalogue entry and one HTTP status.

    `detail` describes this occurrence in English. `extra` adds fields to the response body.
    """

    entry: ClassVar[CatalogueEntry]
    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(
        self,
        detail: str,
        *,
        extra: Mapping[str, JsonValue] | None = None,
        hint: Texts | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra: dict[str, JsonValue] = {
            key: value for key, value in (extra or {}).items() if value is not None
        }
        self._hint = hint

    def message(self, language: Language = "en") -> str:
        """Return the message of the catalogue entry."""
        return self.entry.message[language]

    def hint(self, language: Language = "en") -> str:
        """Return the hint of this error, or that of the catalogue entry."""
        return (self._hint or self.entry.hint)[language]


class FaultyInputError(PyocoError):
    """Invalid input; lists all faults."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self, faults: Faults) -> None:
        listed: list[JsonValue] = [{"where": where, "what": what} for where, what in faults]
        super().__init__(
            "; ".join(f"{where}: {what}" for where, what in faults), extra={"problems": listed}
        )
        self.faults = tuple(faults)


class TooLargeError(PyocoError):
    """Input above its size limit. The size is unknown if reading stopped at the limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    what: ClassVar[str]

    def __init__(self, max_bytes: int, size_bytes: int | None = None) -> None:
        size = "too large" if size_bytes is None else f"{size_bytes} bytes"
        super().__init__(
            f"{self.what}: {size}; the limit is {max_bytes} bytes",
            extra={"max_bytes": max_bytes, "size_bytes": size_bytes},
        )
        self.max_bytes = max_bytes
        self.size_bytes = size_bytes
