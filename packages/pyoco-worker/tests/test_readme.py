import sys
from pathlib import Path

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.documents import blocks_in, tables_in
from pyoco_testkit.processes import ManagedProcess
from pyoco_worker.cli import command
from worker_fixture import WorkerFixture

README = Path(__file__).parents[1] / "README.md"


async def test_the_flow_in_the_readme_runs(fixture: WorkerFixture) -> None:
    block, _ = blocks_in(README)
    file = fixture.directory / block.name
    file.write_text(block.text, encoding="utf-8")
    async with fixture.worker(flows=f"{file}:resolve"):
        first = await fixture.ended(await fixture.submit("hello", name="README"))
        second = await fixture.ended(await fixture.submit("hello"))
        missing = await fixture.ended(await fixture.submit("goodbye"))
    assert first.status is second.status is RunStatus.COMPLETED
    assert first.task_records["shout"].output == "HELLO, README!"
    assert second.task_records["shout"].output == "HELLO, WORLD!"
    assert missing.err_id == "ERR-PYOCO-0006"


async def test_the_program_with_a_worker_inside_runs(fixture: WorkerFixture) -> None:
    _, block = blocks_in(README)
    file = fixture.directory / block.name
    file.write_text(block.text, encoding="utf-8")
    run_id = await fixture.submit("hello", name="README")
    command = (sys.executable, file)
    env = {"PYOCO_NATS_URL": fixture.nats.url}
    async with ManagedProcess("embedded", command, fixture.directory, env) as program:
        assert await program.wait(timeout=30) == 0
        assert f"executed {run_id}" in program.log()
    assert (await fixture.read(run_id)).snapshot.result == {"greet": "Good morning, README!"}


def test_the_readme_lists_the_flags_of_the_command() -> None:
    documented = [row["flag"] for row in tables_in(README)["Command line"]]
    assert documented == [*(option.opts[-1] for option in command.params), "--help"]
