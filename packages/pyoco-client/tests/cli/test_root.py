import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_client.cli import main
from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

COMPLETED = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "COMPLETED",
    "params": {},
    "tasks": {},
    "heartbeat_at": 1794949913.0,
    "updated_at": 1794949913.0,
}
NOT_FOUND = {
    "detail": f"run {RUN_ID} not found",
    "err_id": "ERR-PYOCO-0005",
    "msg_id": "MSG-PYOCO-0005",
    "message": "The run was not found",
    "hint": "Check the run id.",
    "request_id": "req-1",
}


Output = pytest.CaptureFixture[str]


def test_server_and_key_can_come_from_the_environment(
    gateway: RecordedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    monkeypatch.setenv("PYOCO_SERVER", gateway.url)
    monkeypatch.setenv("PYOCO_API_KEY", "secret")
    assert main(["health"]) == 0
    assert gateway.requests[0].headers["X-API-Key"] == "secret"


def test_options_set_the_header_of_the_key_and_the_language(
    gateway: RecordedGateway,
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    options = ["--api-key", "secret", "--api-key-header", "X-Team-Key", "--lang", "ja"]
    assert main(["--server", gateway.url, *options, "health"]) == 0
    sent = gateway.requests[0].headers
    assert (sent["X-Team-Key"], sent["Accept-Language"]) == ("secret", "ja")


def test_the_language_comes_from_the_locale_unless_it_is_set(
    gateway: RecordedGateway, monkeypatch: pytest.MonkeyPatch
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


def test_usage_errors_are_in_the_chosen_language(
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


def test_a_context_gives_server_and_key(
    gateway: RecordedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    file = tmp_path / "contexts.toml"
    file.write_text(f'[contexts.team]\nserver = "{gateway.url}"\napi_key = "secret"\n')
    assert main(["--context", "team", "health"]) == 0
    assert gateway.requests[0].headers["X-API-Key"] == "secret"
    assert main(["--context", "other", "health"]) == 1


def test_an_error_of_the_gateway_is_printed_with_its_id_hint_and_request_id(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 404, NOT_FOUND)
    done = call("get", "--run-id", RUN_ID)
    assert (done.code, done.out) == (1, "")
    for words in ("ERR-PYOCO-0005", "not found", "hint: Check the run id.", "request id: req-1"):
        assert words in done.err


def test_a_gateway_without_an_answer_is_reported_with_a_hint(
    gateway: RecordedGateway, capsys: Output
) -> None:
    gateway.stay_silent("POST /runs")
    short = ["--timeout", "0.1"]
    code = main(["--server", gateway.url, *short, "submit", "--flow-name", "hello"])
    error = capsys.readouterr().err
    assert code == 1
    assert "ERR-PYOCO-0001" in error
    assert "may have arrived" in error


@pytest.mark.parametrize("how", ["option", "locale"])
def test_the_errors_of_the_client_itself_can_be_japanese(
    gateway: RecordedGateway, capsys: Output, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("LANG", "ja_JP.UTF-8" if how == "locale" else "C.UTF-8")
    option = ["--lang", "ja"] if how == "option" else []
    gateway.answer("GET /health", hang_up=True)
    assert main([*option, "--server", gateway.url, "health"]) == 1
    assert "ERR-PYOCO-0001: 稼働確認に失敗しました\n" in capsys.readouterr().err
    assert main([*option, "submit", "--bogus"]) == 1
    usage = "ERR-PYOCO-0018: CLI引数が不正です（入力形式を確認してください）\n"
    assert usage in capsys.readouterr().err


def test_only_requests_that_must_not_be_repeated_have_the_hint_to_check_first(
    gateway: RecordedGateway, capsys: Output
) -> None:
    gateway.answer("GET /health", hang_up=True)
    gateway.answer("POST /runs", hang_up=True)
    submission = ["submit", "--flow-name", "hello"]
    for line in (["health"], [*submission, "--idempotency-key", "k"]):
        assert main(["--server", gateway.url, *line]) == 1
        assert "check for the run before you submit again" not in capsys.readouterr().err
    assert main(["--server", gateway.url, *submission]) == 1
    assert "check for the run before you submit again" in capsys.readouterr().err


def test_an_error_names_the_run_and_the_time_to_try_again(
    gateway: RecordedGateway, call: Call
) -> None:
    body = {"err_id": "ERR-PYOCO-0107", "message": "not confirmed", "run_id": RUN_ID}
    gateway.answer("POST /runs", 503, body, headers={"Retry-After": "2"})
    done = call("submit", "--flow-name", "hello")
    assert (done.code, len(gateway.requests)) == (1, 1)
    assert f"  run id: {RUN_ID}\n  try again in 2 s\n" in done.err


def test_an_unavailable_gateway_is_reported_without_a_repetition(
    gateway: RecordedGateway, call: Call
) -> None:
    body = {"err_id": "ERR-PYOCO-0003", "message": "NATS is not available"}
    gateway.answer("GET /runs", 503, body)
    done = call("list")
    assert (done.code, len(gateway.requests)) == (1, 1)
    assert "ERR-PYOCO-0003" in done.err


@pytest.mark.parametrize("words", [["watch"], ["logs", "-f"], ["submit", "--wait"]])
def test_a_gateway_that_was_never_up_is_reported_at_once(words: list[str], capsys: Output) -> None:
    unused = ["--server", "http://127.0.0.1:1"]
    name = ["--flow-name", "hello"] if words[0] == "submit" else [RUN_ID]
    assert main([*unused, *words, *name]) == 1
    assert "ERR-PYOCO-0001" in capsys.readouterr().err


def test_control_characters_of_a_server_are_escaped(
    gateway: RecordedGateway, capsys: Output
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 404, {**NOT_FOUND, "detail": "\x1b[2J\x9b31m挨拶"})
    main(["--server", gateway.url, "get", "--run-id", RUN_ID])
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert "\x9b" not in error
    assert "挨拶" in error


@pytest.mark.parametrize("arguments", [["--help"], ["submit", "-h"], ["--version"]])
def test_help_and_version_succeed(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "pyoco-client" in printed.out
    assert printed.err == ""


def command() -> str:
    return str(Path(sys.executable).with_name("pyoco-client"))


def test_help_and_version_do_not_import_heavy_modules() -> None:
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


def test_python_m_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyoco_client", "get"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ERR-PYOCO-0018" in done.stderr


def test_a_closed_pipe_causes_no_message(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as closed_pipe:
        done = subprocess.run(
            [command(), "--server", gateway.url, "health"],
            stdout=closed_pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a disk that is always full")
def test_a_full_disk_is_reported_as_a_failure(gateway: RecordedGateway) -> None:
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


def test_characters_missing_in_ascii_are_escaped_in_json(gateway: RecordedGateway) -> None:
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


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("submit --flow-name hello --params-file -", 1, "the text is empty"),
        ("context set a --server http://x --api-key-stdin", 1, "example: "),
        ("cancel -", 0, "0 runs cancelled"),
    ],
)
def test_a_closed_stdin_is_like_an_empty_one(
    line: str, code: int, message: str, tmp_path: Path
) -> None:
    command = f"{sys.executable} -m pyoco_client {line} <&-"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": os.defpath, "PYOCO_CONFIG": str(tmp_path / "contexts.toml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
