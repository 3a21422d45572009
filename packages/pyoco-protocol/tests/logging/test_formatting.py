import io
import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_protocol.logging.setup import LineHandler, configure_logging, error_fields
from pyoco_protocol.problems import (
    CATALOGUE,
    BrokerUnavailableError,
    PyocoError,
    RunTimedOutError,
)
from pyoco_protocol.settings import LogSettings

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
SERVICE = "pyoco-server:worker"
log = logging.getLogger("pyoco.test_logs")

# Any Python string, including lone surrogates, with many control characters.
any_text = st.lists(
    st.sampled_from('\n\r\t\x00\x1b\x7f\x85\x9b\u2028\u2029\u202e\ufeff\ud800\udfff"\\= ')
    | st.characters(exclude_categories=())
).map("".join)


class Hostile:
    """An object that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class HostileMapping(dict[str, str]):
    def items(self) -> Any:
        raise RuntimeError("no items")


def line_of(write: Callable[[], None], **settings: Any) -> str:
    """Return the single line that `write` logs."""
    stream = io.StringIO()
    configure_logging(SERVICE, LogSettings(**settings), stream=stream)
    write()
    text = stream.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    return text[:-1]


def record_of(write: Callable[[], None], **settings: Any) -> dict[str, Any]:
    """Return the single JSON line that `write` logs, parsed."""
    record = json.loads(line_of(write, **settings))
    assert isinstance(record, dict)
    return record


def fail() -> None:
    raise ValueError("first\nfailure")


def fail_with_a_cause() -> None:
    try:
        fail()
    except ValueError as error:
        raise BrokerUnavailableError("gone") from error


def log_exception(of: Callable[[], None]) -> None:
    try:
        of()
    except Exception:
        log.exception("it failed")


def test_a_record_has_time_message_and_location() -> None:
    record = record_of(lambda: log.info("run %s", "taken", extra={"run_id": RUN, "attempt": 2}))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("ts"))
    assert record.pop("pathname") == __file__
    assert record.pop("lineno") > 0
    assert record == {
        "service": SERVICE,
        "level": "INFO",
        "logger": "pyoco.test_logs",
        "message": "run taken",
        "func": "<lambda>",
        "run_id": RUN,
        "attempt": 2,
    }


def test_local_time_has_its_offset() -> None:
    record = record_of(lambda: log.info("hello"), log_utc=False)
    assert re.fullmatch(r".*T\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", record["ts"])


def test_extra_fields_are_kept() -> None:
    context = {
        "run_id": RUN,
        "flow_name": "昼寝",
        "tag": "cpu",
        "worker_id": "w1",
        "attempt": 1,
        "err_id": "ERR-PYOCO-0007",
        "msg_id": "MSG-PYOCO-0007",
        "reason": "execution_error",
        "other": {"a": [1, 2.5, None, True]},
    }
    record = record_of(lambda: log.error("run failed", extra=context))
    assert {key: record[key] for key in context} == context


def test_japanese_text_is_not_escaped() -> None:
    assert "実行に失敗" in line_of(lambda: log.info("実行に失敗"))


def test_an_exception_has_type_message_location_and_traceback() -> None:
    record = record_of(lambda: log_exception(fail))
    assert (record["exc_type"], record["exc_message"]) == ("ValueError", "first\nfailure")
    assert re.fullmatch(re.escape(__file__) + r":\d+ fail", record["exc_origin"])
    assert record["exc_traceback"].startswith("Traceback (most recent call last)")
    assert "exc_cause" not in record


def test_the_root_cause_of_a_chain_is_logged() -> None:
    record = record_of(lambda: log_exception(fail_with_a_cause), log_include_traceback=False)
    assert record["exc_type"] == "BrokerUnavailableError"
    assert record["exc_cause"] == "ValueError: first\nfailure"
    assert record["exc_origin"].endswith(" fail")


def test_tracebacks_can_be_left_out() -> None:
    record = record_of(lambda: log_exception(fail), log_include_traceback=False)
    assert "exc_traceback" not in record
    assert record["exc_type"] == "ValueError"


def test_a_catalogue_error_adds_its_ids() -> None:
    record = record_of(lambda: log_exception(fail_with_a_cause))
    assert (record["err_id"], record["msg_id"]) == ("ERR-PYOCO-0003", "MSG-PYOCO-0003")


def test_ids_in_extra_override_those_of_the_exception() -> None:
    error = BrokerUnavailableError("gone")
    extra = {"err_id": "ERR-PYOCO-0008"}
    record = record_of(lambda: log.error("not stored", exc_info=error, extra=extra))
    assert record["err_id"] == "ERR-PYOCO-0008"


def test_a_cyclic_exception_chain_is_logged_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    record = record_of(lambda: log.error("odd", exc_info=first), log_include_traceback=False)
    assert record["exc_cause"] == "ValueError: second"


def test_error_fields_can_be_used_as_extra() -> None:
    error = RunTimedOutError(RUN, 60)
    record = record_of(lambda: log.error("run stopped", extra=error_fields(error)))
    assert record["err_id"] == "ERR-PYOCO-0114"
    assert record["msg_id"] == "MSG-PYOCO-0114"
    assert record["detail"] == f"run {RUN} took longer than 60 s"
    assert (record["run_id"], record["timeout_sec"]) == (RUN, 60)


def test_error_fields_never_conflict_with_attributes_of_logging() -> None:
    class OddError(PyocoError):
        entry = CATALOGUE["ERR-PYOCO-0106"]

    error = OddError("odd", extra={"name": "x", "args": [], "message": "x", "msg": "x", "id": 1})
    record = record_of(lambda: log.error("odd", extra=error_fields(error)))
    assert (record["id"], record["message"]) == (1, "odd")


ERROR_FIELDS = ("err_id", "msg_id", "reason", "exc_type", "exc_message", "exc_origin")


def log_call_of(record: dict[str, Any]) -> str:
    return f"{record['pathname']}:{record['lineno']} {record['func']}"


def test_a_catalogue_error_that_was_not_raised_has_all_fields_of_an_error() -> None:
    error = RunTimedOutError(RUN, 60)
    record = record_of(lambda: log.info("request refused", extra=error_fields(error)))
    assert {key: record[key] for key in ERROR_FIELDS} == {
        "err_id": "ERR-PYOCO-0114",
        "msg_id": "MSG-PYOCO-0114",
        "reason": "run_timed_out",
        "exc_type": "RunTimedOutError",
        "exc_message": f"run {RUN} took longer than 60 s",
        "exc_origin": log_call_of(record),
    }


def test_an_exception_outside_the_catalogue_is_an_internal_error() -> None:
    record = record_of(lambda: log_exception(fail))
    assert (record["err_id"], record["msg_id"]) == ("ERR-PYOCO-0106", "MSG-PYOCO-0106")
    assert (record["reason"], record["exc_type"]) == ("internal_error", "ValueError")


def test_an_error_that_another_library_logs_without_an_exception_has_all_fields() -> None:
    record = record_of(lambda: logging.getLogger("asyncio").error("Task was destroyed"))
    assert {key: record[key] for key in ERROR_FIELDS} == {
        "err_id": "ERR-PYOCO-0106",
        "msg_id": "MSG-PYOCO-0106",
        "reason": "internal_error",
        "exc_type": "InternalError",
        "exc_message": "Task was destroyed",
        "exc_origin": log_call_of(record),
    }


def test_a_reason_can_be_given() -> None:
    error = RunTimedOutError(RUN, 60)
    extra = error_fields(error, reason="execution_error")
    assert record_of(lambda: log.error("failed", extra=extra))["reason"] == "execution_error"
    given = {"reason": "other"}
    assert record_of(lambda: log.error("x", exc_info=error, extra=given))["reason"] == "other"


def test_a_record_that_is_no_error_has_no_fields_of_an_error() -> None:
    record = record_of(lambda: log.warning("slow"))
    assert not {*ERROR_FIELDS} & record.keys()


TEXT_WITH_TRACEBACK = """the child ended: exit code 1
last output: Traceback (most recent call last):
  File "flows.py", line 3, in resolve
    return missing
           ^^^^^^^
