"""The rows of the published specification about `pyoco-client`, on a real server.

All its rows are tested here; tests of the client package check the details of each command.
"""

import json
import re
import shlex
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import click
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from pyoco_client.cli.root import client, main
from pyoco_testkit.commands import Done, run
from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import TERMINAL, Stack

NO_RUN: Final = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
ID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Place:
    """A server with a worker, and three runs on it."""

    stack: Stack
    completed: str
    failed: str
    # No worker has its tag, so it waits until it is cancelled.
    waiting: str

    def put_into(self, word: str) -> str:
        for name in ("completed", "failed", "waiting"):
            word = word.replace(f"<{name}>", getattr(self, name))
        return word


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, flows: str) -> AsyncGenerator[Place]:
    folder, env = tmp_path_factory.mktemp("cli"), {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "2"}
    async with (
        Stack(folder, env=env) as stack,
        stack.worker(flows=flows, worker_id="worker-1", concurrency=2),
    ):
        completed = await stack.client.submit("日本語のフロー", params={"name": "世界"})
        failed = await stack.client.submit("fail")
        waiting = await stack.client.submit("noop", tag="nobody")
        for run_id in (completed, failed):
            await stack.client.wait(run_id)
        yield Place(stack, completed, failed, waiting)


Command = Callable[..., Any]


