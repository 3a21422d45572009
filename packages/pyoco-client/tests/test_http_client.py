import json
import math
import pickle
import socket
import threading
from typing import Any

import httpx
import pytest

import pyoco_client
from pyoco_client import (
    BrokerUnavailableError,
    GatewayUnreachableError,
    InvalidRequestError,
    PyocoApiError,
    PyocoError,
    PyocoHttpClient,
    RequestTooLargeError,
    RunNotFoundError,
    SubmissionUnconfirmedError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.recorded_gateway import RecordedGateway

RUNNING = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "RUNNING",
    "params": {"name": "world"},
    "tasks": {"greet": "RUNNING"},
    "heartbeat_at": 1780000001.0,
    "updated_at": 1780000001.0,
    "attempt": 1,
}
COMPLETED = {**RUNNING, "status": "COMPLETED", "tasks": {"greet": "SUCCEEDED"}}


def problem(number: str, **more: Any) -> dict[str, Any]:
    return {
        "detail": "what is wrong here",
        "err_id": f"ERR-PYOCO-{number}",
        "msg_id": f"MSG-PYOCO-{number}",
        "message": "What is wrong",
        "hint": "What to do",
        "request_id": "req-1",
        **more,
    }


def check_is_both(error: Exception, kind: type[PyocoError], status: int) -> None:
    """Check that an error is one of this client and one of httpx."""
    assert isinstance(error, kind)
    assert isinstance(error, httpx.HTTPStatusError)
    assert error.response.status_code == status
    assert error.response.request is error.request
    assert type(error).__name__ == kind.__name__
    assert repr(error) == repr(kind.__new__(kind, *error.args))
    assert "a-secret-key" not in repr(error.__dict__) + repr(error.request.headers)


def test_the_error_of_an_answer_is_an_error_of_httpx_too(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 422, problem("0002"))
    gateway.answer(f"GET /runs/{RUN_ID}", 404, problem("0005"))
    gateway.answer("GET /metrics", 503, problem("0003"))
    gateway.answer("GET /workers", 502, text="<html>bad gateway</html>", content_type="text/html")
    with PyocoHttpClient(gateway.url, api_key="a-secret-key") as client:
        with pytest.raises(httpx.HTTPStatusError) as invalid:
            client.submit_run("hello")
        with pytest.raises(httpx.HTTPStatusError) as missing:
            client.wait(RUN_ID)
        with pytest.raises(httpx.HTTPStatusError) as down:
            client.get_metrics()
        with pytest.raises(httpx.HTTPStatusError) as foreign:
            client.get_workers()
    check_is_both(invalid.value, InvalidRequestError, 422)
    check_is_both(missing.value, RunNotFoundError, 404)
    check_is_both(down.value, BrokerUnavailableError, 503)
    check_is_both(foreign.value, UnexpectedAnswerError, 502)
    error = invalid.value
    assert error.response.json()["err_id"] == "ERR-PYOCO-0002"
    assert (error.request.method, str(error.request.url)) == ("POST", f"{gateway.url}/runs")
    assert str(error) == "ERR-PYOCO-0002: What is wrong"


def test_the_error_of_a_watch_is_an_error_of_httpx_too(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}/watch", 404, problem("0005"))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(httpx.HTTPStatusError) as caught:
        next(client.watch_run(RUN_ID))
    check_is_both(caught.value, RunNotFoundError, 404)


def test_an_error_that_is_one_of_httpx_can_be_pickled(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 422, problem("0002"))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(httpx.HTTPStatusError) as caught:
        client.submit_run("hello")
    restored = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert type(restored) is type(caught.value)
    assert str(restored) == str(caught.value)
    assert restored.response.json() == caught.value.response.json()
    assert restored.request.method == "POST"