NameError: name 'missing' is not defined
bye"""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_without_tracebacks_no_field_has_one(log_format: str) -> None:
    def write() -> None:
        try:
            fail()
        except ValueError:
            logging.getLogger("uvicorn.error").exception(
                "Exception in ASGI application\n%s",
                TEXT_WITH_TRACEBACK,
                stack_info=True,
                extra={"exc_message": TEXT_WITH_TRACEBACK, "more": [{"a": TEXT_WITH_TRACEBACK}]},
            )

    line = line_of(write, log_format=log_format, log_include_traceback=False)
    assert "Traceback" not in line
    assert "most recent call" not in line
    assert "return missing" not in line
    assert "NameError: name 'missing' is not defined" in line
    assert "bye" in line
    assert "most recent call" in line_of(write, log_format=log_format)


def test_without_tracebacks_the_text_around_one_is_kept() -> None:
    record = record_of(
        lambda: log.error("x", extra={"exc_message": TEXT_WITH_TRACEBACK}),
        log_include_traceback=False,
    )
    assert record["exc_message"] == (
        "the child ended: exit code 1\nlast output:NameError: name 'missing' is not defined\nbye"
    )


def test_an_extra_with_the_traceback_of_a_child_can_be_left_out() -> None:
    extra = {"exc_type": "KeyError", "exc_traceback": "Traceback (most recent call last):\n  x"}
    record = record_of(lambda: log.error("run failed", extra=extra), log_include_traceback=False)
    assert "exc_traceback" not in record
    assert record["exc_type"] == "KeyError"


def test_an_extra_never_replaces_a_field_of_the_record() -> None:
    extra = {"level": 7, "ts": "never", "service": "other", "exc_type": "x"}
    record = record_of(lambda: log.error("odd", exc_info=ValueError("v"), extra=extra))
    assert (record["level"], record["extra_level"]) == ("ERROR", 7)
    assert (record["service"], record["extra_service"]) == (SERVICE, "other")
    assert (record["exc_type"], record["extra_exc_type"]) == ("ValueError", "x")
    assert record["extra_ts"] == "never"


@pytest.mark.parametrize("log_format", ["json", "text"])
@given(message=any_text, name=any_text, value=any_text)
def test_any_text_is_one_line_without_control_characters(
    log_format: str, message: str, name: str, value: str
) -> None:
    key = "x_" + name
    line = line_of(lambda: log.info(message, extra={key: value}), log_format=log_format)
    assert line.encode()
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]", line)


def paired(text: str) -> str:
    """Return `text` with surrogate pairs combined, as a JSON parser does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@example(message="\ud800\udfff", value="\udfff\ud800", error="\ud800")
