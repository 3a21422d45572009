"""Process logs on stdout, one line per record. Logging never raises into its caller."""

import errno
import logging
import os
import sys
from typing import Final, TextIO

from pyoco_protocol.logging.formatting import error_fields, escaped, fields_of, json_line, text_line
from pyoco_protocol.problems import LoggingSetupError
from pyoco_protocol.settings import LogSettings, load_settings

__all__ = ["LineHandler", "configure_logging", "error_fields"]

# uvicorn adds its own handlers, which would print each line twice.
_SERVER_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class LineHandler(logging.Handler):
    """Writes each record as one line; reports the first failure on stderr."""

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
        """Write the record; never raise."""
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
            # The stack is too full to report this. The caller fails with the same error anyway.
            return
        except Exception as error:  # noqa: BLE001 - a failed log line must not fail its caller
            self._complain(f"{type(error).__name__}: {error}")

    def _write(self, line: str) -> None:
        if self._stream is None:
            raise OSError(errno.EBADF, "there is no stdout")
        try:
            # One write per line, so that lines of several processes do not mix.
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._abandon_stream()
            raise

    def _abandon_stream(self) -> None:
        """Redirect the stream to the null device.

        The reader of the pipe is gone. Python would flush the buffer at exit, fail, and change
        the exit status of the process.
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
            # stderr replaces characters that its encoding does not have.
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - there is no other place to report it
            return


def configure_logging(
    service: str, settings: LogSettings | None = None, *, stream: TextIO | None = None
) -> LineHandler:
    """Send all log records and warnings of this process to one handler; return it.

    Without settings, those of the environment and the `.env` file apply. A second call replaces
    the handler. Call it before uvicorn is configured, and configure uvicorn with `log_config=None`;
    otherwise uvicorn adds its own handlers again.
    """
    settings = load_settings(LogSettings) if settings is None else settings
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
