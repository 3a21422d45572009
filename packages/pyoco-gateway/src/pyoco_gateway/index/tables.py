"""The two types that make an index: the changes that it follows, and its tables."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Change(Protocol):
    """A change that the watch of a stream delivers. `revision` orders all changes."""

    @property
    def revision(self) -> int:
        """The sequence of the change in the stream."""

    @property
    def data(self) -> bytes | None:
        """The stored bytes; None if there are none."""


C = TypeVar("C", bound=Change)
C_contra = TypeVar("C_contra", bound=Change, contravariant=True)


class Tables(Protocol[C_contra]):
    """The contents of an index. Only the index thread uses them."""

    # The latest change that was applied.
    revision: int

    @property
    def size(self) -> int:
        """Number of entries."""

    @property
    def unreadable(self) -> int:
        """Number of records that cannot be read."""

    def apply(self, changes: Sequence[C_contra]) -> None:
        """Apply changes in the order in which the watch delivered them."""

    def clear(self) -> None:
        """Remove all entries."""

    def close(self) -> None:
        """Free the memory."""