@given(message=any_text, value=any_text, error=any_text)
def test_logged_text_can_be_parsed_back(message: str, value: str, error: str) -> None:
    record = record_of(
        lambda: log.error("%s", message, exc_info=ValueError(error), extra={"reason": value})
    )
    read = (record["message"], record["reason"], record["exc_message"])
    assert read == (paired(message), paired(value), paired(error))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | any_text
        | st.binary()
        | st.datetimes()
        | st.builds(object)
        | st.builds(Hostile)
        | st.builds(HostileMapping),
        lambda inner: (
            st.lists(inner)
            | st.tuples(inner, inner)
            | st.dictionaries(st.integers() | any_text | st.none(), inner)
        ),
        max_leaves=10,
    )
)
def test_any_value_is_logged_and_the_line_is_strict_json(value: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    line = line_of(lambda: log.info("value", extra={"value": value}))
    assert "value" in json.loads(line, parse_constant=refuse)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (10**5000, hex(10**5000)),
        ({1}, [1]),
        ({None: 1}, {"None": 1}),
        (b"a", "b'a'"),
        (ValueError("v"), "v"),
        (logging, str(logging)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_json_does_not_have_become_text(value: object, shown: object) -> None:
    assert record_of(lambda: log.info("value", extra={"value": value}))["value"] == shown


@pytest.mark.parametrize("value", [deep(50), cyclic()], ids=["deep", "cyclic"])
def test_deeply_nested_values_are_cut(value: object) -> None:
    record = record_of(lambda: log.info("value", extra={"value": value}))
    assert str(record["value"]).startswith("[" * 8 + "'[")
    assert "log_error" not in record


def test_a_value_too_deep_for_text_is_reported() -> None:
    record = record_of(lambda: log.info("value", extra={"value": deep(100_000)}))
    assert "list could not be shown: RecursionError" in record["log_error"]


def test_a_value_that_cannot_be_shown_is_replaced_and_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    extra = {"bad": Hostile(), "worse": HostileMapping(a="b"), "run_id": RUN}
    record = record_of(lambda: log.info("value", extra=extra))
    assert (record["bad"], record["worse"], record["run_id"]) == (
        "<Hostile>",
        "<HostileMapping>",
        RUN,
    )
    assert "Hostile could not be shown: RuntimeError" in record["log_error"]
    assert capsys.readouterr().err.startswith("ERR-PYOCO-0013 MSG-PYOCO-0013 ")


def test_a_message_that_does_not_match_its_arguments_is_still_logged() -> None:
    # Passed to the handler directly, because pytest's handlers refuse such a record.
    stream = io.StringIO()
    handler = LineHandler(stream, service=SERVICE, settings=LogSettings())
    handler.handle(log.makeRecord("x", logging.INFO, __file__, 1, "%d of %s", ("x",), None))
    record = json.loads(stream.getvalue())
    assert record["message"] == "%d of %s"
    assert "message could not be formatted" in record["log_error"]


def test_text_lines_are_readable() -> None:
    line = line_of(
        lambda: log.warning("run %s", "late", extra={"run_id": RUN, "reason": "a b"}),
        log_format="text",
    )
    assert re.fullmatch(
        r"\S+Z WARNING  pyoco-server:worker pyoco\.test_logs: run late "
        rf'run_id={RUN} reason="a b" at=\S+:\d+',
        line,
    )
