"""Errors of `PyocoHttpClient` are errors of httpx too, as the published interface says."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from pyoco_client.errors import PyocoError

# The content of an answer is kept decoded.
_OF_TRANSFER: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})

# The classes made by `_kind`.
_KINDS: Final[dict[type[PyocoError], type[PyocoError]]] = {}


@contextmanager
def raising_status_errors() -> Iterator[None]:
    """Raise an error of an answer as the same error that is a `httpx.HTTPStatusError` too."""
    try:
        yield
    except PyocoError as error:
        if error.answer is None or error.answer.is_success:
            raise
        raise _as_status_error(error).with_traceback(error.__traceback__) from error.__cause__


def _as_status_error(error: PyocoError) -> PyocoError:
    answer = error.answer
    if answer is None or isinstance(error, httpx.HTTPStatusError):
        return error
    # Without headers: an error may be logged, and the request carried the API key.
    request = httpx.Request(answer.method, answer.url)
    headers = [item for item in answer.headers.items() if item[0].lower() not in _OF_TRANSFER]
    response = httpx.Response(
        answer.status, headers=headers, content=answer.content, request=request
    )
    values = {**error.__dict__, "answer": None, "_request": request, "response": response}
    return _restored(type(error), error.args, values)


def _kind(base: type[PyocoError]) -> type[PyocoError]:
    """Return `base` with `httpx.HTTPStatusError` as a second base class, under the same name."""
    if base in _KINDS:
        return _KINDS[base]
    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}

    def reduce(error: PyocoError) -> tuple[Any, ...]:
        # The class is made here and not found by its name, so its base is pickled instead.
        return _restored, (base, error.args, error.__dict__)

    kind = type(base.__name__, (base, httpx.HTTPStatusError), {**names, "__reduce__": reduce})
    # Another thread may have been faster: each error has one such class.
    return _KINDS.setdefault(base, kind)


def _restored(
    base: type[PyocoError], arguments: tuple[Any, ...], values: dict[str, Any]
) -> PyocoError:
    kind = _kind(base)
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(values)
    return error
