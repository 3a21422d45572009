"""Lists, counts, cursors and watches show a tenant's own runs only."""

import json
from typing import Any

import pytest

from pyoco_gateway.runs.watch import hub as run_hub
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW
from pyoco_testkit.eventually import eventually
from sse_client import Stream, watching
from two_tenants import Pair, Tenant, shown

REQUEST_ID = {"X-Request-ID": "the-same-for-all"}
SHA256 = "a" * 64
KINDS = [{"order": "created"}, {"updated_after": "0"}]


async def some_runs(pair: Pair) -> dict[str, set[str]]:
    """Store runs of both tenants that differ only in their tenant."""
    found: dict[str, set[str]] = {"acme": set(), "globex": set()}
    for number, status in enumerate(("COMPLETED", "FAILED", "CANCELLED") * 2):
        for tenant in (pair.acme, pair.globex, pair.acme):
            run_id = await tenant.put_run(
                status=status,
                tag="gpu",
                workflow_yaml_sha256=SHA256 if number % 2 else None,
                updated_at=NOW + number,
            )
            found[tenant.name].add(run_id)
    return found


QUERIES: list[dict[str, Any]] = [
    {},
    {"limit": 200},
    {"flow": "hello"},
    {"flow": "h*"},
    {"tag": "gpu"},
    {"status": ["COMPLETED", "FAILED", "CANCELLED"]},
    {"include": "full"},
    {"order": "created"},
    {"updated_after": "0"},
    {"submitted_after": "0", "submitted_before": str(NOW + 9)},
    {"updated_after": "0", "include": "full", "tag": "gpu"},
]


async def test_a_list_shows_all_own_runs_and_no_others(pair: Pair) -> None:
    runs = await some_runs(pair)

    for query in QUERIES:
        for tenant in (pair.acme, pair.globex):
            assert await tenant.run_ids(**{"limit": 200, **query}) == runs[tenant.name], query
    counted = [await each.get("/runs/counts") for each in (pair.acme, pair.globex)]
    assert [each["total"] for each in counted] == [12, 6]
    assert [each["by_status"]["FAILED"] for each in counted] == [4, 2]
    by_file = [
        await each.get("/runs/counts", workflow_yaml_sha256=SHA256)
        for each in (pair.acme, pair.globex)
    ]
    assert [each["total"] for each in by_file] == [6, 3]


async def test_a_filter_by_workflow_file_does_not_find_other_tenants_runs(pair: Pair) -> None:
    """A tenant must not learn whether others run a file that it knows."""
    await pair.acme.put_run(workflow_yaml_sha256=SHA256, status="COMPLETED")
    for path in ("/runs", "/runs/counts"):
        theirs, nobodys = [
            await pair.globex.http.get(path, params={"workflow_yaml_sha256": sha256})
            for sha256 in (SHA256, "b" * 64)
        ]
        assert theirs.status_code == 200
        assert shown(theirs) == shown(nobodys)


