"""Unwraps exception groups raised by task groups."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise the single exception inside an exception group instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from error.__cause__
