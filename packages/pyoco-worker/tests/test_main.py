"""The environment and the command line of the worker, as its flows see them."""

from pyoco_protocol.runs.lifecycle import RunStatus
from worker_fixture import WorkerFixture


async def test_flows_find_no_credentials_in_the_environment_or_command_line_of_the_worker(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    url = fixture.nats.url.replace("://", "://somebody:url-secret@")
    env = {
        "PYOCO_AUTH_PEPPER": "variable-secret-of-a-gateway",
        "DATABASE_URL": "database-secret",
    }
    async with fixture.worker(flows=hostile_flows, env=env, nats_url=url) as worker:
        ended = await fixture.ended(await fixture.submit("read-the-worker"))
        assert ended.status is RunStatus.COMPLETED
        assert ended.result is not None
        seen = ended.result["read_the_worker"]
    assert isinstance(seen, dict)
    assert str(worker.pid) + "/cmdline" in seen
    assert [where for where, text in seen.items() if "-secret" in str(text)] == []
    assert "://***@" in str(seen[f"{worker.pid}/cmdline"])
