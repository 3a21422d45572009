"""The command `pyoco-worker`: start, refused arguments, and stop."""

import shutil
from pathlib import Path

import pytest

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from worker_fixture import WorkerFixture, began, let_go_on, names_in


async def outcome_of(
    directory: Path, *arguments: str, env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Return the exit code and the output of the command."""
    command = [str(command_path("pyoco-worker")), *arguments]
    async with ManagedProcess("worker", command, directory, env) as process:
        return await process.wait(20), process.log()


NO_BROKER = ("--nats-url", "nats://127.0.0.1:1", "--concurrency", "1")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--no-such-flag",), "--no-such-flag"),
        (("a-word",), "a-word"),
        (("--concurrency", "0"), "--concurrency"),
        (("--concurrency", "many"), "--concurrency"),
        (("--tags", "a.b"), "a.b"),
        (("--tags", ","), "--tags"),
        (("--worker-id", "a/b"), "a/b"),
        (("--worker-id", "a."), "a."),
        (("--poll-timeout", "0"), "--poll-timeout"),
        (("--log-level", "loud"), "--log-level"),
        (("--nats-url", ""), "is empty"),
        (("--nats-url", "http://broker"), "PYOCO_NATS_URL"),
    ],
)
async def test_an_invalid_argument_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    code, output = await outcome_of(tmp_path, *arguments)
    assert code == 1
    assert named in output
    assert "ERR-PYOCO-" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (("--lang", "ja", "--no-such-flag"), {}),
        (("--no-such-flag",), {"LANG": "ja_JP.UTF-8", "LC_ALL": ""}),
        (("--no-such-flag",), {"PYOCO_LANG": "ja"}),
    ],
)
async def test_errors_are_japanese_with_the_option_or_the_locale(
    tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    code, output = await outcome_of(tmp_path, *arguments, env=env)
    assert code == 1
    assert "ERR-PYOCO-0018: CLI引数が不正です（入力形式を確認してください）" in output
    assert "例に従って引数を修正してください" in output


async def test_an_invalid_setting_is_refused_by_name(tmp_path: Path) -> None:
    env = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "soon"}
    code, output = await outcome_of(tmp_path, *NO_BROKER, env=env)
    assert code == 1
    assert "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC" in output


async def test_an_in_progress_interval_as_long_as_the_lease_is_refused(tmp_path: Path) -> None:
    env = {"PYOCO_CONSUMER_ACK_WAIT_SEC": "5", "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "5"}
    code, output = await outcome_of(tmp_path, *NO_BROKER, env=env)
    assert code == 1
    assert "PYOCO_ACK_PROGRESS_INTERVAL_SEC" in output


@pytest.mark.parametrize(
    ("resolver", "reason"),
    [
        ("no_such_module:resolve", "no_such_module"),
        ("nowhere/flows.py:resolve", "nowhere/flows.py"),
        ("json:no_such_function", "no_such_function"),
        ("flows", "module:function"),
        ("broken.py:resolve", "half an upload"),
        ("deadly.py:resolve", "goodbye"),
    ],
)
async def test_a_resolver_that_cannot_be_loaded_ends_the_worker_at_its_start(
    tmp_path: Path, resolver: str, reason: str
) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('half an upload')\n", encoding="utf-8")
    deadly = "import os\nprint('goodbye', flush=True)\nos._exit(9)\n"
    (tmp_path / "deadly.py").write_text(deadly, encoding="utf-8")
    # Before the worker connects to a broker. Both children fail at the same time.
    arguments = (*NO_BROKER[:2], "--concurrency", "2", "--flow-resolver", resolver)
    code, output = await outcome_of(tmp_path, *arguments)
    assert code == 1
    assert "ERR-PYOCO-0018" in output
    assert reason in output
    assert "Traceback (most recent call last)" not in output


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
async def test_help_and_version_exit_with_zero(tmp_path: Path, flag: str) -> None:
    code, output = await outcome_of(tmp_path, flag)
    assert code == 0
    assert "pyoco-worker" in output
    if flag != "--version":
        assert "--flow-resolver" in output


async def test_a_resolver_module_is_found_in_the_directory_the_worker_was_started_in(
    fixture: WorkerFixture,
) -> None:
    place = fixture.directory / "worker-1"
    place.mkdir()
    shutil.copy(fixture.flows.rpartition(":")[0], place / "flows_beside.py")
    async with fixture.worker(flows="flows_beside:resolve"):
        assert (await fixture.ended(await fixture.submit("greet"))).status is RunStatus.COMPLETED


@pytest.mark.parametrize(("interrupt", "expected"), [(False, 0), (True, 130)])
async def test_a_stopped_worker_leaves_no_processes_or_files(
    fixture: WorkerFixture, interrupt: bool, expected: int
) -> None:
    async with fixture.worker(concurrency=2) as worker:
        assert (await fixture.ended(await fixture.submit("greet"))).status is RunStatus.COMPLETED
        family = worker.children()
        assert len(family) >= 2
        if interrupt:
            worker.interrupt()
        else:
            worker.terminate()
        assert await worker.wait() == expected
        await eventually(lambda: [each for each in family if each.is_running()], [])
        assert "Traceback" not in worker.log()
    assert names_in(fixture.directory / "data") == set()
    assert names_in(worker.directory) == {worker.log_path.name}


async def test_an_active_run_finishes_before_the_worker_stops(fixture: WorkerFixture) -> None:
    async with fixture.worker() as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit_noted("note-wait", **waiting)
        await began(waiting)
        worker.terminate()
        await worker.wait_for_log("worker stopping")
        left = await fixture.submit("noop")
        let_go_on(waiting)
        assert await worker.wait() == 0
    ended = await fixture.ended(run_id)
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert await fixture.status(left) == RunStatus.PENDING
    assert await fixture.jobs_left() == 1


async def test_a_worker_that_waits_for_its_broker_can_be_stopped(tmp_path: Path) -> None:
    resolver = tmp_path / "flows.py"
    resolver.write_text("def resolve(name):\n    raise KeyError(name)\n", encoding="utf-8")
    command = [
        str(command_path("pyoco-worker")),
        *NO_BROKER,
        "--flow-resolver",
        f"{resolver}:resolve",
    ]
    async with ManagedProcess("worker", command, tmp_path / "here") as worker:
        await worker.wait_for_log("broker unreachable")
        worker.terminate()
        assert await worker.wait() == 0
        assert "Traceback" not in worker.log()


async def test_other_files_in_the_data_directory_stay(fixture: WorkerFixture) -> None:
    user_file = fixture.directory / "data" / "worker-1" / "thesis.txt"
    user_file.parent.mkdir(parents=True)
    user_file.write_text("ten years of work", encoding="utf-8")
    async with fixture.worker() as worker:
        assert worker.name == "worker-1"
        assert (await fixture.ended(await fixture.submit("surroundings"))).error is None
    assert user_file.read_text(encoding="utf-8") == "ten years of work"


async def test_credentials_are_not_logged(fixture: WorkerFixture) -> None:
    url = fixture.nats.url.replace("nats://", "nats://worker:s3cr3t-of-the-broker@")
    async with fixture.worker("--log-level", "debug", nats_url=url) as worker:
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED
        await fixture.nats.restart()
        await worker.wait_for_log("broker connection restored")
        assert "s3cr3t" not in worker.log()
