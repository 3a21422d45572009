from pathlib import Path

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.documents import blocks_in, tables_in
from pyoco_worker.cli import command
from worker_fixture import WorkerFixture

README = Path(__file__).parents[1] / "README.md"


async def test_the_flow_in_the_readme_runs(fixture: WorkerFixture) -> None:
    (block,) = blocks_in(README)
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


def test_the_readme_lists_the_flags_of_the_command() -> None:
    documented = [row["flag"] for row in tables_in(README)["Command line"]]
    assert documented == [*(option.opts[-1] for option in command.params), "--help"]
