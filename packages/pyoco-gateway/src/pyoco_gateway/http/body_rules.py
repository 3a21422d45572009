"""What the body of a request may be: JSON, YAML or a form, and how large."""

from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from pyoco_protocol.problems import BodyTooLargeError
from pyoco_protocol.problems.base import TooLargeError

JSON: Final = b"application/json"
YAML: Final = b"application/yaml"
FORM: Final = b"multipart/form-data"
# The content types that a page can send to any site without a preflight request: see
# "CORS-safelisted request-header" in the Fetch standard. A preflight request of another site gets
# no permission, so a page cannot send other types.
_SIMPLE: Final = frozenset({b"text/plain", b"application/x-www-form-urlencoded", FORM})
# What a form adds to its file: the other fields, and the headers of all parts.
FORM_BYTES: Final = 65_536


def media_type_in(header: bytes) -> bytes:
    """Return the type and subtype in a Content-Type header; empty if it names none.

    After a comma follows a second value, which a browser may have ignored.
    """
    return header.partition(b";")[0].partition(b",")[0].strip().lower()


class FileLimit(NamedTuple):
    """The maximum size of a file, and the error for a larger one."""

    max_bytes: int
    error: type[TooLargeError]

    def exceeded(self) -> TooLargeError:
        """Return the error without the file's size: reading stops at the limit."""
        return self.error(self.max_bytes)


@dataclass(frozen=True, slots=True)
class BodyRule:
    """The content types and the size that the requests of a path may have."""

    content_type: bytes
    max_bytes: int
    file: FileLimit | None = None
    # Further content types. If there are any, no others are accepted.
    also: tuple[bytes, ...] = ()

    @classmethod
    def json(cls, max_bytes: int) -> Self:
        """Return the rule for JSON of at most `max_bytes`."""
        return cls(JSON, max_bytes)

    @classmethod
    def json_or_yaml(cls, max_bytes: int) -> Self:
        """Return the rule for a document in JSON or YAML: its content type says which."""
        return cls(JSON, max_bytes, also=(YAML,))

    @classmethod
    def form(cls, file: FileLimit) -> Self:
        """Return the rule for a form with one file."""
        return cls(FORM, file.max_bytes + FORM_BYTES, file)

    def accepts(self, header: bytes) -> bool:
        """Whether a body with this Content-Type header is read.

        Clients send JSON under many types, so JSON is read with all but the simple ones.
        """
        media_type = media_type_in(header)
        if self.content_type == FORM:
            return media_type == FORM
        if self.also:
            # Without a type, a body is JSON or YAML by nothing but a guess. A request without a
            # body may omit it, so the route refuses that.
            return media_type in (b"", self.content_type, *self.also)
        return media_type not in _SIMPLE

    @property
    def supported(self) -> list[str]:
        """The content types for the error that refuses others."""
        return [each.decode() for each in (self.content_type, *self.also)]

    def exceeded(self, declared_bytes: int | None = None) -> TooLargeError:
        """Return the error for a larger body, whose size is known only if it was declared."""
        if self.file is not None:
            return self.file.exceeded()
        return BodyTooLargeError(self.max_bytes, declared_bytes)
