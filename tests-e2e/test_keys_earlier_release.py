"""Keys that the admin command of an earlier release has issued, in the bucket of the gateway."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pyoco_testkit.api_key_stack import API_KEY_SETTINGS, ApiKeyStack
from pyoco_testkit.commands import run


class EarlierKeyStack(ApiKeyStack):
    """A stack with a bucket of keys that an earlier server has created, with the same pepper."""

    def __init__(self, directory: Path, folder: Path) -> None:
        super().__init__(directory)
        self.folder = folder
        self.earlier_key: dict[str, Any] = {}

    async def start_gateway(self) -> Any:
        if not self.earlier_key:
            created = await self.earlier_admin("create", "--tenant", "acme")
            self.earlier_key = json.loads(created)
        return await super().start_gateway()

    async def earlier_admin(self, *arguments: str) -> str:
        """Return the output of `api-key` of the earlier release."""
        done = await run(
            [self.folder / "python", "-m", "pyoco_server.admin_cli", "api-key", *arguments],
            env={**API_KEY_SETTINGS, "PYOCO_NATS_URL": self.nats.url},
        )
        assert done.code == 0, done.err
        return done.out


@pytest.fixture
async def stack(pytestconfig: pytest.Config, tmp_path: Path) -> AsyncGenerator[EarlierKeyStack]:
    folder = Path(pytestconfig.getoption("--earlier-client")).parent
    async with EarlierKeyStack(tmp_path / "stack", folder) as opened:
        yield opened


async def test_an_earlier_key_is_listed_and_the_refusal_names_it(stack: EarlierKeyStack) -> None:
    key, key_id = stack.earlier_key["api_key"], stack.earlier_key["key_id"]
    refused = await stack.client.http.get("/runs", headers={"X-API-Key": key})
    assert (refused.status_code, refused.json()["err_id"]) == (403, "ERR-PYOCO-0015")
    assert "was issued by an earlier server" in refused.json()["detail"]
    listed = json.loads(await stack.admin("api-key", "list", "--json"))
    (found,) = [each for each in listed if each["issued_by_earlier_server"]]
    assert (found["key_id"], found["tenant_id"], found["state"]) == (key_id, "acme", "refused")

    await stack.admin("api-key", "revoke", "--key-id", key_id)
    listed = json.loads(await stack.earlier_admin("list"))
    (theirs,) = [each for each in listed if each["key_id"] == key_id]
    assert theirs["revoked_at"] is not None


async def test_the_earlier_client_works_with_a_key_of_this_server(stack: EarlierKeyStack) -> None:
    key = await stack.issue_key(tenant="globex")
    client = (str(stack.folder / "pyoco-client"), "--server", stack.url)
    for options in (("--api-key", key), ("--api-key", key, "--api-key-header", "X-API-Key")):
        for command in ("list", "workers", "metrics"):
            done = await run([*client, *options, command])
            assert done.code == 0, done.err
    without = await run([*client, "list"])
    assert (without.code, "ERR-PYOCO-0014" in without.err) == (1, True)
    earlier = await run([*client, "--api-key", stack.earlier_key["api_key"], "list"])
    assert (earlier.code, "was issued by an earlier server" in earlier.err) == (1, True)
