"""Every call that the client of an earlier release offers, with its outcome at the current gateway.

The tables below are compared with the client itself: a command, option or method that is missing
here fails a test.
"""

import json
import re
import zipfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pyoco_testkit.commands import Done, run
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

NO_FILE: Final = 64 * "0"
WHEEL: Final = "demo-1.0-py3-none-any.whl"
WORKFLOW: Final = (Path(__file__).parent / "flows" / "greet.yaml").read_text(encoding="utf-8")
METADATA: Final = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
# The gateway has no wheel routes.
NO_ROUTE: Final = "ERR-PYOCO-0110"

# Calls a method of the client for each line on stdin, and prints what came of it.
CALLS: Final = """
import json, sys
from pyoco_server import PyocoHttpClient
from httpx import HTTPStatusError
client = PyocoHttpClient(sys.argv[1], api_key="unused", api_key_header="X-API-Key")
print(json.dumps([name for name in dir(client) if not name.startswith("_")]))
for line in sys.stdin:
    name, positional, named = json.loads(line)
    if "data" in named:
        named["data"] = named["data"].encode()
    try:
        result = getattr(client, name)(*positional, **named)
        print(json.dumps({"result": list(result) if name == "watch_run" else result}))
    except HTTPStatusError as error:
        body = error.response.json()
        print(json.dumps({"status": error.response.status_code, "err_id": body["err_id"]}))
"""

# Prints the help texts of the named commands; a process for each would take long.
HELP_TEXTS: Final = """
import contextlib, io, json, runpy, sys
texts, names = {}, sys.argv[1:]
for name in names:
    sys.argv = ["pyoco-client", name, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        runpy.run_module("pyoco_server.client_cli", run_name="__main__")
    texts[name] = text.getvalue()
print(json.dumps(texts))
"""


@dataclass(frozen=True)
class Earlier:
    """The commands of the earlier release, a current server, and runs that have completed."""

    client: Path
    stack: Stack
    files: Path
    run_ids: tuple[str, str]

    async def __call__(self, *arguments: str) -> Done:
        return await run([self.client, "--server", self.stack.url, *arguments])

    async def method(self, name: str, *positional: Any, **named: Any) -> dict[str, Any]:
        """Return `{"result": …}` of a method of the client class, or status and error id."""
        python = self.client.with_name("python")
        line = json.dumps([name, positional, named])
        done = await run([python, "-c", CALLS, self.stack.url], stdin=line)
        assert done.code == 0, done.err
        outcome: dict[str, Any] = json.loads(done.out.splitlines()[1])
        return outcome


@pytest.fixture(scope="module")
async def earlier(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, flows: str
) -> AsyncGenerator[Earlier]:
    files = tmp_path_factory.mktemp("files")
    (files / "flow.yaml").write_text(WORKFLOW, encoding="utf-8")
    (files / "params.yaml").write_text("name: file\n", encoding="utf-8")
    with zipfile.ZipFile(files / WHEEL, "w") as wheel:
        wheel.writestr("demo/__init__.py", "")
        wheel.writestr("demo-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    async with (
        Stack(tmp_path_factory.mktemp("earlier")) as stack,
        stack.worker(flows=flows, worker_id="worker-1", concurrency=2),
    ):
        first, second = [await stack.client.submit("greet") for _ in range(2)]
        for run_id in (first, second):
            await stack.client.wait(run_id)
        command = Path(pytestconfig.getoption("--earlier-client"))
        yield Earlier(command, stack, files, (first, second))


# --- the command