@pytest.fixture
def command(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Return a function that runs the command in this process, which is faster than a new one."""
    monkeypatch.setenv("PYOCO_SERVER", place.stack.url)
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)

    async def call(line: str) -> Done:
        words = [place.put_into(word) for word in shlex.split(line)]
        code = await anyio.to_thread.run_sync(main, words)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return call


# The specification allows three options for params and their combination; the later one wins.
PARAMS: Final = [
    ("--params-file params.json", {"name": "file", "count": 1}),
    ("--params-file params.yaml", {"name": "ファイル", "count": 1}),
    ("""--params '{"name": "object"}'""", {"name": "object"}),
    ("--param name=pair", {"name": "pair"}),
    ("""--params-file params.json --params '{"name": "text"}'""", {"name": "text", "count": 1}),
    ("--param count=3 --param big=true --param word=3a", {"count": 3, "big": True, "word": "3a"}),
    (
        """--params-file params.json --params '{"name": "text", "more": [1]}' --param name=pair""",
        {"name": "pair", "count": 1, "more": [1]},
    ),
    (
        """--param name=pair --params '{"name": "object"}' --params-file params.json""",
        {"name": "pair", "count": 1},
    ),
    ("--param name=first --param name=last", {"name": "last"}),
]


@pytest.mark.parametrize(("options", "params"), PARAMS)
async def test_submit_merges_params_and_the_later_option_wins(
    options: str, params: dict[str, Any], command: Command, place: Place, tmp_path: Path
) -> None:
    (tmp_path / "params.json").write_text('{"name": "file", "count": 1}')
    (tmp_path / "params.yaml").write_text("name: ファイル\ncount: 1\n", encoding="utf-8")
    done = await command(f"submit --flow-name greet {options}")
    assert (done.code, done.err) == (0, "")
    accepted = done.json()
    assert accepted["status"] == "PENDING"
    assert (await place.stack.client.get(accepted["run_id"]))["params"] == params


@dataclass(frozen=True)
class Row:
    """A command line, the pattern of each line on stdout, the exit code, and a part of stderr.

    The part of stderr is a text or a pattern.
    """

    line: str
    prints: str
    code: int = 0
    says: str | re.Pattern[str] = ""


def documents(text: str) -> str:
    return rf"\{{.*{text}.*\}}"


RUNS_TITLE: Final = r"RUN_ID +STATUS +FLOW +TAG +.*"
ROWS: Final = [
    Row("submit --flow-name greet", documents('"run_id": "' + ID + '", "status": "PENDING"')),
    Row("submit --flow-name greet --tag default --tags a,b", documents('"status": "PENDING"')),
    Row("submit --flow-name greet --output name", ID),
    Row("submit --flow-name greet --wait", documents("HELLO, WORLD!"), says="submitted"),
    Row("submit --flow-name fail --wait", documents("FAILED"), 1, "the shop is closed"),
    Row(
        "submit --flow-name greet --follow --output status",
        r"[\d.]+\tsnapshot\t[A-Z]+\t" + ID,
        says="submitted",
    ),
    Row("submit --flow-name greet --tag nobody", documents("PENDING"), says="no worker carries"),
    Row("submit-yaml --workflow-file flow.yaml --flow-name y --tag default", documents("PENDING")),
    Row("submit-yaml --workflow-file wrong.yaml --flow-name y --tag default", "", 1, "line 2: "),
    Row("get <completed>", documents("HELLO, 世界!")),
    Row("get --run-id <completed>", documents("HELLO, 世界!")),
    Row("get <completed> --records", documents("task_records")),
    Row("get <completed> --output table", r"[A-Z_]+  +\S.*"),
    Row("get <completed> --output name", "<completed>"),
    Row("tasks <completed>", documents('"tasks": {.*"greet": "SUCCEEDED"')),
    Row("tasks --run-id <completed> --output table", r"(TASK|greet|shout) +(STATE|SUCCEEDED) .*"),
    Row("rerun <completed>", documents("PENDING"), says="run again as"),
    Row("list --output json", r"\[\{.*\}\]"),
    Row("list --output jsonl", documents("run_id")),
    Row("list --output name", ID),
    Row("list --output table", rf"{RUNS_TITLE}|{ID}  [A-Z]+ .*"),
    Row("list --output wide", rf"{RUNS_TITLE}|{ID}  [A-Z]+ .*"),
    Row("list --status FAILED --flow fa* --tag default --limit 1 --full", r"\[.*closed.*\]"),
    Row("list --status failed --output name --flow fail", ID),
    Row("list-vnext --output json", documents('"items": .*"next_cursor": null, "resume')),
    Row("list-vnext --output table", rf"{RUNS_TITLE}|{ID}  [A-Z]+ .*", says="resume_cursor: "),
    Row("list-vnext --updated-after 0 --limit 1 --flow fail --output json", documents("<failed>")),
    Row("watch <completed> --output json", documents('"event": "snapshot", "data": {"run_id"')),
    Row("watch <completed> --output jsonl", documents('"run_id": "<completed>"')),
    Row("watch <completed> --output status", r"[\d.]+\tsnapshot\tCOMPLETED\t<completed>"),
    Row("watch <completed> --output wide", ".*  <completed>  COMPLETED .*"),
    Row("watch <completed> --output name", "<completed>"),
    Row("watch <failed> --until-terminal --output status", r".*\tFAILED\t<failed>"),
    Row("watch <failed> --exit-status --output status", ".*FAILED.*", 1, "ended FAILED"),
    Row("watch <completed> --exit-status --output status", ".*COMPLETED.*"),
    Row("watch <waiting> --timeout-sec 1 --output status", ".*PENDING.*", says="and continues"),
    Row(
        "watch <waiting> --timeout-sec 1 --exit-status -o status", ".*PENDING.*", 1, "and continues"
    ),
    Row("watch <waiting> --max-events 1 --output status", ".*PENDING.*"),
    # A heartbeat comes every 2 seconds, which is longer than the timeout for an answer.
    Row(
        "--timeout 1 watch <waiting> --timeout-sec 5 --output status",
        ".*PENDING.*",
        says="and continues",
    ),
    Row("watch <completed> --since 99999999999 --output name", "<completed>"),
    Row("cancel --run-id <completed>", documents("COMPLETED")),
    Row("cancel --run-id <completed> --wait", documents("COMPLETED")),
    Row("cancel --run-id <completed> --timeout-sec 3", documents("COMPLETED"), says="with --wait"),
    Row("cancel --flow nosuch --yes", r"\[\]", says="0 runs"),
    Row("cancel --status PENDING --tag nobody --flow noop --dry-run -o name", "<waiting>"),
    Row("workers", r"\[\{.*\}\]"),
    Row("workers --scope all --include-hidden --limit 5 --output name", "worker-1"),
    Row("workers --state disconnected", r"\[\]"),
    Row(
        "workers --output table", r"WORKER_ID +STATE +TAGS .*|worker-1 +(IDLE|RUNNING) +default .*"
    ),
    Row("queues --output name", "[a-z]+"),
    Row("dlq list --output table", r"SEQ +AGE .*|\d+ .*"),
    Row("metrics", r"#? ?[A-Za-z_].*"),
    Row("health", documents('"status": "ok"')),
    # An error of the gateway is exit code 1, with the gateway's explanation.
    Row(f"get {NO_RUN}", "", 1, "ERR-PYOCO-0005"),
    Row(f"tasks {NO_RUN}", "", 1, "hint: Check the run id."),
    Row(f"logs {NO_RUN}", "", 1, re.compile(r"request id: \S+")),
    Row(f"logs -f {NO_RUN}", "", 1, "ERR-PYOCO-0005"),
    Row(f"watch {NO_RUN}", "", 1, "ERR-PYOCO-0005"),
    Row(f"cancel --run-id {NO_RUN} --wait", "", 1, f"detail: run {NO_RUN} not found"),
    Row(f"rerun {NO_RUN}", "", 1, "ERR-PYOCO-0005"),
    Row(f"--lang ja get {NO_RUN}", "", 1, "runが見つかりません"),
    Row("submit --flow-name greet --tag a.b", "", 1, "tag: "),
    Row("list-vnext --cursor wrong", "", 1, "ERR-PYOCO-0017"),
    Row("dlq show 999999", "", 1, "ERR-PYOCO-0105"),
    Row("worker hide nosuch", "", 1, "ERR-PYOCO-0020"),
    Row("--server http://127.0.0.1:1 list", "", 1, "ERR-PYOCO-0001"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line)
async def test_a_command_has_the_specified_output_and_exit_code(
    row: Row, command: Command, place: Place, tmp_path: Path
) -> None:
    (tmp_path / "flow.yaml").write_text(
        'flow: {graph: hello}\ntasks:\n  hello: {callable: "yaml_tasks:hello"}\n'
    )
    (tmp_path / "wrong.yaml").write_text('flow: {graph: a}\ntasks: {a: {callabel: "m:f"}}\n')
    done = await command(row.line)
    assert done.code == row.code, done.err
    lines = done.out.splitlines()
    assert bool(lines) == bool(row.prints)
    for line in lines:
        assert re.fullmatch(place.put_into(row.prints), line), line
    if isinstance(row.says, re.Pattern):
        assert row.says.search(done.err)
    else:
        assert (row.says in done.err) if row.says else (done.err == "")


# Wrong arguments are exit code 1, with the specified error id and a correct command line.
WRONG: Final = [
    ("", "Missing command", "pyoco-client submit --flow-name hello --param name=world --wait"),
    ("submti", "Did you mean submit?", "pyoco-client submit --flow-name hello"),
    ("submti --flow-name greet", "Did you mean submit?", "pyoco-client submit --flow-name greet"),
    ("submit", "--flow-name", "pyoco-client submit --flow-name hello"),
    ("submit --flow-nam greet", "--flow-name", "pyoco-client submit --flow-name greet"),
    ("submit --flow-name greet extra", "extra", "pyoco-client submit"),
    (
        """submit --flow-name x --params "{'a': 1}\"""",
        "--params",
        """--params '{"name": "world"}'""",
    ),
    ("submit --flow-name x --timeout-sec 3", "--wait", "--wait --timeout-sec 3"),
    ("submit --flow-name x --wait --timeout-sec 0", "--timeout-sec", "submit"),
    ("submit --flow-name greet --params {oops", "line 1, column 2", "--params '{"),
    ("submit --flow-name greet --params [1]", "must be an object", "--params '{"),
    ("submit --flow-name greet --param name", "key=value", "--param name=world"),
    ("submit --flow-name greet --params-file none.json", "none.json", "--params-file params.json"),
    ("submit-yaml --flow-name y --tag default", "--workflow-file", "--workflow-file flow.yaml"),
    ("submit-yaml --workflow-file none.yaml --flow-name y", "none.yaml", "submit-yaml --workflow"),
    ("get", "RUN_ID", "pyoco-client get --run-id "),
    ("get --run-id 'a b'", "'a b' is not a run id", "pyoco-client get --run-id"),
    ("tasks nonsense", "'nonsense' is not a run id", "pyoco-client tasks --run-id "),
    ("tasks --run-id x", "'x' is not a run id", "pyoco-client tasks --run-id"),
    ("list --output yaml", "'json'", "pyoco-client list "),
    ("list --limit many", "--limit", "pyoco-client list "),
    (
        "list --server http://127.0.0.1:8000",
        "before the command",
        "--server http://127.0.0.1:8000 list",
    ),
    ("list-vnext --updated-after yesterday", "--updated-after", "--updated-after 0"),
    ("watch", "RUN_ID", "pyoco-client watch "),
    ("watch <completed> --output table", "'status'", "pyoco-client watch "),
    ("cancel", "--run-id", "pyoco-client cancel --run-id "),
    ("cancel --tag nobody --flow noop", "--yes", "--yes"),
    ("workers --state BUSY", "'IDLE'", "pyoco-client workers "),
    ("worker hide .", "'.' is not a worker id", "pyoco-client worker hide worker-1"),
    ("metrics now", "now", "pyoco-client metrics"),
    ("dlq redriv 1", "Did you mean redrive?", "pyoco-client dlq redrive 1"),
    ("--server nowhere health", "nowhere", "--server http://127.0.0.1:8000 health"),
    ("--timeout nan health", "--timeout", "pyoco-client submit"),
    ("--timeout inf health", "--timeout", "pyoco-client submit"),
]