def test_a_gateway_that_does_not_answer_is_no_status_error(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", hang_up=True)
    with PyocoHttpClient(gateway.url) as client, pytest.raises(GatewayUnreachableError) as caught:
        client.health()
    assert not isinstance(caught.value, httpx.HTTPStatusError)


def test_a_submission_sends_its_arguments_and_returns_the_answer(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 200, {"run_id": RUN_ID, "status": "PENDING", "newer": 1})
    with PyocoHttpClient(gateway.url) as client:
        accepted = client.submit_run("挨拶", {"name": "世界"}, tag="cpu", tags=["a", "b"])
    assert accepted == {"run_id": RUN_ID, "status": "PENDING", "newer": 1}
    sent = gateway.requests[0]
    assert sent.headers["Content-Type"] == "application/json"
    assert json.loads(sent.body) == {
        "flow_name": "挨拶",
        "params": {"name": "世界"},
        "tag": "cpu",
        "tags": ["a", "b"],
    }


def test_arguments_that_are_not_given_are_not_sent(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 200, {"run_id": RUN_ID, "status": "PENDING"})
    with PyocoHttpClient(gateway.url) as client:
        client.submit_run("hello")
    assert json.loads(gateway.requests[0].body) == {"flow_name": "hello", "params": {}}


def test_the_api_key_is_sent_in_the_chosen_header(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    with PyocoHttpClient(gateway.url, api_key="secret", api_key_header="X-Team-Key") as client:
        assert client.health()["status"] == "ok"
    assert gateway.requests[0].headers["X-Team-Key"] == "secret"


@pytest.mark.parametrize("include", ["records", ["records"]])
def test_a_run_is_read_with_its_records_on_request(
    gateway: RecordedGateway, include: str | list[str]
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, RUNNING)
    with PyocoHttpClient(gateway.url) as client:
        assert client.get_run(RUN_ID) == RUNNING
        assert client.get_run(RUN_ID, include) == RUNNING
    assert [request.target for request in gateway.requests] == [
        f"/runs/{RUN_ID}",
        f"/runs/{RUN_ID}?include=records",
    ]


def test_a_base_path_before_the_api_is_kept(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /pyoco/runs/{RUN_ID}/tasks", 200, {"run_id": RUN_ID, "tasks": {}})
    with PyocoHttpClient(f"{gateway.url}/pyoco/") as client:
        assert client.get_tasks(RUN_ID)["tasks"] == {}


@pytest.mark.parametrize(
    ("status", "number", "expected"),
    [
        (422, "0002", InvalidRequestError),
        (413, "0101", RequestTooLargeError),
        (404, "0005", RunNotFoundError),
        (503, "0003", BrokerUnavailableError),
        (418, "0999", PyocoApiError),
    ],
)
def test_an_error_body_becomes_the_error_class_of_its_id(
    gateway: RecordedGateway, status: int, number: str, expected: type[PyocoApiError]
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", status, problem(number))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(PyocoError) as caught:
        client.get_run(RUN_ID)
    error = caught.value
    assert type(error).__bases__ == (expected, httpx.HTTPStatusError)
    assert isinstance(error, PyocoApiError)
    assert (error.err_id, error.msg_id) == (f"ERR-PYOCO-{number}", f"MSG-PYOCO-{number}")
    assert (error.hint, error.request_id, error.status) == ("What to do", "req-1", status)
    assert error.detail == "what is wrong here"
    assert str(error) == f"ERR-PYOCO-{number}: What is wrong"


def test_an_unconfirmed_submission_names_its_run(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 503, problem("0107", run_id=RUN_ID))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(SubmissionUnconfirmedError) as error:
        client.submit_run("hello")
    assert error.value.run_id == RUN_ID


def test_an_error_body_without_ids_keeps_the_text_of_the_server(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", 500, {"detail": "boom"})
    with PyocoHttpClient(gateway.url) as client, pytest.raises(PyocoApiError, match=r"^boom$"):
        client.health()


@pytest.mark.parametrize(
    ("status", "text", "content_type"),
    [
        (502, "<html>Bad Gateway</html>", "text/html"),
        (200, "[]", "application/json"),
        (200, "", "application/json"),
    ],
)
def test_an_answer_that_is_not_from_a_gateway_is_an_unexpected_answer(
    gateway: RecordedGateway, status: int, text: str, content_type: str
) -> None:
    gateway.answer("GET /health", status, text=text, content_type=content_type)
    with PyocoHttpClient(gateway.url) as client, pytest.raises(UnexpectedAnswerError) as caught:
        client.health()
    assert caught.value.status == status
    assert content_type in str(caught.value)


def test_a_refused_connection_means_that_the_request_did_not_arrive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = PyocoHttpClient(f"http://127.0.0.1:{port}")
    with client, pytest.raises(GatewayUnreachableError) as caught:
        client.submit_run("hello")
    assert caught.value.err_id == "ERR-PYOCO-0001"
    assert not caught.value.may_have_arrived
    assert caught.value.hint


def test_a_submission_that_is_not_answered_in_time_may_have_arrived(
    gateway: RecordedGateway,
) -> None:
    gateway.stay_silent("POST /runs")
    client = PyocoHttpClient(gateway.url, timeout=0.1)
    with client, pytest.raises(GatewayUnreachableError) as caught:
        client.submit_run("hello")
    assert caught.value.may_have_arrived


def test_a_submission_is_never_sent_twice(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", hang_up=True)
    gateway.answer("POST /runs", 200, {"run_id": RUN_ID, "status": "PENDING"})
    with PyocoHttpClient(gateway.url) as client, pytest.raises(GatewayUnreachableError) as caught:
        client.submit_run("hello")
    assert caught.value.may_have_arrived
    assert len(gateway.requests) == 1


def test_wait_returns_the_terminal_snapshot(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, RUNNING)
    gateway.answer(f"GET /runs/{RUN_ID}", 200, RUNNING)
    gateway.answer(f"GET /runs/{RUN_ID}", 200, COMPLETED)
    with PyocoHttpClient(gateway.url) as client:
        assert client.wait(RUN_ID, timeout=20) == COMPLETED
    assert len(gateway.requests) == 3


def test_wait_continues_while_the_gateway_or_the_broker_is_down(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", hang_up=True)
    gateway.answer(f"GET /runs/{RUN_ID}", 502, text="<html/>", content_type="text/html")
    gateway.answer(f"GET /runs/{RUN_ID}", 503, problem("0003"))
    gateway.answer(f"GET /runs/{RUN_ID}", 200, COMPLETED)
    with PyocoHttpClient(gateway.url) as client:
        assert client.wait(RUN_ID, timeout=20) == COMPLETED


def test_wait_raises_at_once_for_an_unknown_run(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 404, problem("0005"))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(RunNotFoundError):
        client.wait(RUN_ID, timeout=20)
    assert len(gateway.requests) == 1


def test_wait_raises_with_the_last_status_at_its_timeout(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, RUNNING)
    with PyocoHttpClient(gateway.url) as client, pytest.raises(WaitTimeoutError) as caught:
        client.wait(RUN_ID, timeout=0.2)
    assert caught.value.last_status == "RUNNING"
    assert isinstance(caught.value, TimeoutError)


def test_a_wait_without_an_answer_raises_with_its_cause(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 503, problem("0003"))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(WaitTimeoutError) as caught:
        client.wait(RUN_ID, timeout=0.1)
    assert caught.value.last_status is None
    assert isinstance(caught.value.__cause__, BrokerUnavailableError)


@pytest.mark.parametrize("server", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://a:b:c"])
def test_an_invalid_address_is_rejected(server: str) -> None:
    with pytest.raises(ValueError, match="server"):
        PyocoHttpClient(server)


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "鍵"])
def test_an_invalid_key_is_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="api_key must be") as caught:
        PyocoHttpClient("http://127.0.0.1:8000", key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("header", ["", "X API", "X:Y"])
def test_an_invalid_header_name_is_rejected(header: str) -> None:
    with pytest.raises(ValueError, match="api_key_header"):
        PyocoHttpClient("http://127.0.0.1:8000", "key", header)


@pytest.mark.parametrize("run_id", ["", ".", ".."])
def test_a_run_id_that_would_change_the_path_is_rejected(
    gateway: RecordedGateway, run_id: str
) -> None:
    with PyocoHttpClient(gateway.url) as client, pytest.raises(ValueError, match="run id"):
        client.get_run(run_id)
    assert not gateway.requests


def test_a_run_id_is_quoted_as_one_part_of_the_path(gateway: RecordedGateway) -> None:
    gateway.answer("GET /runs/..%2Fhealth%3Fx", 404, problem("0005"))
    with PyocoHttpClient(gateway.url) as client, pytest.raises(RunNotFoundError):
        client.get_run("../health?x")


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), "\ud800"])
def test_params_that_are_not_json_are_rejected_before_anything_is_sent(
    gateway: RecordedGateway, value: object
) -> None:
    with PyocoHttpClient(gateway.url) as client, pytest.raises((ValueError, TypeError)):
        client.submit_run("hello", {"x": value})
    assert not gateway.requests


def test_one_client_serves_many_threads(gateway: RecordedGateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, COMPLETED)
    answers: list[dict[str, Any]] = []
    with PyocoHttpClient(gateway.url) as client:
        threads = [
            threading.Thread(target=lambda: answers.append(client.get_run(RUN_ID)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [COMPLETED] * 8


def test_the_other_methods_of_the_specification_exist(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs/yaml", 200, {"run_id": RUN_ID, "status": "PENDING"})
    gateway.answer("GET /runs", 200, [RUNNING])
    gateway.answer("GET /workers", 200, [])
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, {**RUNNING, "status": "CANCELLING"})
    gateway.answer("GET /metrics", text="pyoco_runs_total 1.0", content_type="text/plain")
    data = json.dumps({"run_id": RUN_ID, "snapshot": COMPLETED, "ts": 1.0})
    stream = f"event: snapshot\nid: 7\ndata: {data}\n\n"
    gateway.answer(f"GET /runs/{RUN_ID}/watch", text=stream, content_type="text/event-stream")
    with PyocoHttpClient(gateway.url) as client:
        assert client.submit_run_yaml("flow: {}", "cpu", flow_name="挨拶")["run_id"] == RUN_ID
        assert client.list_runs(status="RUNNING", limit=1) == [RUNNING]
        assert client.get_workers() == []
        assert client.cancel_run(RUN_ID)["status"] == "CANCELLING"
        assert client.get_metrics() == "pyoco_runs_total 1.0"
        assert [*client.watch_run(RUN_ID)] == [COMPLETED]
    form = gateway.requests[0].body.decode()
    assert 'name="flow_name"\r\n\r\n挨拶\r\n' in form
    assert 'name="tag"\r\n\r\ncpu\r\n' in form


def test_dir_of_the_package_lists_exactly_its_public_names() -> None:
    assert set(pyoco_client.__all__) <= set(dir(pyoco_client))
    assert all(getattr(pyoco_client, name) for name in pyoco_client.__all__)
    assert pyoco_client.__version__
    with pytest.raises(AttributeError):
        pyoco_client.nothing_of_this_name  # noqa: B018
