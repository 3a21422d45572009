"""The scopes that each command requires, and the actor under which it is kept."""

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from execution_requests import refusal
from executions.commands.command_client import TASK, Commands, commits_of, reason, serves_executions
from key_admin import HeldKey, Keyed, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_testkit.graph_documents import JsonObject, line

if TYPE_CHECKING:
    from conftest import Store

WRITE, WORK, RESUME = (
    KeyScope.EXECUTIONS_WRITE,
    KeyScope.EXECUTIONS_WORK,
    KeyScope.EXECUTIONS_RESUME,
)
WAIT: JsonObject = {"id": "w", "type": "Wait", "wait": {}}
UNKNOWN = f"/executions/{uuid.uuid4()}"
NODE = f"{UNKNOWN}/nodes/t"

ROUTES = {
    "1 CreateExecution": ("/executions", {WRITE}),
    "2 StartExecution": (f"{UNKNOWN}/start", {WRITE}),
    "3 CancelExecution": (f"{UNKNOWN}/cancel", {WRITE}),
    "4 ArchiveExecution": (f"{UNKNOWN}/archive", {WRITE}),
    "6 StartNode": (f"{NODE}/start", {WRITE, WORK}),
    "7 ReportNodeProgress": (f"{NODE}/progress", {WRITE, WORK}),
    "8 PutNodeWaiting": (f"{NODE}/wait", {WRITE, WORK}),
    "9 RequestResumeNode": (f"{NODE}/resume-request", {WRITE, RESUME}),
    "10 ResumeNode": (f"{NODE}/resume", {WRITE, RESUME}),
    "11 SucceedNode": (f"{NODE}/success", {WRITE, WORK}),
    "12 FailNode": (f"{NODE}/fail", {WRITE, WORK, RESUME}),
}


class Holders:
    """Clients with keys of different scopes at one gateway."""

    def __init__(self, keyed: Keyed) -> None:
        self.http, self._admin = keyed

    async def key(self, *scopes: KeyScope, name: str | None = None) -> HeldKey:
        """Return a key that the gateway has read."""
        held = await self._admin.issue(*scopes)
        if name is not None:
            await self._admin.change(held, name=name)
        # The gateway has read all earlier records when it accepts this key.
        await knows(self.http, await self._admin.issue(KeyScope.RUNS_READ))
        return held

    async def with_scopes(self, *scopes: KeyScope, name: str | None = None) -> Commands:
        """Return a client with a new key."""
        return Commands(self.http, (await self.key(*scopes, name=name)).headers)


@pytest.fixture
async def holders(keyed: Keyed) -> Holders:
    """Give clients at a gateway that requires keys."""
    opened = Holders(keyed)
    await serves_executions(await opened.with_scopes(KeyScope.ADMIN))
    return opened


@pytest.mark.parametrize(("path", "allowed"), ROUTES.values(), ids=ROUTES.keys())
async def test_a_route_requires_its_scopes(
    holders: Holders, path: str, allowed: set[KeyScope]
) -> None:
    body: JsonObject = {"graphId": "none"} if path == "/executions" else {}
    for scope in KeyScope:
        client = await holders.with_scopes(scope)
        found = refusal(await client.post(path, body))
        if scope in allowed | {KeyScope.ADMIN}:
            assert found[0] == 404, (scope, found)
        else:
            assert found == (403, "FORBIDDEN"), scope
            error = (await client.post(path, body)).json()["error"]
            # The scope that allows everything comes last.
            named = re.findall(r"[a-z]+:[a-z]+", error["details"]["detail"])
            assert set(named) == allowed
            assert (named[0], named[-1]) == (error["details"]["scope"], "executions:write")


@pytest.mark.parametrize("path", [each[0] for each in ROUTES.values()], ids=ROUTES.keys())
async def test_a_route_requires_a_key(holders: Holders, path: str) -> None:
    for headers in ({}, {"X-API-Key": "wrong"}):
        answer = await Commands(holders.http, headers).post(path)
        assert refusal(answer) == (401, "UNAUTHENTICATED")
    revoked = await holders.key(KeyScope.ADMIN)
    await holders._admin.revoke(revoked)
    await holders.key(KeyScope.ADMIN)
    answer = await Commands(holders.http, revoked.headers).post(path)
    assert refusal(answer) == (401, "UNAUTHENTICATED")


async def test_the_key_is_checked_before_the_request(holders: Holders) -> None:
    """Neither the content type nor the size of a body matters then."""
    reader = await holders.key(KeyScope.EXECUTIONS_READ)
    large = b"x" * 300_000
    text = {"Content-Type": "text/plain"}
    path = f"{UNKNOWN}/cancel"
    answer = await holders.http.post(path, content=large, headers=text)
    assert refusal(answer) == (401, "UNAUTHENTICATED")
    answer = await holders.http.post(path, content=large, headers={**text, **reader.headers})
    assert refusal(answer) == (403, "FORBIDDEN")


FAILURES = {
    "write of a Task": (WRITE, "t", 202),
    "write of a Wait": (WRITE, "w", 202),
    "work of a Task": (WORK, "t", 202),
    "work of a Wait": (WORK, "w", 403),
    "resume of a Task": (RESUME, "t", 403),
    "resume of a Wait": (RESUME, "w", 202),
    "write of an unknown node": (WRITE, "x", 404),
    "work of an unknown node": (WORK, "x", 404),
    "resume of an unknown node": (RESUME, "x", 404),
    "resume of a control node": (RESUME, "done", 403),
    "work of a control node": (WORK, "done", 409),
}


