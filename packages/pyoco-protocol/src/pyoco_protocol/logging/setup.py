"""JSON lines on stdout: one record is one line, and logging never breaks what it tells of."""

import errno
import logging
import os
import sys
from typing import Final, TextIO

from pyoco_protocol.logging.records import error_fields, escaped, fields_of, json_line, text_line
from pyoco_protocol.problems import LoggingSetupError
from pyoco_protocol.settings import LogSettings

__all__ = ["LineHandler", "configure_logging", "error_fields"]

# The server library brings handlers of its own, which would print each line a second time.
_SERVER_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class LineHandler(logging.Handler):
    """Writes each record as one line; trouble with that is told on stderr, once."""

    def __init__(self, stream: TextIO | None, *, service: str, settings: LogSettings) -> None:
        super().__init__()
        self._stream = stream
        self._service = service
        self._settings = settings
        self._line = json_line if settings.log_format == "json" else text_line
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._ascii_only = not encoding.lower().replace("-", "").startswith("utf")
        self._has_complained = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; whatever goes wrong, the caller does not hear of it."""
        try:
            fields = fields_of(
                record,
                service=self._service,
                utc=self._settings.log_utc,
                include_traceback=self._settings.log_include_traceback,
            )
            line = self._line(fields, ascii_only=self._ascii_only)
            if "log_error" in fields:
                self._complain(str(fields["log_error"]))
            self._write(line)
        except RecursionError:
            # No stack is left even to complain. The caller is about to hear of that anyway.
            return
        except Exception as error:  # noqa: BLE001 - a log line may be lost, its caller may not
            self._complain(f"{type(error).__name__}: {error}")

    def _write(self, line: str) -> None:
        if self._stream is None:
            raise OSError(errno.EBADF, "there is no stdout")
        try:
            # One call for the whole line, so that lines of several processes do not mix.
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._abandon_stream()
            raise

    def _abandon_stream(self) -> None:
        """Let what is still buffered go nowhere.

        The reader is gone for good. Python would try to flush once more at exit, fail, and
        end the process with a status of its own.
        """
        if self._stream is None:
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._stream.fileno())
        finally:
            os.close(nowhere)

    def _complain(self, cause: str) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        try:
            error = LoggingSetupError(cause)
            ids = f"{error.entry.err_id} {error.entry.msg_id}"
            line = escaped(f"{ids} {error.message()}: {error}. {error.hint()}")
            # stderr, of whatever encoding, replaces what it cannot write.
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - nobody is left to be told
            return


def configure_logging(
    service: str, settings: LogSettings, *, stream: TextIO | None = None
) -> LineHandler:
    """Send all logging and all warnings of this process through one handler; return it.

    Calling it again replaces the handler. Call it before uvicorn is configured, and configure
    uvicorn with `log_config=None`, or it puts its own handlers back.
    """
    handler = LineHandler(
        sys.stdout if stream is None else stream, service=service, settings=settings
    )
    root = logging.getLogger()
    for former in [found for found in root.handlers if isinstance(found, LineHandler)]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for name in _SERVER_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(capture=True)
    return handler