@pytest.mark.parametrize(("line", "what", "example"), WRONG)
async def test_a_wrong_argument_is_answered_with_a_correct_command_line(
    line: str, what: str, example: str, command: Command, place: Place
) -> None:
    done = await command(line)
    assert (done.code, done.out) == (1, "")
    assert "ERR-PYOCO-0018" in done.err
    assert what in done.err
    assert example in done.err.partition("example:")[2].splitlines()[0]
    assert await place.stack.client.status(place.waiting) == "PENDING"


SPECIFIED: Final = [
    *("submit", "submit-yaml", "get", "tasks", "list", "list-vnext", "watch", "cancel"),
    *("workers", "metrics"),
]


def test_all_specified_commands_exist() -> None:
    assert set(SPECIFIED) <= set(client.list_commands(click.Context(client)))


# The options that the specification names, under the same names.
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("submit", "--flow-name --params --params-file --param --tag --tags"),
        ("submit-yaml", "--workflow-file --flow-name --tag"),
        ("get", "--records"),
        ("list", "--status --flow --tag --full --limit --output"),
        ("list-vnext", "--status --flow --tag --full --limit --output"),
        ("list-vnext", "--updated-after --cursor --workflow-yaml-sha256"),
        ("watch", "--records --since --timeout-sec --max-events --until-terminal --output"),
        ("cancel", "--run-id --wait --timeout-sec"),
        ("workers", "--scope --state --include-hidden --limit --output"),
    ],
)
def test_a_command_has_the_specified_options(name: str, options: str) -> None:
    found = client.get_command(click.Context(client), name)
    assert found is not None
    known = {word for parameter in found.params for word in parameter.opts}
    assert set(options.split()) <= known


