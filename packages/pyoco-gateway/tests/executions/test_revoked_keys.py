"""A request that waits tells nothing to a key that was revoked meanwhile."""

from typing import Any

import anyio
import httpx
import pytest

from execution_requests import created, post, refusal
from key_admin import Keyed, knows, status_becomes
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.executions.hub import ExecutionHub
from pyoco_gateway.executions.index.execution_index import ExecutionIndex

OWNER = (
    KeyScope.RUNS_READ,
    KeyScope.EXECUTIONS_READ,
    KeyScope.EXECUTIONS_WRITE,
    KeyScope.GRAPHS_WRITE,
)
POLLS = {
    "an event": (ExecutionHub, "listening", "{path}?minSeq={seq}&waitSec=15"),
    "a ready task": (ExecutionIndex, "listening_for_ready_tasks", "/ready-tasks?waitSec=15"),
}


@pytest.mark.parametrize(("kind", "method", "poll"), POLLS.values(), ids=POLLS)
async def test_a_wait_tells_nothing_to_a_key_that_was_revoked_meanwhile(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch, kind: type, method: str, poll: str
) -> None:
    http, key_admin = keyed
    reader = await key_admin.issue(KeyScope.RUNS_READ, KeyScope.EXECUTIONS_READ)
    owner = await key_admin.issue(*OWNER)
    for key in (reader, owner):
        await knows(http, key)
    http.headers.update(owner.headers)
    path = await created(http)
    seq = (await http.get(path)).json()["seq"]
    await post(http, f"{path}/nodes/t/start")
    arrived = anyio.Event()
    original = getattr(kind, method)

    def noted(self: Any, *args: Any) -> Any:
        arrived.set()
        return original(self, *args)

    monkeypatch.setattr(kind, method, noted)
    answers: list[httpx.Response] = []

    async def wait() -> None:
        url = poll.format(path=path, seq=seq + 2)
        answers.append(await http.get(url, headers=reader.headers))

    with anyio.fail_after(14):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await arrived.wait()
            await key_admin.revoke(reader)
            await status_becomes(http, path, reader, httpx.codes.UNAUTHORIZED)
            await post(http, f"{path}/cancel")
            await created(http)
    assert refusal(answers[0]) == (401, "UNAUTHENTICATED")
