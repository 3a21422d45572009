import io
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.logging.setup import LineHandler, configure_logging
from pyoco_protocol.settings import LogSettings

SERVICE = "pyoco-server:worker"
log = logging.getLogger("pyoco.test_logs")


def test_without_settings_those_of_the_environment_apply(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "ERROR")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")
    stream = io.StringIO()
    configure_logging(service="pyoco-server:worker", stream=stream)
    log.warning("not seen")
    log.error("seen")
    assert " ERROR    pyoco-server:worker " in stream.getvalue()
    assert "not seen" not in stream.getvalue()


def record_of(write: Callable[[], None]) -> dict[str, Any]:
    """Return the single record that `write` logs."""
    stream = io.StringIO()
    configure_logging(SERVICE, LogSettings(), stream=stream)
    write()
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert isinstance(record, dict)
    return record


def test_a_record_below_the_level_is_not_logged() -> None:
    stream = io.StringIO()
    configure_logging(SERVICE, LogSettings(log_level="WARNING"), stream=stream)
    log.info("quiet")
    assert stream.getvalue() == ""


def test_a_second_configuration_replaces_the_handler(capsys: pytest.CaptureFixture[str]) -> None:
    first = configure_logging("one", LogSettings())
    second = configure_logging("two", LogSettings())
    log.info("hello")
    assert [json.loads(line)["service"] for line in capsys.readouterr().out.splitlines()] == ["two"]
    handlers = logging.getLogger().handlers
    assert first not in handlers
    assert second in handlers


def test_other_handlers_are_kept() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logging(SERVICE, LogSettings(), stream=io.StringIO())
    assert other in logging.getLogger().handlers


def test_warnings_are_logged() -> None:
    def warn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(capture=True)
            warnings.warn("careful", UserWarning, stacklevel=1)

    record = record_of(warn)
    assert (record["logger"], record["level"]) == ("py.warnings", "WARNING")
    assert "UserWarning: careful" in record["message"]


def test_uvicorn_logs_through_our_handler(capsys: pytest.CaptureFixture[str]) -> None:
    access = logging.getLogger("uvicorn.access")
    access.propagate = False
    access.addHandler(logging.StreamHandler(sys.stdout))
    extra = {"color_message": "\x1b[31mGET\x1b[0m"}
    record = record_of(lambda: access.info('%s - "%s %s"', "1.2.3.4", "GET", "/\n", extra=extra))
    assert record["message"] == '1.2.3.4 - "GET /\n"'
    assert "color_message" not in record
    assert capsys.readouterr().out == ""


def test_a_closed_stream_is_reported_once_and_does_not_raise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    configure_logging(SERVICE, LogSettings(), stream=stream)
    stream.close()
    log.info("lost")
    log.info("lost too")
    captured = capsys.readouterr().err
    assert captured.count("ERR-PYOCO-0013") == 1
    assert len(captured.splitlines()) == 1


def test_a_missing_stdout_is_reported_once_and_does_not_raise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    configure_logging(SERVICE, LogSettings())
    log.info("lost")
    log.info("lost too")
    assert capsys.readouterr().err.count("ERR-PYOCO-0013") == 1


def test_a_missing_stdout_and_stderr_do_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    configure_logging(SERVICE, LogSettings())
    log.info("lost")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_an_ascii_stream_gets_only_ascii(log_format: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    settings = LogSettings.model_validate({"log_format": log_format})
    configure_logging(SERVICE, settings, stream=stream)
    log.info("実行", extra={"flow_name": "昼寝"})
    line = raw.getvalue().decode("ascii")
    assert "\\u5b9f\\u884c" in line
    if log_format == "json":
        assert json.loads(line)["message"] == "実行"


def test_logging_near_the_recursion_limit_does_not_raise() -> None:
    handler = LineHandler(io.StringIO(), service=SERVICE, settings=LogSettings())
    record = log.makeRecord("x", logging.INFO, __file__, 1, "hello", (), None)

    def descend(levels: int, act: Callable[[], None]) -> None:
        if levels:
            descend(levels - 1, act)
        else:
            act()

    deepest = sys.getrecursionlimit()
    while True:
        try:
            descend(deepest, lambda: None)
            break
        except RecursionError:
            deepest -= 1
    for spare in range(1, 40):
        descend(deepest - spare, lambda: handler.emit(record))


BROKEN_PIPE = """
import logging, sys
from pyoco_protocol.logging.setup import configure_logging
from pyoco_protocol.settings import LogSettings
configure_logging("pyoco-server:http", LogSettings())
sys.stdin.read()
for _ in range(3):
    logging.getLogger("x").info("not read")
"""


def test_a_closed_pipe_does_not_change_the_exit_status() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BROKEN_PIPE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        stderr = process.stderr.read()
    assert process.returncode == 0
    assert stderr.count("ERR-PYOCO-0013") == 1
    assert len(stderr.splitlines()) == 1