UPLOAD: Final = "wheel-upload --wheel-file {files}/{wheel}"
# The arguments of each call; {0} is a completed run, {files} a folder. Then the exit code, and a
# pattern in its output.
COMMANDS: Final[list[tuple[str, int, str]]] = [
    (
        "submit --flow-name greet --params {{}} --param name=a --tag default --tags x,y",
        0,
        "PENDING",
    ),
    ("submit --flow-name greet --params-file {files}/params.yaml", 0, "PENDING"),
    (
        "submit-yaml --workflow-file {files}/flow.yaml --flow-name f --tag default",
        0,
        '"status": "PENDING"',
    ),
    ("get {0} --records", 0, "HELLO, WORLD!"),
    ("tasks {0}", 0, '"shout": "SUCCEEDED"'),
    ("list --status COMPLETED --flow greet --tag default --full --limit 5", 0, "{0}"),
    ("list --output table", 0, "{0} +COMPLETED"),
    (
        "list-vnext --status COMPLETED --flow greet --tag default --full --updated-after 0",
        0,
        "{0}",
    ),
    (f"list-vnext --workflow-yaml-sha256 {NO_FILE} --updated-after 0", 0, r'"items": \[\]'),
    # The second newest run; other tests add runs.
    ("list-vnext --cursor {cursor} --limit 1", 0, r'"items": \[\{"run_id": "'),
    ("list-vnext --output table --updated-after 0", 0, "{0} +COMPLETED"),
    (
        "watch {0} --records --since 0 --timeout-sec 5 --max-events 1 --until-terminal",
        0,
        "HELLO, WORLD!",
    ),
    ("watch {0} --output status", 0, r"snapshot\tCOMPLETED\t{0}"),
    ("cancel --run-id {0} --wait --timeout-sec 5", 0, '"status": "COMPLETED"'),
    ("workers --scope all --state DISCONNECTED --include-hidden --limit 5", 0, r"\[\]"),
    ("workers --output table", 0, "worker-1"),
    ("workers --output plugins", 0, ""),
    ("metrics", 0, "\npyoco_runs_total"),
    ("wheels", 1, f"404 .*{NO_ROUTE}"),
    ("wheel-history --limit 2 --wheel-name x --action upload", 1, f"404 .*{NO_ROUTE}"),
    # Refused by the client itself, before it sends anything.
    (f"{UPLOAD} --preflight strict", 1, "wheel preflight failed"),
    (
        f"{UPLOAD} --replace --allow-no-entry-points --allow-missing-usage-doc --tags cpu",
        1,
        f"404 .*{NO_ROUTE}",
    ),
    (f"{UPLOAD} --no-replace --preflight off", 1, f"404 .*{NO_ROUTE}"),
    ("wheel-delete --name {wheel}", 1, f"404 .*{NO_ROUTE}"),
]


@pytest.mark.parametrize(("arguments", "code", "pattern"), COMMANDS)
async def test_a_command_has_this_outcome(
    earlier: Earlier, arguments: str, code: int, pattern: str
) -> None:
    values = {"files": earlier.files, "wheel": WHEEL}
    if "{cursor}" in arguments:
        page = (await earlier("list-vnext", "--updated-after", "0", "--limit", "1")).json()
        values["cursor"] = page["next_cursor"]
    done = await earlier(*arguments.format(*earlier.run_ids, **values).split())
    assert done.code == code, done.err
    wanted = pattern if code else re.sub(r"\{(\d)\}", lambda n: earlier.run_ids[int(n[1])], pattern)
    assert re.search(wanted, done.err if code else done.out), done


async def test_the_table_has_every_command_and_option(earlier: Earlier) -> None:
    listed = (await earlier("--help")).out
    names = re.findall(r"^    ([a-z][a-z-]*) ", listed, re.MULTILINE)
    assert set(names) == {arguments.split()[0] for arguments, _, _ in COMMANDS}
    done = await run([earlier.client.with_name("python"), "-c", HELP_TEXTS, *names])
    assert all("usage:" in text for text in done.json().values())
    for name, text in done.json().items():
        offered = set(re.findall(r"--[a-z0-9-]+", text))
        used = {
            word
            for arguments, _, _ in COMMANDS
            for word in arguments.split()
            if arguments.split()[0] == name and word.startswith("--")
        }
        assert used == offered - {"--help"}, name


# --- the class

PAGE: Final = {"status": "COMPLETED", "flow": "greet", "tag": "default", "full": True, "limit": 5}
MISSING: Final = {"status": 404, "err_id": NO_ROUTE}


