"""Two tenants share a fleet; neither sees runs or dead letters of the other."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import StackClient


@asynccontextmanager
async def tenant(stack: ApiKeyStack, name: str) -> AsyncGenerator[StackClient]:
    """Create a client with an admin key of a tenant."""
    client = StackClient(stack.url)
    client.http.headers["X-API-Key"] = await stack.issue_key("admin", tenant=name)
    async with client.http:
        await eventually(lambda: status_of(client, "/runs"), httpx.codes.OK)
        yield client


async def status_of(client: StackClient, path: str) -> int:
    return (await client.http.get(path)).status_code


async def letters(client: StackClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.http.get("/dlq")).json()["items"]
    return items


async def test_runs_and_dead_letters_of_a_tenant_are_hidden_from_another(
    tmp_path: Path, flows: str
) -> None:
    """S2, I15: completed, failed, malformed and redriven runs keep their tenant."""
    needs, ledger = tmp_path / "needs.txt", tmp_path / "ledger.txt"
    params = {"needs": str(needs), "ledger": str(ledger)}
    async with ApiKeyStack() as stack, tenant(stack, "globex") as globex:
        acme = stack.client
        async with stack.worker(flows=flows):
            greeted = await acme.submit("greet", params={"name": "acme"})
            assert (await acme.wait(greeted))["status"] == "COMPLETED"
            failed = await acme.submit("fragile", params=params)
            assert (await acme.wait(failed))["status"] == "FAILED"
            (letter,) = await eventually(lambda: letters(acme), lambda found: len(found) == 1)
            # The dead letter of an unreadable job belongs to the tenant of its run.
            malformed = await acme.submit("greet", tag="unserved")
            await stack.publish_job("default", b'{"run_id": "%s"}' % malformed.encode())
            (latest, _) = await eventually(lambda: letters(acme), lambda found: len(found) == 2)
            assert (latest["run_id"], latest["reason"]) == (malformed, "invalid_job")

            for path in (
                f"/runs/{greeted}",
                f"/runs/{failed}/tasks",
                f"/runs/{greeted}/logs",
                f"/dlq/{letter['seq']}",
            ):
                assert await status_of(acme, path) == 200
                assert await status_of(globex, path) == 404
            assert await letters(globex) == []
            assert (await globex.http.post(f"/dlq/{letter['seq']}/redrive")).status_code == 404

            needs.write_text("stock", encoding="utf-8")
            redriven = await acme.http.post(f"/dlq/{letter['seq']}/redrive")
            again = await acme.wait(redriven.json()["new_run_id"])
            assert (again["status"], again["tenant_id"]) == ("COMPLETED", "acme")
        assert (await globex.http.get("/runs")).json() == []
        runs = {run["run_id"] for run in (await acme.http.get("/runs")).json()}
        assert runs == {greeted, failed, malformed, again["run_id"]}
        shown = await globex.http.get("/workers", params={"scope": "all"})
        assert not any(run_id in shown.text for run_id in runs)
        named = await acme.http.get("/workers", params={"scope": "all"})
        assert any(run_id in named.text for run_id in runs)
