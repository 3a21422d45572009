"""Commands over HTTP, as a client sends them, and the commits that they leave."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx

from execution_requests import refusal
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import JsonObject, line

if TYPE_CHECKING:
    from conftest import Store

STREAM: Final = "PYOCO_EXECUTIONS"
IDEMPOTENCY: Final = "X-Idempotency-Key"
TASK: Final[JsonObject] = {"id": "t", "type": "Task"}
LINE: Final = line(TASK)


@dataclass(frozen=True)
class Commands:
    """Sends commands through one gateway, each with a new idempotency key unless it has one."""

    http: httpx.AsyncClient
    headers: Mapping[str, str] = field(default_factory=dict)

    async def post(
        self, path: str, body: JsonObject | None = None, key: str | None = None, **headers: str
    ) -> httpx.Response:
        """Send a command."""
        sent = {IDEMPOTENCY: key or uuid.uuid4().hex, **self.headers, **headers}
        return await self.http.post(path, json=body or {}, headers=sent)

    async def accepted(
        self, path: str, body: JsonObject | None = None, key: str | None = None
    ) -> JsonObject:
        """Send a command that must be accepted; return the answer."""
        answer = await self.post(path, body, key)
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        found: JsonObject = answer.json()
        return found

    async def put_graph(self, document: JsonObject = LINE, graph_id: str = "g") -> None:
        """Store a graph."""
        answer = await self.http.put(f"/graphs/{graph_id}", json=document, headers=self.headers)
        assert answer.is_success, answer.text

    async def created(self, document: JsonObject = LINE, **body: Any) -> str:
        """Store a graph and create an execution of it, started by default; return its path."""
        await self.put_graph(document)
        answer = await self.accepted("/executions", {"graphId": "g", "start": True, **body})
        return f"/executions/{answer['executionId']}"

    async def done(self, path: str, *steps: tuple[str, JsonObject]) -> str:
        """Send commands that must be accepted, given by the rest of their paths."""
        for rest, body in steps:
            await self.accepted(f"{path}/{rest}", body)
        return path


async def serves_executions(client: Commands) -> Commands:
    """Return the client once its gateway has found the streams of executions."""

    async def status() -> int:
        return (await client.http.get("/graphs", headers=client.headers)).status_code

    await eventually(status, httpx.codes.OK)
    return client


def reason(answer: httpx.Response) -> str:
    """Return why a command was rejected."""
    assert refusal(answer) == (409, "COMMAND_REJECTED"), answer.text
    return str(answer.json()["error"]["details"]["reason"])


def outcome(answer: httpx.Response) -> str:
    """Return the effect of an accepted command, or the reason of a rejection."""
    return str(answer.json()["effect"]) if answer.is_success else reason(answer)


async def commits_of(store: "Store", path: str) -> list[JsonObject]:
    """Return the commits of an execution as they are stored."""
    subject = f"pyoco.exec.{path.rpartition('/')[2]}"
    messages = await store._messages(STREAM)
    return [json.loads(each.data or b"") for each in messages if each.subject == subject]
