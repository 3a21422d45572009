"""The base of every named failure, and of those that come in several kinds."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar

from pydantic import JsonValue

from pyoco_protocol.problems.entries import CatalogueEntry, Language, Texts

# Where a value stands (`params.n`, `limit`) and what is wrong with it.
Faults = Sequence[tuple[str, str]]


class PyocoError(Exception):
    """A failure with a name; each subclass is one meaning and carries its values.

    `detail` says what happened this time, in English. `extra` goes into the body beside it.
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
        """What went wrong, as the catalogue words it."""
        return self.entry.message[language]

    def hint(self, language: Language = "en") -> str:
        """What to do next: this failure's own words where it has some, else the catalogue's."""
        return (self._hint or self.entry.hint)[language]


class FaultyInputError(PyocoError):
    """Input with one or more faults, all told at once."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self, faults: Faults) -> None:
        listed: list[JsonValue] = [{"where": where, "what": what} for where, what in faults]
        super().__init__(
            "; ".join(f"{where}: {what}" for where, what in faults), extra={"problems": listed}
        )
        self.faults = tuple(faults)


class TooLargeError(PyocoError):
    """Something above its size limit; its size is not known when reading stopped at the limit."""

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
