"""Another tenant's resource answers 404, byte for byte like an unknown id."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from idor_ways import EXECUTION_WAYS, GRAPH_WAYS, OWN_NAMES, PLAIN, REQUEST_ID, Ask, Route
from pyoco_gateway.app import create_app
from pyoco_gateway.settings import gateway_settings
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_testkit.builders import NOW
from pyoco_testkit.eventually import eventually
from served_routes import served_routes
from two_tenants import Pair, Tenant, asked_of_broker, shown

STATUSES: Final = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")
NO_SUCH_LETTER: Final = "9"
RUN_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


WAYS: Final[dict[Route, list[Ask]]] = {
    ("GET", "/runs/{run_id}"): [PLAIN, Ask({"include": "full"})],
    ("GET", "/runs/{run_id}/tasks"): [PLAIN],
    ("GET", "/runs/{run_id}/logs"): [
        PLAIN,
        Ask({"attempt": "all", "cursor": "1.0", "limit": 1}),
        Ask({"follow": "1", "timeout_sec": 1}),
        Ask({"follow": "1", "timeout_sec": 1}, headers={"Last-Event-ID": "1"}),
    ],
    ("GET", "/runs/{run_id}/watch"): [
        Ask({"timeout_sec": 1}),
        Ask({"timeout_sec": 1, "since": "1", "include": "all"}),
        Ask({"timeout_sec": 1}, headers={"Last-Event-ID": "1"}),
        # A client that has seen the end of a run gets 204.
        Ask({"timeout_sec": 1, "since": "99999999999"}),
    ],
    ("POST", "/runs/{run_id}/cancel"): [PLAIN, Ask(json={"reason": "not mine"})],
    ("DELETE", "/runs/{run_id}"): [PLAIN],
    ("GET", "/dlq/{seq}"): [PLAIN],
    ("DELETE", "/dlq/{seq}"): [PLAIN],
    ("POST", "/dlq/{seq}/redrive"): [PLAIN],
}
# All tenants see workers; other tests check that the runs of others are masked.
FLEET: Final = {("PATCH", "/workers/{worker_id}")}


def test_every_route_with_an_id_is_covered() -> None:
    """A new route with an id needs an entry here."""
    served = served_routes(create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0"})))

    covered = {*WAYS, *EXECUTION_WAYS, *GRAPH_WAYS, *OWN_NAMES, *FLEET}
    assert {route for route in served if "{" in route[1]} == covered


async def ask(tenant: Tenant, route: Route, id_: str, way: Ask) -> httpx.Response:
    method, path = route
    body = {} if way.json is None else {"json": way.json}
    return await tenant.http.request(
        method,
        path.format(run_id=id_, seq=id_),
        params=way.query,
        headers={**REQUEST_ID, **way.headers},
        **body,
    )


async def runs_of(tenant: Tenant) -> AsyncIterator[str]:
    """Yield a run in each state, with output and a workflow file."""
    for status in STATUSES:
        run_id = await tenant.put_run(
            status=status,
            params={"secret": "of acme"},
            attempt=1,
            # Otherwise the reaper would queue it again.
            worker_id="w1",
            queued_again_at=NOW,
        )
        entry = OutputEntry(ts=1.0, stream="stdout", text="of acme")
        chunk = OutputChunk(run_id=run_id, attempt=1, n=0, entries=(entry,))
        await tenant.store.js.publish(f"pyoco.logs.{run_id}", chunk.to_bytes())
        yield run_id


async def everything(pair: Pair) -> tuple[Any, Any, int]:
    letters = (await pair.store.js.stream_info("PYOCO_DLQ")).state.messages
    return await pair.store.runs(), await pair.store.jobs(), letters


@pytest.mark.parametrize("route", WAYS, ids=" ".join)
async def test_another_tenants_resource_answers_like_an_unknown_id(
    pair: Pair, route: Route
) -> None:
    asked: list[tuple[str, str]] = []
    if "{seq}" in route[1]:
        run_id = await pair.acme.put_run(status="FAILED")
        asked = [(str(await pair.acme.put_letter(run_id)), NO_SUCH_LETTER)]
    else:
        asked = [(run_id, new_run_id()) async for run_id in runs_of(pair.acme)]
        # A record without a readable tenant.
        broken = new_run_id()
        await pair.acme.put_record(broken, b'{"status": "?"}')
        asked.append((broken, new_run_id()))
    before = await everything(pair)

    async with asked_of_broker(pair.store) as asked_of:
        for way in WAYS[route]:
            for theirs, nothing in asked:
                await asked_of()
                answer = await ask(pair.globex, route, theirs, way)
                requests = [_without_id(each, theirs) for each in await asked_of()]
                unknown = await ask(pair.globex, route, nothing, way)
                assert unknown.status_code == 404
                assert _comparable(answer, theirs) == _comparable(unknown, nothing), (theirs, way)
                # Both take the same broker requests, so that response times do not differ either.
                assert requests == [_without_id(each, nothing) for each in await asked_of()]
                assert len(requests) == 1
    assert await everything(pair) == before

    # The owner gets another response: the ids above do exist.
    owned = await ask(pair.acme, route, asked[0][0], WAYS[route][0])
    assert owned.status_code in (200, 204, 409), owned.text


@pytest.mark.parametrize("route", [r for r in WAYS if "{run_id}" in r[1]], ids=" ".join)
async def test_the_record_of_another_tenants_run_is_not_read(pair: Pair, route: Route) -> None:
    """The larger the record, the longer a read takes: the response time would show the run."""
    theirs = await pair.acme.put_run(status="COMPLETED", params={"text": "x" * 100_000})
    # The gateway looks up the tenant in what its watch of the runs has delivered.
    await eventually(pair.acme.run_ids, {theirs})

    async with asked_of_broker(pair.store) as asked_of:
        for way in WAYS[route]:
            await asked_of()
            answer = await ask(pair.globex, route, theirs, way)
            (request,) = await asked_of()
            assert answer.status_code == 404
            assert theirs in answer.text
            assert theirs not in request, way


def _without_id(request: str, id_: str) -> str:
    return RUN_ID.sub("<id>", request).replace(id_, "<id>")


def _comparable(answer: httpx.Response, id_: str) -> Any:
    if len(id_) == 1:
        # A short number may occur in many places.
        return shown(answer, f"entry {id_} ")
    return shown(answer, id_)


async def test_an_own_dead_letter_does_not_reveal_another_tenants_run(pair: Pair) -> None:
    """A dead letter with another tenant's run id answers as if the run were deleted."""
    theirs = await pair.acme.put_run(status="FAILED", params={"secret": 1})
    gone = new_run_id()
    seqs = [await pair.globex.put_letter(run_id) for run_id in (theirs, gone)]
    before = (await pair.store.runs(), await pair.store.jobs())
    path = ("POST", "/dlq/{seq}/redrive")

    answers = [await ask(pair.globex, path, str(seq), PLAIN) for seq in seqs]

    responses = [
        shown(answer, run_id, f"entry {seq}:", f'"seq":{seq}')
        for answer, run_id, seq in zip(answers, (theirs, gone), seqs, strict=True)
    ]
    assert responses[0] == responses[1]
    assert answers[0].status_code == 409
    assert (await pair.store.runs(), await pair.store.jobs()) == before


async def test_a_derived_run_id_of_another_tenant_answers_404(pair: Pair) -> None:
    """Ids from idempotency keys can be computed from the tenant and the key."""
    guessed = await pair.acme.submit(key="order-1")

    answer = await pair.globex.http.get(f"/runs/{guessed}", headers=REQUEST_ID)
    nothing = new_run_id()
    unknown = await pair.globex.http.get(f"/runs/{nothing}", headers=REQUEST_ID)

    assert shown(answer, guessed) == shown(unknown, nothing)
