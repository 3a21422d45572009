"""Base classes of all errors in the catalogue."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from pyoco_protocol.problems.catalogue_entry import CatalogueEntry, Language, Texts

# Pairs of a location (`params.n`, `limit`) and a description of the fault there.
Faults = Sequence[tuple[str, str]]

# The code of an error that names none, by its status. Codes are stable: they are no texts.
CODES: Final[Mapping[HTTPStatus, str]] = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: "BAD_REQUEST",
        HTTPStatus.UNAUTHORIZED: "UNAUTHENTICATED",
        HTTPStatus.FORBIDDEN: "FORBIDDEN",
        HTTPStatus.NOT_FOUND: "NOT_FOUND",
        HTTPStatus.METHOD_NOT_ALLOWED: "METHOD_NOT_ALLOWED",
        HTTPStatus.REQUEST_TIMEOUT: "REQUEST_TIMEOUT",
        HTTPStatus.CONFLICT: "CONFLICT",
        HTTPStatus.PRECONDITION_FAILED: "VERSION_MISMATCH",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "PAYLOAD_TOO_LARGE",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UNSUPPORTED_MEDIA_TYPE",
        HTTPStatus.MISDIRECTED_REQUEST: "MISDIRECTED_REQUEST",
        HTTPStatus.UNPROCESSABLE_ENTITY: "INVALID_REQUEST",
        HTTPStatus.TOO_MANY_REQUESTS: "TOO_MANY_REQUESTS",
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "HEADERS_TOO_LARGE",
        HTTPStatus.INTERNAL_SERVER_ERROR: "INTERNAL",
        HTTPStatus.SERVICE_UNAVAILABLE: "BROKER_UNAVAILABLE",
        HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "HTTP_VERSION_NOT_SUPPORTED",
    }
)


class PyocoError(Exception):
    """Base of all errors. Each subclass has one catalogue entry and one HTTP status.

    `detail` describes this occurrence in English. `extra` adds fields to the response body.

    The routes of executions and graphs have another body, with a stable `code` and `details`. A
    class without a code of its own has the code of its status. `details` adds fields to this body
    only; the fields of `extra` are in it too.
    """

    entry: ClassVar[CatalogueEntry]
    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    code: ClassVar[str] = CODES[HTTPStatus.INTERNAL_SERVER_ERROR]
    # The status on the routes of executions and graphs, if it differs.
    execution_status: ClassVar[HTTPStatus | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Give a class with a status and without a code the code of its status."""
        super().__init_subclass__(**arguments)
        if "status" in vars(cls) and "code" not in vars(cls):
            cls.code = CODES[cls.status]

    def __init__(
        self,
        detail: str,
        *,
        extra: Mapping[str, JsonValue] | None = None,
        details: Mapping[str, JsonValue] | None = None,
        hint: Texts | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = _known(extra)
        self.details = _known(details)
        self._hint = hint

    def message(self, language: Language = "en") -> str:
        """Return the message of the catalogue entry."""
        return self.entry.message[language]

    def hint(self, language: Language = "en") -> str:
        """Return the hint of this error, or that of the catalogue entry."""
        return (self._hint or self.entry.hint)[language]


def _known(fields: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    return {key: value for key, value in (fields or {}).items() if value is not None}


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

    def __init__(
        self,
        max_bytes: int,
        size_bytes: int | None = None,
        *,
        what: str | None = None,
        hint: Texts | None = None,
    ) -> None:
        size = "too large" if size_bytes is None else f"{size_bytes} bytes"
        super().__init__(
            f"{what or self.what}: {size}; the limit is {max_bytes} bytes",
            extra={"max_bytes": max_bytes, "size_bytes": size_bytes},
            hint=hint,
        )
        self.max_bytes = max_bytes
        self.size_bytes = size_bytes
