"""Two tenants at one gateway, with their keys and runs."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from nats.aio.msg import Msg

from key_admin import HeldKey, KeyAdmin, keyed_gateway_at, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_testkit.builders import NOW, snapshot_json

if TYPE_CHECKING:
    from conftest import StartGateway, Store

# Headers that differ between equal requests.
_OF_EACH_REQUEST = {"date", "x-request-id"}
# The reaper does not act on runs without a worker during a test.
_SLOW_REAPER = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "60"}
_MARKER = "test.marker"
# Subjects that requests cause; background tasks of the gateway use others.
_OF_REQUESTS = ("$JS.API.STREAM.MSG.", "$JS.API.DIRECT.", "$KV.", "pyoco.")


@dataclass(frozen=True)
class Tenant:
    """A tenant: its key, and a client that sends it."""

    name: str
    key: HeldKey
    http: httpx.AsyncClient
    store: "Store"

    async def put_run(self, **fields: Any) -> str:
        """Store the record of a run of this tenant; return its id."""
        run = snapshot_json(**{"tenant_id": self.name, **fields})
        await self.put_record(run["run_id"], json.dumps(run).encode())
        return str(run["run_id"])

    async def put_record(self, run_id: str, value: bytes) -> None:
        """Store any bytes as the record of a run."""
        await self.store.js.publish(f"$KV.pyoco_runs.{run_id}", value)

    async def put_letter(self, run_id: str | None = None, **fields: Any) -> int:
        """Store a dead letter of this tenant; return its sequence number."""
        defaults = {
            "timestamp": NOW,
            "reason": "execution_error",
            "run_id": run_id,
            "tag": "default",
        }
        letter = {**defaults, "tenant_id": self.name, **fields}
        data = json.dumps({name: value for name, value in letter.items() if value is not None})
        return int((await self.store.js.publish("pyoco.dlq.default", data.encode())).seq)

    async def submit(self, flow_name: str = "hello", key: str | None = None, **body: Any) -> str:
        """Submit a run; return its id."""
        headers = {} if key is None else {"X-Idempotency-Key": key}
        answer = await self.http.post(
            "/runs", json={"flow_name": flow_name, **body}, headers=headers
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    async def get(self, path: str, **query: Any) -> Any:
        """Return the body of a response, which must be 200."""
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run_ids(self, **query: Any) -> set[str]:
        """Return the ids in a list of runs."""
        found = await self.get("/runs", **query)
        items = found["items"] if isinstance(found, dict) else found
        return {item["run_id"] for item in items}


@dataclass(frozen=True)
class Pair:
    """Both tenants, and the writer of their keys."""

    acme: Tenant
    globex: Tenant
    key_admin: KeyAdmin
    store: "Store"


@asynccontextmanager
async def pair_at(
    start_gateway: "StartGateway", nats_url: str, store: "Store"
) -> AsyncGenerator[Pair]:
    """Yield two tenants at a gateway, each with an `admin` key."""
    async with (
        keyed_gateway_at(start_gateway, nats_url, store, **_SLOW_REAPER) as (http, key_admin),
        AsyncExitStack() as clients,
    ):
        tenants = []
        for name in ("acme", "globex"):
            key = await key_admin.issue(KeyScope.ADMIN, tenant=name)
            await knows(http, key)
            client = httpx.AsyncClient(
                base_url=http.base_url, headers=key.headers, timeout=20, trust_env=False
            )
            await clients.enter_async_context(client)
            tenants.append(Tenant(name, key, client, store))
        acme, globex = tenants
        yield Pair(acme, globex, key_admin, store)


@asynccontextmanager
async def asked_of_broker(store: "Store") -> AsyncGenerator[Callable[[], Awaitable[list[str]]]]:
    """Yield a function that returns the broker messages since its last call."""
    seen: list[str] = []

    all_seen = anyio.Event()

    async def note(message: Msg) -> None:
        if message.subject == _MARKER:
            all_seen.set()
        else:
            seen.append(f"{message.subject} {message.data.decode()}")

    async def taken() -> list[str]:
        # The broker delivers the marker after everything that it has received before.
        nonlocal all_seen
        all_seen = anyio.Event()
        await store.client.publish(_MARKER)
        await all_seen.wait()
        found = [each for each in seen if each.startswith(_OF_REQUESTS)]
        seen.clear()
        return found

    subscription = await store.client.subscribe(">", cb=note)
    yield taken
    await subscription.unsubscribe()


def shown(answer: httpx.Response, *ids: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return a response without the parts that differ between equal responses, such as `ids`."""
    headers = [
        (name, value)
        for name, value in answer.headers.multi_items()
        if name not in _OF_EACH_REQUEST
    ]
    body = answer.content
    for each in ids:
        body = body.replace(each.encode(), b"<id>")
    return answer.status_code, headers, body