# The calls of `Earlier.method` in this file.
CALLED: Final = set(re.findall(r'method\(\s*"(\w+)"', Path(__file__).read_text(encoding="utf-8")))


async def test_every_method_of_the_client_class_is_called_here(earlier: Earlier) -> None:
    done = await run([earlier.client.with_name("python"), "-c", CALLS, earlier.stack.url])
    assert set(json.loads(done.out)) == CALLED


async def test_the_client_class_submits_reads_and_cancels_runs(earlier: Earlier) -> None:
    wait = earlier.stack.client.wait
    submitted = await earlier.method(
        "submit_run", "greet", {"name": "a"}, tag="default", tags=["x"]
    )
    run_id = submitted["result"]["run_id"]
    await wait(run_id)
    assert (await earlier.method("get_run", run_id))["result"]["tags"] == ["x"]
    whole = (await earlier.method("get_run_with_records", run_id))["result"]
    assert whole["task_records"]["shout"]["output"] == "HELLO, A!"
    tasks = (await earlier.method("get_tasks", run_id))["result"]["tasks"]
    assert tasks == {"greet": "SUCCEEDED", "shout": "SUCCEEDED"}
    events = await earlier.method(
        "watch_run", run_id, include_records=True, since=0.0, timeout_sec=5
    )
    assert events["result"][-1]["data"]["snapshot"]["status"] == "COMPLETED"
    form = {"flow_name": "from-a-file", "tag": "default"}
    from_file = await earlier.method("submit_run_yaml", WORKFLOW, **form)
    ended = await wait(from_file["result"]["run_id"])
    assert ended["result"] == {"greet": "Hello, YAML!"}

    nap = await earlier.method("submit_run", "nap", {"seconds": 600})
    nap_id = nap["result"]["run_id"]
    await eventually(lambda: earlier.stack.client.status(nap_id), "RUNNING")
    cancelled = await earlier.method("cancel_run", nap_id, wait=True, timeout_sec=20)
    assert cancelled["result"]["status"] == "CANCELLED"


async def test_the_client_class_lists_runs(earlier: Earlier) -> None:
    plain = (await earlier.method("list_runs", **PAGE))["result"]
    delta = (await earlier.method("list_runs_vnext", **PAGE, updated_after=0.0))["result"]["items"]
    for items in (plain, delta):
        assert set(earlier.run_ids) <= {item["run_id"] for item in items}
    one = {"limit": 1, "workflow_yaml_sha256": None}
    first = (await earlier.method("list_runs_vnext", **one, updated_after=0.0))["result"]
    cursor = first["next_cursor"]
    second = (await earlier.method("list_runs_vnext", **one, cursor=cursor))["result"]
    assert first["items"][0]["run_id"] != second["items"][0]["run_id"]


async def test_the_client_class_manages_workers_and_reads_metrics(earlier: Earlier) -> None:
    hidden = await earlier.method("patch_worker_hidden", "worker-1", hidden=True)
    assert hidden["result"]["hidden"] is True
    try:
        assert (await earlier.method("get_workers"))["result"] == []
        options = {"scope": "all", "state": None, "include_hidden": True, "limit": 5}
        (worker,) = (await earlier.method("get_workers", **options))["result"]
        assert (worker["worker_id"], worker["hidden"]) == ("worker-1", True)
    finally:
        await earlier.method("patch_worker_hidden", "worker-1", hidden=False)
    assert "\npyoco_workers_alive_total " in (await earlier.method("get_metrics"))["result"]
    assert (await earlier.method("close")) == {"result": None}


async def test_the_wheel_methods_of_the_client_class_get_404(earlier: Earlier) -> None:
    assert await earlier.method("list_wheels") == MISSING
    filters = {"limit": 1, "wheel_name": WHEEL, "action": "upload"}
    assert await earlier.method("list_wheel_history", **filters) == MISSING
    wheel = {"filename": WHEEL, "data": "x", "replace": False, "tags": ["cpu"]}
    assert await earlier.method("upload_wheel", **wheel) == MISSING
    assert await earlier.method("delete_wheel", WHEEL) == MISSING
