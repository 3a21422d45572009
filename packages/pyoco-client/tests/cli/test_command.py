import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from pyoco_client.cli import main

RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
PENDING = {"run_id": RUN_ID, "status": "PENDING"}
COMPLETED = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "COMPLETED",
    "params": {},
    "tasks": {},
    "heartbeat_at": 1794949913.0,
    "updated_at": 1794949913.0,
}
RUNNING = {**COMPLETED, "status": "RUNNING"}
TASKS = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "RUNNING",
    "tasks": {"a": "RUNNING"},
    "task_records": {},
    "task_records_truncated": False,
}
FAILED = {**COMPLETED, "status": "FAILED", "error": "ValueError: no"}
NOT_FOUND = {
    "detail": f"run {RUN_ID} not found",
    "err_id": "ERR-PYOCO-0005",
    "msg_id": "MSG-PYOCO-0005",
    "message": "The run was not found",
    "hint": "Check the run id.",
    "request_id": "req-1",
}


class SentRequest(Protocol):
    @property
    def target(self) -> str: ...
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def body(self) -> bytes: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    url: str

    @property
    def requests(self) -> list[SentRequest]: ...

    def answer(
        self,
        route: str,
        status: int = 200,
        body: Any = None,
        *,
        text: str | None = None,
        content_type: str = "application/json",
        hang_up: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None: ...

    def stay_silent(self, route: str) -> None: ...


Output = pytest.CaptureFixture[str]
Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let neither contexts nor the locale of whoever runs the tests decide them."""
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path / "contexts.toml"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def answer_watch(gateway: Gateway, *snapshots: dict[str, Any]) -> None:
    """Have a watch of the run tell these snapshots."""
    events = [
        f"event: snapshot\nid: {number}\ndata: {json.dumps({'snapshot': each})}\n\n"
        for number, each in enumerate(snapshots, 1)
    ]
    route = f"GET /runs/{RUN_ID}/watch"
    gateway.answer(route, 200, text="".join(events), content_type="text/event-stream")


def test_submit_prints_the_answer_and_nothing_else_on_stdout(
    gateway: Gateway, capsys: Output
) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    code = main(["--server", gateway.url, "submit", "--flow-name", "hello", "--param", "n=3"])
    printed = capsys.readouterr()
    assert code == 0
    assert printed.out == json.dumps(PENDING) + "\n"
    assert printed.err == ""
    assert json.loads(gateway.requests[0].body) == {"flow_name": "hello", "params": {"n": 3}}


def test_submit_prints_what_the_gateway_warns_of_beside_the_answer(
    gateway: Gateway, capsys: Output
) -> None:
    answer = {**PENDING, "warnings": ["no worker carries tag gpu"]}
    gateway.answer("POST /runs", 200, answer)
    assert main(["--server", gateway.url, "submit", "--flow-name", "hello", "--tag", "gpu"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == answer
    assert printed.err == "warning: no worker carries tag gpu\n"


def test_submit_sends_tag_and_labels(gateway: Gateway) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    options = ["--tag", "cpu", "--tags", "nightly,team-a"]
    assert main(["--server", gateway.url, "submit", "--flow-name", "hello", *options]) == 0
    sent = json.loads(gateway.requests[0].body)
    assert (sent["tag"], sent["tags"]) == ("cpu", ["nightly", "team-a"])


def test_submit_wait_prints_the_end_and_names_the_run_at_once(
    gateway: Gateway, capsys: Output
) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    answer_watch(gateway, RUNNING, COMPLETED)
    code = main(["--server", gateway.url, "submit", "--flow-name", "hello", "--wait"])
    printed = capsys.readouterr()
    assert code == 0
    assert json.loads(printed.out) == COMPLETED
    assert printed.err == f"run {RUN_ID} submitted\n"


def test_submit_wait_fails_when_the_run_does(gateway: Gateway, capsys: Output) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    answer_watch(gateway, FAILED)
    code = main(["--server", gateway.url, "submit", "--flow-name", "hello", "--wait"])
    printed = capsys.readouterr()
    assert code == 1
    assert json.loads(printed.out) == FAILED
    assert f"run {RUN_ID} ended FAILED: ValueError: no" in printed.err


def test_submit_wait_gives_up_after_the_time_it_was_given(gateway: Gateway, capsys: Output) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    gateway.answer(f"GET /runs/{RUN_ID}", 200, RUNNING)
    wait = ["--wait", "--timeout-sec", "0.1"]
    code = main(["--server", gateway.url, "submit", "--flow-name", "hello", *wait])
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    assert "RUNNING after 0.1 s" in printed.err


def test_get_tasks_and_health_print_what_the_gateway_says(gateway: Gateway, capsys: Output) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, COMPLETED)
    gateway.answer(f"GET /runs/{RUN_ID}/tasks", 200, TASKS)
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    assert main(["--server", gateway.url, "get", "--run-id", RUN_ID, "--records"]) == 0
    assert main(["--server", gateway.url, "tasks", "--run-id", RUN_ID]) == 0
    assert main(["--server", gateway.url, "health"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        COMPLETED,
        TASKS,
        {"status": "ok", "version": "0.1.0"},
    ]
    assert gateway.requests[0].target.endswith("?include=records")


def test_the_records_of_a_run_are_in_its_table_where_they_are_asked_for(
    gateway: Gateway, call: Call
) -> None:
    records = {"greet": {"state": "SUCCEEDED", "output": "Hello, world!"}}
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**COMPLETED, "task_records": records})
    assert "Hello, world!" in call("get", RUN_ID, "--records", "-o", "table").out
    assert "RECORDS" not in call("get", RUN_ID, "-o", "table").out


def test_server_and_key_come_from_the_environment_too(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    monkeypatch.setenv("PYOCO_SERVER", gateway.url)
    monkeypatch.setenv("PYOCO_API_KEY", "secret")
    assert main(["health"]) == 0
    assert gateway.requests[0].headers["X-API-Key"] == "secret"


def test_the_header_of_the_key_and_the_language_are_what_the_options_say(gateway: Gateway) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    options = ["--api-key", "secret", "--api-key-header", "X-Team-Key", "--lang", "ja"]
    assert main(["--server", gateway.url, *options, "health"]) == 0
    sent = gateway.requests[0].headers
    assert (sent["X-Team-Key"], sent["Accept-Language"]) == ("secret", "ja")


def test_the_language_is_that_of_the_locale_unless_somebody_says_otherwise(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    for locale, variable, language in (
        ("ja_JP.UTF-8", "", "ja"),
        ("C.UTF-8", "", "en"),
        ("ja_JP.UTF-8", "en", "en"),
    ):
        monkeypatch.setenv("LC_ALL", locale)
        monkeypatch.setenv("PYOCO_LANG", variable)
        assert main(["--server", gateway.url, "health"]) == 0
        assert gateway.requests[-1].headers["Accept-Language"] == language


def test_wrong_arguments_are_answered_in_that_language_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    japanese = "CLI引数が不正です"
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    main(["get"])
    assert japanese in capsys.readouterr().err
    main(["--lang", "en", "get"])
    assert japanese not in capsys.readouterr().err
    monkeypatch.setenv("PYOCO_LANG", "en")
    main(["get"])
    assert japanese not in capsys.readouterr().err
    main(["--lang=ja", "get"])
    assert japanese in capsys.readouterr().err


def test_a_context_names_server_and_key(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    file = tmp_path / "contexts.toml"
    file.write_text(f'[contexts.team]\nserver = "{gateway.url}"\napi_key = "secret"\n')
    assert main(["--context", "team", "health"]) == 0
    assert gateway.requests[0].headers["X-API-Key"] == "secret"
    assert main(["--context", "other", "health"]) == 1


def test_a_refusal_is_told_with_its_id_hint_and_request_id(
    gateway: Gateway, capsys: Output
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 404, NOT_FOUND)
    code = main(["--server", gateway.url, "get", "--run-id", RUN_ID])
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    for words in ("ERR-PYOCO-0005", "not found", "hint: Check the run id.", "request id: req-1"):
        assert words in printed.err


def test_a_gateway_that_is_away_is_named_with_the_way_out(gateway: Gateway, capsys: Output) -> None:
    gateway.stay_silent("POST /runs")
    short = ["--timeout", "0.1"]
    code = main(["--server", gateway.url, *short, "submit", "--flow-name", "hello"])
    error = capsys.readouterr().err
    assert code == 1
    assert "ERR-PYOCO-0001" in error
    assert "may have arrived" in error


def test_only_what_must_not_be_done_twice_is_to_be_looked_for(
    gateway: Gateway, capsys: Output
) -> None:
    gateway.answer("GET /health", hang_up=True)
    gateway.answer("POST /runs", hang_up=True)
    submission = ["submit", "--flow-name", "hello"]
    for line in (["health"], [*submission, "--idempotency-key", "k"]):
        assert main(["--server", gateway.url, *line]) == 1
        assert "look before you submit again" not in capsys.readouterr().err
    assert main(["--server", gateway.url, *submission]) == 1
    assert "look before you submit again" in capsys.readouterr().err


def test_a_refusal_names_the_run_and_when_to_try_again(gateway: Gateway, call: Call) -> None:
    body = {"err_id": "ERR-PYOCO-0107", "message": "not confirmed", "run_id": RUN_ID}
    gateway.answer("POST /runs", 503, body, headers={"Retry-After": "2"})
    done = call("submit", "--flow-name", "hello")
    assert (done.code, len(gateway.requests)) == (1, 1)
    assert f"  run id: {RUN_ID}\n  try again in 2 s\n" in done.err


def test_a_gateway_that_cannot_serve_now_is_told_at_once(gateway: Gateway, call: Call) -> None:
    body = {"err_id": "ERR-PYOCO-0003", "message": "NATS is not available"}
    gateway.answer("GET /runs", 503, body)
    done = call("list")
    assert (done.code, len(gateway.requests)) == (1, 1)
    assert "ERR-PYOCO-0003" in done.err


@pytest.mark.parametrize("words", [["watch"], ["logs", "-f"], ["submit", "--wait"]])
def test_a_gateway_that_was_never_there_is_not_waited_for(words: list[str], capsys: Output) -> None:
    nobody = ["--server", "http://127.0.0.1:1"]
    name = ["--flow-name", "hello"] if words[0] == "submit" else [RUN_ID]
    assert main([*nobody, *words, *name]) == 1
    assert "ERR-PYOCO-0001" in capsys.readouterr().err


def test_words_from_elsewhere_cannot_steer_the_terminal(gateway: Gateway, capsys: Output) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 404, {**NOT_FOUND, "detail": "\x1b[2J\x9b31m挨拶"})
    main(["--server", gateway.url, "get", "--run-id", RUN_ID])
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert "\x9b" not in error
    assert "挨拶" in error


@pytest.mark.parametrize(
    ("arguments", "what", "example"),
    [
        ([], "Missing command", "pyoco-client submit --flow-name hello --param name=world --wait"),
        (["submti"], "submit", "pyoco-client submit --flow-name hello"),
        (["submit"], "--flow-name", "pyoco-client submit --flow-name hello"),
        (["submit", "--flow-nam", "x"], "--flow-name", "pyoco-client submit --flow-name x"),
        (["submit", "--flow-name", "x", "extra"], "extra", "pyoco-client submit"),
        (
            ["submit", "--flow-name", "x", "--params", "{'a': 1}"],
            "--params",
            """--params '{"name": "world"}'""",
        ),
        (["submit", "--flow-name", "x", "--param", "novalue"], "key=value", "--param name=world"),
        (["submit", "--flow-name", "x", "--params-file", "/none"], "/none", "--params-file p"),
        (["submit", "--flow-name", "x", "--timeout-sec", "3"], "--wait", "--wait --timeout-sec 3"),
        (["submit", "--flow-name", "x", "--wait", "--timeout-sec", "0"], "--timeout-sec", "submit"),
        (["get"], "--run-id", "pyoco-client get --run-id"),
        (["get", "--run-id", "a b"], "'a b' is not a run id", "pyoco-client get --run-id"),
        (["tasks", "--run-id", "x"], "'x' is not a run id", "pyoco-client tasks --run-id"),
        (["--server", "nowhere", "health"], "nowhere", "--server http://127.0.0.1:8000"),
        (["--timeout", "nan", "health"], "--timeout", "pyoco-client submit"),
        (["--timeout", "inf", "health"], "--timeout", "pyoco-client submit"),
        (["submit", "--flow-name", "\udcff"], "'\\udcff' is not UTF-8", "pyoco-client submit"),
        (["worker", "hide", "."], "'.' is not a worker id", "pyoco-client worker hide worker-1"),
    ],
)
def test_a_wrong_argument_is_named_with_a_command_that_works(
    arguments: list[str], what: str, example: str, capsys: Output
) -> None:
    code = main(arguments)
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    assert "ERR-PYOCO-0018" in printed.err
    assert what in printed.err
    assert example in printed.err.partition("example:")[2].splitlines()[0]


@pytest.mark.parametrize("arguments", [["--help"], ["submit", "-h"], ["--version"]])
def test_help_and_version_succeed(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "pyoco-client" in printed.out
    assert printed.err == ""


def command() -> str:
    return str(Path(sys.executable).with_name("pyoco-client"))


def test_help_and_version_start_without_the_heavy_modules() -> None:
    script = (
        "import sys; from pyoco_client.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'httpx', 'pydantic', 'nats', 'yaml', 'rich'} & set(sys.modules);"
        "print(heavy, file=sys.stderr); sys.exit(code or bool(heavy))"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", script, option], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyoco_client", "get"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ERR-PYOCO-0018" in done.stderr


def test_ctrl_c_ends_a_wait_with_130_and_without_a_traceback(gateway: Gateway) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    answer_watch(gateway, RUNNING)
    arguments = [command(), "--server", gateway.url, "submit", "--flow-name", "hello", "--wait"]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == f"run {RUN_ID} submitted\n"
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert (out, err.strip()) == ("", "")


def test_a_reader_that_has_gone_makes_no_noise(gateway: Gateway) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as nobody:
        done = subprocess.run(
            [command(), "--server", gateway.url, "health"],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a disk that is always full")
def test_a_full_disk_is_told_and_is_a_failure(gateway: Gateway) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [command(), "--server", gateway.url, "health"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_what_ascii_cannot_show_is_escaped_not_refused(gateway: Gateway) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**COMPLETED, "flow_name": "挨拶"})
    done = subprocess.run(
        [command(), "--server", gateway.url, "get", "--run-id", RUN_ID],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": os.defpath},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flow_name"] == "挨拶"