@pytest.mark.parametrize(("scope", "node_id", "status"), FAILURES.values(), ids=FAILURES.keys())
async def test_12_fail_node_depends_on_the_node(
    holders: Holders, scope: KeyScope, node_id: str, status: int
) -> None:
    """An approver may reject a wait, and a worker may fail a task."""
    owner = await holders.with_scopes(KeyScope.ADMIN)
    order = [TASK, WAIT] if node_id == "t" else [WAIT, TASK]
    path = await owner.created(line(*order))
    if node_id == "t":
        await owner.done(path, ("nodes/t/start", {}))

    client = await holders.with_scopes(scope)
    answer = await client.post(f"{path}/nodes/{node_id}/fail", {})

    assert answer.status_code == status, answer.text
    if status == 403:
        assert refusal(answer) == (403, "FORBIDDEN")
        least = "executions:resume" if node_id == "w" else "executions:work"
        assert answer.json()["error"]["details"]["scope"] == least


async def test_12_the_scope_is_checked_before_the_status_of_the_node(holders: Holders) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.done(await owner.created(), ("cancel", {}))
    client = await holders.with_scopes(RESUME)
    assert refusal(await client.post(f"{path}/nodes/t/fail")) == (403, "FORBIDDEN")


ACTORS: dict[str, tuple[tuple[KeyScope, ...], str]] = {
    "write": ((WRITE,), "user"),
    "work": ((WORK,), "external"),
    "resume": ((RESUME,), "user"),
    "write and work": ((WRITE, WORK), "user"),
    "work and resume": ((WORK, RESUME), "external"),
    "admin": ((KeyScope.ADMIN,), "user"),
}


@pytest.mark.parametrize(("scopes", "kind"), ACTORS.values(), ids=ACTORS.keys())
async def test_the_actor_follows_from_the_key(
    holders: Holders, store: "Store", scopes: tuple[KeyScope, ...], kind: str
) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.done(await owner.created(), ("nodes/t/start", {}), ("nodes/t/wait", {}))
    rest = "nodes/t/resume-request" if scopes != (WORK,) else "nodes/t/fail"
    client = await holders.with_scopes(*scopes, name="etl")
    lies = {"X-Actor": "root", "X-Forwarded-User": "root", "X-User": "root"}

    answer = await client.post(f"{path}/{rest}", {}, "k", **lies)

    assert answer.status_code == 202, answer.text
    commit = (await commits_of(store, path))[-1]
    assert commit["command"]["actor"] == {"kind": kind, "id": "etl"}
    # The key itself is nowhere in the log.
    assert client.headers["X-API-Key"] not in str(commit)


async def test_the_actor_of_a_key_without_a_name_is_its_id(
    holders: Holders, store: "Store"
) -> None:
    held = await holders.key(KeyScope.ADMIN)
    path = await Commands(holders.http, held.headers).created()
    (commit,) = await commits_of(store, path)
    assert commit["command"]["actor"] == {"kind": "user", "id": held.record.key_id}
    assert commit["events"][0]["payload"]["apiKeyId"] == held.record.key_id


async def test_without_keys_the_actor_is_anonymous(commands: Commands, store: "Store") -> None:
    path = await commands.created()
    (commit,) = await commits_of(store, path)
    assert commit["command"]["actor"] == {"kind": "user", "id": "anonymous"}
    assert (commit["tenantId"], "apiKeyId" in commit["events"][0]["payload"]) == ("default", False)


APPROVED = line(
    {"id": "w", "type": "Wait", "wait": {"approvals": 2, "approvers": ["ann", "bob", "cho"]}}
)


async def test_approvals_are_counted_by_the_names_of_keys(holders: Holders) -> None:
    """Example 4 of the specification, over HTTP."""
    ann, bob, cho, dan = [
        await holders.with_scopes(RESUME, name=name) for name in ("ann", "bob", "cho", "dan")
    ]
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.created(APPROVED)
    route = f"{path}/nodes/w/resume-request"

    assert reason(await ann.post(f"{path}/nodes/w/resume")) == "APPROVALS_REQUIRED"
    assert (await ann.accepted(route))["status"] == "ACTIVE"
    again = await ann.post(route)
    assert (again.status_code, again.json()["effect"]) == (200, "NONE")
    assert reason(await dan.post(route)) == "NOT_AN_APPROVER"
    assert reason(await dan.post(f"{path}/nodes/w/fail")) == "NOT_AN_APPROVER"
    assert (await cho.accepted(route))["status"] == "COMPLETED"
    assert reason(await bob.post(route)) == "EXECUTION_TERMINAL"


async def test_an_approver_has_one_vote_with_any_number_of_keys(holders: Holders) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.created(APPROVED)
    route = f"{path}/nodes/w/resume-request"
    first, rotated = [await holders.with_scopes(RESUME, name="ann") for _ in range(2)]
    await first.accepted(route)
    assert (await rotated.post(route)).json()["effect"] == "NONE"


async def test_an_approver_may_reject(holders: Holders) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.created(APPROVED)
    bob = await holders.with_scopes(RESUME, name="bob")
    answer = await bob.accepted(f"{path}/nodes/w/fail", {"error": {"code": "NO"}})
    assert answer["status"] == "FAILED"


async def test_a_graph_with_approvals_can_be_used_with_keys(holders: Holders) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    assert (await owner.created(APPROVED)).startswith("/executions/")


async def test_a_replay_needs_the_scope_of_its_route(holders: Holders) -> None:
    owner = await holders.with_scopes(KeyScope.ADMIN)
    path = await owner.created()
    await owner.accepted(f"{path}/cancel", {}, "k")
    worker = await holders.with_scopes(WORK)
    assert refusal(await worker.post(f"{path}/cancel", {}, "k")) == (403, "FORBIDDEN")
    writer = await holders.with_scopes(WRITE)
    replay = await writer.post(f"{path}/cancel", {}, "k")
    assert replay.headers["Idempotency-Replayed"] == "true"
