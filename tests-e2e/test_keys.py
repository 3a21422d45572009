"""A key is issued, rotated and revoked without restarting the gateway."""

import time
from typing import Final

import anyio
import httpx

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.eventually import eventually

# The documented maximum time until a revoked key stops working.
REVOCATION_SEC: Final = 2.0


async def test_a_key_is_issued_rotated_and_revoked_and_its_open_watch_ends(flows: str) -> None:
    async with ApiKeyStack() as stack, stack.worker(flows=flows):
        key = await stack.issue_key("runs:read", "runs:write")
        key_id = key.split("_")[1]
        async with client_with(key, stack.url) as old_client:
            await eventually(lambda: status(old_client, "/runs"), httpx.codes.OK)
            run_id = await submit_long_run(old_client)
            successor = await stack.admin(
                *("api-key", "rotate", "--key-id", key_id, "--overlap", "1h")
            )
            async with (
                client_with(successor, stack.url) as new_client,
                old_client.stream("GET", f"/runs/{run_id}/watch") as watch,
            ):
                events = watch.aiter_lines()
                assert await anext(events) == "event: snapshot"
                # During the overlap both keys work.
                await eventually(lambda: status(new_client, f"/runs/{run_id}"), httpx.codes.OK)
                assert await status(old_client, f"/runs/{run_id}") == httpx.codes.OK

                await stack.admin("api-key", "revoke", "--key-id", key_id)
                since = time.monotonic()
                with anyio.fail_after(10):
                    rest = [line async for line in events if line]
                assert time.monotonic() - since < REVOCATION_SEC
                assert '"reason":"api_key_invalid"' in rest[-1]
                assert await status(old_client, f"/runs/{run_id}") == httpx.codes.FORBIDDEN
                assert await status(new_client, f"/runs/{run_id}") == httpx.codes.OK
                assert (await new_client.post(f"/runs/{run_id}/cancel")).is_success
        log = stack.gateway.log()
        assert "ERR-PYOCO-0015" in log
        assert key not in log
        assert successor not in log


def client_with(key: str, url: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=20, trust_env=False)


async def status(http: httpx.AsyncClient, path: str) -> int:
    return (await http.get(path)).status_code


async def submit_long_run(http: httpx.AsyncClient) -> str:
    """Submit a run that lasts longer than the test, and return its id."""
    body = {"flow_name": "nap", "params": {"seconds": 60}}
    answer = await http.post("/runs", json=body)
    assert answer.is_success, answer.text
    return str(answer.json()["run_id"])