async def test_an_error_of_the_gateway_is_printed_with_its_id_hint_and_request_id(
    command: Command,
) -> None:
    done = await command(f"get --run-id {NO_RUN}")
    assert (done.code, done.out) == (1, "")
    for words in ("ERR-PYOCO-0005", "not found", "hint: Check the run id."):
        assert words in done.err
    assert re.search(r"request id: \S+", done.err)


async def test_cancel_wait_ends_with_the_run_and_fails_at_its_timeout(
    command: Command, place: Place, flows: str
) -> None:
    client = place.stack.client
    deaf = await client.submit("deaf", params={"seconds": 60})
    await eventually(lambda: client.status(deaf), "RUNNING")
    early = await command(f"cancel --run-id {deaf} --wait --timeout-sec 0.5")
    assert (early.code, early.json()["status"]) == (1, "CANCELLING")
    assert early.err == f"run {deaf} is CANCELLING after 0.5 s\n"
    in_time = await command(f"cancel --run-id {deaf} --wait --timeout-sec 30")
    assert (in_time.code, in_time.json()["status"], in_time.err) == (0, "CANCELLED", "")


async def test_many_runs_are_cancelled_by_a_filter_or_by_ids_on_stdin(place: Place) -> None:
    client, program = place.stack.client, command_path("pyoco-client")
    runs = [await client.submit("nap", tag="batch") for _ in range(4)]
    one, *others = runs
    env = {"PYOCO_SERVER": place.stack.url}
    by_id = await run([program, "cancel", "-", "-o", "name"], stdin=f"{one}\n\n{one}\n", env=env)
    assert (by_id.code, by_id.out) == (0, f"{one}\n")
    wait = ["--yes", "--wait", "--timeout-sec", "30"]
    by_tag = await run([program, "cancel", "--tag", "batch", *wait], env=env)
    assert by_tag.code == 0, by_tag.err
    assert {item["run_id"] for item in by_tag.json()} == set(others)
    assert {await client.status(run_id) for run_id in runs} == {"CANCELLED"}
    assert by_tag.err == "3 runs cancelled\n"