async def walked(tenant: Tenant, **query: Any) -> list[str]:
    """Return the run ids on all pages of a list."""
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await tenant.get("/runs", **query, **cursor)
        seen += [item["run_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return seen
        cursor = {"cursor": page["next_cursor"]}


async def test_pages_contain_own_runs_only(pair: Pair) -> None:
    runs = await some_runs(pair)

    for tenant in (pair.acme, pair.globex):
        for kind in KINDS:
            seen = await walked(tenant, limit=2, **kind)
            assert len(seen) == len(set(seen))
            assert set(seen) == runs[tenant.name]


async def test_a_follower_gets_changes_of_own_runs_only(pair: Pair) -> None:
    for tenant, other in ((pair.acme, pair.globex), (pair.globex, pair.acme)):
        start = await tenant.get("/runs", updated_after=0)
        theirs, own = await other.put_run(), await tenant.put_run()
        assert theirs != own

        async def followed(
            tenant: Tenant = tenant, cursor: str = start["resume_cursor"]
        ) -> list[str]:
            page = await tenant.get("/runs", cursor=cursor)
            return [item["run_id"] for item in page["items"]]

        assert await eventually(followed, bool) == [own]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["next_cursor", "resume_cursor"])
async def test_another_tenants_cursor_is_refused_like_a_forged_one(
    pair: Pair, kind: dict[str, str], which: str
) -> None:
    await some_runs(pair)
    page = await pair.acme.get("/runs", limit=1, **kind)
    given = page[which]
    # The same cursor with a wrong signature.
    made_up = given[:-1] + ("A" if given[-1] != "A" else "B")

    answers = [
        await pair.globex.http.get(
            "/runs", params={"limit": 1, "cursor": cursor, **kind}, headers=REQUEST_ID
        )
        for cursor in (given, made_up)
    ]

    assert answers[0].status_code == 422
    assert shown(answers[0]) == shown(answers[1])
    assert pair.acme.name not in answers[0].text
    # The cursor does not contain the tenant.
    assert "acme" not in given


async def test_another_tenants_dead_letter_cursor_shows_own_letters_only(pair: Pair) -> None:
    """The cursor is a position in the stream, which holds the letters of all tenants."""
    for _ in range(3):
        await pair.acme.put_letter(new_run_id())
    mine = await pair.globex.put_letter(new_run_id())
    for _ in range(3):
        await pair.acme.put_letter(new_run_id())
    cursor = (await pair.acme.get("/dlq", limit=2))["next_cursor"]

    page = await pair.globex.get("/dlq", cursor=cursor)

    assert ([item["seq"] for item in page["items"]], page["next_cursor"]) == ([mine], None)


async def stored(tenant: Tenant, run_id: str, status: str, moment: float) -> None:
    await tenant.put_run(run_id=run_id, status=status, updated_at=NOW + moment)


async def deleted(pair: Pair, run_id: str) -> None:
    """Delete a record as its expiry would: only the id is left."""
    headers = {"KV-Operation": "DEL"}
    await pair.store.js.publish(f"$KV.pyoco_runs.{run_id}", b"", headers=headers)


async def events_until(stream: Stream, last: str, name: str = "snapshot") -> list[tuple[str, str]]:
    """Return the events up to one of the run `last`."""
    seen: list[tuple[str, str]] = []
    while True:
        event = await stream.next("snapshot", "gone", "reset")
        seen.append((event.data["run_id"], event.name))
        if seen[-1] == (last, name):
            return seen


async def test_a_watch_on_all_runs_sends_own_runs_only(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hub, "OVERLAP_SEC", 0.0)
    theirs = [new_run_id() for _ in range(5)]
    mine = new_run_id()
    async with watching(pair.globex.http, "/runs/watch") as stream:
        ready = await stream.next("ready")
        for run_id in theirs:
            for moment, status in enumerate(("PENDING", "RUNNING", "COMPLETED")):
                await stored(pair.acme, run_id, status, moment)
        for run_id in theirs[:3]:
            await deleted(pair, run_id)
        unheard_of = new_run_id()
        await deleted(pair, unheard_of)
        await stored(pair.globex, mine, "COMPLETED", 0)
        assert await events_until(stream, mine) == [(mine, "snapshot")]
        await deleted(pair, theirs[3])
        await deleted(pair, mine)
        # The deletion of an own run is sent, although its record is gone.
        assert await events_until(stream, mine, "gone") == [(mine, "gone")]

    # After a reconnect the missed events of own runs are sent.
    async with watching(pair.globex.http, "/runs/watch", last=ready.revision) as stream:
        assert await events_until(stream, mine, "gone") == [(mine, "gone")]
    async with watching(pair.acme.http, "/runs/watch", last=ready.revision) as stream:
        seen = await events_until(stream, theirs[3], "gone")
        assert {run_id for run_id, _ in seen} == set(theirs)


async def test_watch_events_do_not_contain_tenants(pair: Pair) -> None:
    async with watching(pair.acme.http, "/runs/watch") as stream:
        await stream.next("ready")
        await pair.acme.put_run()
        event = await stream.next("snapshot")
    assert "acme" not in json.dumps(event.data)
