"""Two companies at one gateway, and what each has there."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from nats.aio.msg import Msg

from key_admin import HeldKey, KeyAdmin, keyed_gateway_at, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_testkit.builders import NOW, snapshot_json

if TYPE_CHECKING:
    from conftest import StartGateway, Store

# What tells two requests apart that are the same.
_OF_EACH_REQUEST = {"date", "x-request-id"}
# Runs without a worker are left as a test puts them.
_PATIENT = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "60"}
# What a request may lead to; all else the gateway does by itself.
_OF_REQUESTS = ("$JS.API.STREAM.MSG.", "$JS.API.DIRECT.", "$KV.", "pyoco.")


@dataclass(frozen=True)
class Tenant:
    """One of them: its key, and a client that sends it."""

    name: str
    key: HeldKey
    http: httpx.AsyncClient
    store: "Store"

    async def put_run(self, **fields: Any) -> str:
        """Store the record of a run of this tenant, and return its id."""
        run = snapshot_json(**{"tenant_id": self.name, **fields})
        await self.put_record(run["run_id"], json.dumps(run).encode())
        return str(run["run_id"])

    async def put_record(self, run_id: str, value: bytes) -> None:
        """Store whatever stands for a run."""
        await self.store.js.publish(f"$KV.pyoco_runs.{run_id}", value)

    async def put_letter(self, run_id: str | None = None, **fields: Any) -> int:
        """Store a dead letter of this tenant, and return its sequence."""
        said = {"timestamp": NOW, "reason": "execution_error", "run_id": run_id, "tag": "default"}
        letter = {**said, "tenant_id": self.name, **fields}
        data = json.dumps({name: value for name, value in letter.items() if value is not None})
        return int((await self.store.js.publish("pyoco.dlq.default", data.encode())).seq)

    async def submit(self, flow_name: str = "hello", key: str | None = None, **body: Any) -> str:
        """Submit a run, and return its id."""
        headers = {} if key is None else {"X-Idempotency-Key": key}
        answer = await self.http.post(
            "/runs", json={"flow_name": flow_name, **body}, headers=headers
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    async def get(self, path: str, **query: Any) -> Any:
        """Return the body of an answer that must be a good one."""
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run_ids(self, **query: Any) -> set[str]:
        """Return the runs that a list shows."""
        found = await self.get("/runs", **query)
        items = found["items"] if isinstance(found, dict) else found
        return {item["run_id"] for item in items}


@dataclass(frozen=True)
class Pair:
    """Both, and where their keys come from."""

    acme: Tenant
    globex: Tenant
    desk: KeyAdmin
    store: "Store"


@asynccontextmanager
async def pair_at(
    start_gateway: "StartGateway", nats_url: str, store: "Store"
) -> AsyncGenerator[Pair]:
    """Two tenants at a gateway, each with a key that may do everything: for its own tenant."""
    async with (
        keyed_gateway_at(start_gateway, nats_url, store, **_PATIENT) as (http, desk),
        AsyncExitStack() as clients,
    ):
        tenants = []
        for name in ("acme", "globex"):
            key = await desk.issue(KeyScope.ADMIN, tenant=name)
            await knows(http, key)
            client = httpx.AsyncClient(
                base_url=http.base_url, headers=key.headers, timeout=20, trust_env=False
            )
            await clients.enter_async_context(client)
            tenants.append(Tenant(name, key, client, store))
        acme, globex = tenants
        yield Pair(acme, globex, desk, store)


@asynccontextmanager
async def asked_of_broker(store: "Store") -> AsyncGenerator[Callable[[], Awaitable[list[str]]]]:
    """What is read from and written to the broker; call what is given to have it and start anew."""
    seen: list[str] = []

    async def note(message: Msg) -> None:
        seen.append(f"{message.subject} {message.data.decode()}")

    async def taken() -> list[str]:
        await store.client.flush()
        found = [each for each in seen if each.startswith(_OF_REQUESTS)]
        seen.clear()
        return found

    subscription = await store.client.subscribe(">", cb=note)
    yield taken
    await subscription.unsubscribe()


def shown(answer: httpx.Response, *ids: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return all of an answer but what differs between two that are the same: the ids asked for."""
    headers = [
        (name, value)
        for name, value in answer.headers.multi_items()
        if name not in _OF_EACH_REQUEST
    ]
    body = answer.content
    for each in ids:
        body = body.replace(each.encode(), b"<id>")
    return answer.status_code, headers, body