async def test_logs_are_followed_to_their_end(place: Place, tmp_path: Path) -> None:
    run_id = await place.stack.client.submit("talk", params={"until": str(tmp_path / "go")})
    async with started(place, "logs", run_id, "-f") as following:
        lines = BufferedByteReceiveStream(stdout_of(following))
        assert await lines.receive_until(b"\n", 1000) == b"I am waiting"
        (tmp_path / "go").touch()
        assert await lines.receive_until(b"done\n", 1000) == b"at last\n"
        assert await following.wait() == 0


@asynccontextmanager
async def started(place: Place, *words: str) -> AsyncGenerator[anyio.abc.Process]:
    """Start the command; yield its process."""
    program = [str(command_path("pyoco-client")), "--server", place.stack.url, *words]
    async with await anyio.open_process(program, env=clean_environment()) as process:
        yield process


def stdout_of(process: anyio.abc.Process) -> anyio.abc.ByteReceiveStream:
    assert process.stdout is not None
    return process.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "watch <waiting>",
        "logs -f <waiting>",
        "submit --flow-name noop --tag elsewhere --wait",
    ],
)
async def test_ctrl_c_exits_with_130_and_without_a_message(arguments: str, place: Place) -> None:
    words = place.put_into(arguments).split()
    before = await streams_open(place.stack)
    async with started(place, *words) as process:
        assert process.stderr is not None
        if words[0] == "watch":
            line = await BufferedByteReceiveStream(stdout_of(process)).receive_until(b"\n", 10_000)
            assert json.loads(line)["data"]["snapshot"]["status"] == "PENDING"
        else:
            await eventually(lambda: streams_open(place.stack), before + 1)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        printed = b"".join([piece async for piece in process.stderr]).decode()
        stdout = b"".join([piece async for piece in stdout_of(process)])
    if words[0] == "submit":
        # The warning and the run id come before the wait.
        assert re.fullmatch(rf"warning: .*\nrun {ID} submitted", printed.strip())
        assert stdout == b""
    else:
        assert printed.strip() == ""


async def streams_open(stack: Stack) -> float:
    page = (await stack.client.http.get("/metrics")).text
    (line,) = [line for line in page.splitlines() if line.startswith("pyoco_sse_clients ")]
    return float(line.split()[1])


async def test_a_pipe_that_is_closed_early_causes_no_error_message(place: Place) -> None:
    line = f"{command_path('pyoco-client')} list --all --output jsonl | head -n 1"
    done = await run(["/bin/bash", "-c", line], env={"PYOCO_SERVER": place.stack.url})
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["run_id"]


async def test_a_piped_watch_prints_a_line_for_each_change_until_the_end(place: Place) -> None:
    run_id = await place.stack.client.submit("nap", params={"seconds": 1.0})
    program = [str(command_path("pyoco-client")), "watch", run_id, "--output", "jsonl"]
    done = await run(program, env={"PYOCO_SERVER": place.stack.url})
    seen = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [(run["status"] in TERMINAL) for run in seen].index(True) == len(seen) - 1
    assert len({(run["status"], run["updated_at"]) for run in seen}) == len(seen)
