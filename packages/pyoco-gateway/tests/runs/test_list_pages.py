"""Pages of `GET /runs`: the walk to the end of a list, and the follower that continues after it."""

import json
from typing import Any

import anyio
import httpx
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot_json
from pyoco_testkit.eventually import eventually

WALKS = ["updated_after=0", "order=created"]


async def put(store: Any, **fields: Any) -> str:
    record = snapshot_json(**fields)
    await store.js.publish(f"$KV.pyoco_runs.{record['run_id']}", json.dumps(record).encode())
    return str(record["run_id"])


async def filled(gateway: httpx.AsyncClient, store: Any, count: int) -> list[str]:
    """Store ended runs, each updated a second after the one before; return their ids."""
    runs = [
        await put(store, status="COMPLETED", updated_at=NOW + number, submitted_at=NOW + number)
        for number in range(count)
    ]
    await eventually(lambda: total(gateway), count)
    return runs


async def total(gateway: httpx.AsyncClient) -> int:
    answer = await gateway.get("/runs/counts")
    return int(answer.json()["total"]) if answer.status_code == httpx.codes.OK else -1


async def page_of(gateway: httpx.AsyncClient, query: str) -> dict[str, Any]:
    answer = await gateway.get(f"/runs?{query}")
    assert answer.status_code == httpx.codes.OK, answer.text
    page: dict[str, Any] = answer.json()
    assert set(page) == {"items", "next_cursor", "resume_cursor"}
    return page


def ids_on(page: dict[str, Any]) -> list[str]:
    return [item["run_id"] for item in page["items"]]


async def walked(gateway: httpx.AsyncClient, query: str) -> list[dict[str, Any]]:
    """Return the pages of a client that reads until `next_cursor` is null."""
    pages = [await page_of(gateway, query)]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        assert len(pages) < 500, "the walk has no end"
        pages.append(await page_of(gateway, f"{query}&cursor={cursor}"))
    return pages


@pytest.mark.parametrize("walk", WALKS)
async def test_a_list_without_runs_has_no_next_page_and_can_be_followed(
    gateway: httpx.AsyncClient, store: Any, walk: str
) -> None:
    first = await page_of(gateway, walk)
    assert (first["items"], first["next_cursor"]) == ([], None)
    run_id = await put(store)

    async def following() -> list[str]:
        return ids_on(await page_of(gateway, f"cursor={first['resume_cursor']}"))

    assert await eventually(following, bool) == [run_id]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("limit", [1, 3, 6, 7, 200])
async def test_a_loop_until_there_is_no_next_cursor_ends_with_every_run_newest_first(
    gateway: httpx.AsyncClient, store: Any, walk: str, limit: int
) -> None:
    runs = await filled(gateway, store, 6)
    pages = await walked(gateway, f"{walk}&limit={limit}")

    assert [run for page in pages for run in ids_on(page)] == runs[::-1]
    assert len(pages) == -(-6 // limit)
    assert {page["resume_cursor"] for page in pages} == {pages[0]["resume_cursor"]}


async def test_updated_after_leaves_out_older_runs_also_on_later_pages(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = await filled(gateway, store, 6)
    pages = await walked(gateway, f"updated_after={NOW + 2}&limit=1")
    assert [run for page in pages for run in ids_on(page)] == runs[:2:-1]


async def test_runs_updated_at_the_same_time_are_all_on_some_page(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = {await put(store, status="COMPLETED", updated_at=NOW) for _ in range(7)}
    await eventually(lambda: total(gateway), 7)
    pages = await walked(gateway, "updated_after=0&limit=2")
    shown = [run for page in pages for run in ids_on(page)]
    assert (len(shown), set(shown)) == (7, runs)


@pytest.mark.parametrize("walk", WALKS)
async def test_a_change_during_a_walk_is_seen_by_the_follower_of_its_first_page(
    gateway: httpx.AsyncClient, store: Any, walk: str
) -> None:
    runs = await filled(gateway, store, 5)
    first = await page_of(gateway, f"{walk}&limit=2")
    # Not shown yet, shown already, and new.
    changed = [
        await put(store, run_id=runs[0], status="FAILED", updated_at=NOW + 100),
        await put(store, run_id=runs[4], status="FAILED", updated_at=NOW - 100),
        await put(store, updated_at=NOW + 50),
    ]
    await eventually(lambda: total(gateway), 6)
    view = {item["run_id"]: item["status"] for item in first["items"]}
    cursor = first["next_cursor"]
    while cursor is not None:
        page = await page_of(gateway, f"{walk}&limit=2&cursor={cursor}")
        assert page["resume_cursor"] == first["resume_cursor"]
        view.update({item["run_id"]: item["status"] for item in page["items"]})
        cursor = page["next_cursor"]

    followed = await page_of(gateway, f"cursor={first['resume_cursor']}")
    assert ids_on(followed) == changed
    view.update({item["run_id"]: item["status"] for item in followed["items"]})
    assert view == {
        **dict.fromkeys(runs, "COMPLETED"),
        **dict.fromkeys(changed, "FAILED"),
        changed[2]: "PENDING",
    }


async def test_a_follower_reads_changes_in_order_and_each_page_has_a_new_position(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    start = await page_of(gateway, "updated_after=0")
    runs = await filled(gateway, store, 5)

    first = await page_of(gateway, f"limit=2&cursor={start['resume_cursor']}")
    assert ids_on(first) == runs[:2]
    # There is more now, and both cursors lead to it.
    assert first["next_cursor"] is not None
    second = await page_of(gateway, f"limit=2&cursor={first['resume_cursor']}")
    assert ids_on(second) == runs[2:4]
    assert second == await page_of(gateway, f"limit=2&cursor={first['next_cursor']}")
    last = await page_of(gateway, f"limit=2&cursor={second['resume_cursor']}")
    assert (ids_on(last), last["next_cursor"]) == ([runs[4]], None)
    positions = [page["resume_cursor"] for page in (start, first, second, last)]
    assert len(set(positions)) == 4
    nothing = await page_of(gateway, f"cursor={last['resume_cursor']}")
    assert (nothing["items"], nothing["next_cursor"]) == ([], None)
    assert nothing["resume_cursor"] is not None


async def test_a_full_page_that_is_the_last_one_has_no_next_cursor(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    start = await page_of(gateway, "updated_after=0")
    await filled(gateway, store, 4)
    for query in ("updated_after=0", "order=created", f"cursor={start['resume_cursor']}"):
        page = await page_of(gateway, f"{query}&limit=4")
        assert (len(page["items"]), page["next_cursor"]) == (4, None), query


async def test_the_cursors_of_a_page_belong_to_its_filters(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await filled(gateway, store, 3)
    page = await page_of(gateway, "updated_after=0&limit=1&tag=default")
    for cursor in (page["next_cursor"], page["resume_cursor"]):
        assert (await gateway.get(f"/runs?cursor={cursor}&tag=default")).status_code == 200
        refused = await gateway.get(f"/runs?cursor={cursor}")
        assert (refused.status_code, refused.json()["err_id"]) == (422, "ERR-PYOCO-0017")
        assert "other filters" in refused.json()["detail"]


async def test_a_walk_and_its_follower_miss_nothing_while_eight_writers_write(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    written = 0

    async def write(runs: list[str]) -> None:
        nonlocal written
        for status in ("RUNNING", "COMPLETED"):
            for run_id in runs:
                written += 1
                await put(store, run_id=run_id, status=status, updated_at=NOW + written % 97)

    runs = [new_run_id() for _ in range(400)]
    for run_id in runs[:200]:
        await put(store, run_id=run_id, status="PENDING", updated_at=NOW)
    await eventually(lambda: total(gateway), 200)
    view: dict[str, str] = {}
    with anyio.fail_after(45):
        async with anyio.create_task_group() as writers:
            for first in range(8):
                writers.start_soon(write, runs[first::8])
            pages = await walked(gateway, "updated_after=0&limit=17")
            for page in pages:
                view.update({item["run_id"]: item["status"] for item in page["items"]})
            position = pages[0]["resume_cursor"]
            while [*view.values()].count("COMPLETED") < 400:
                page = await page_of(gateway, f"limit=17&cursor={position}")
                view.update({item["run_id"]: item["status"] for item in page["items"]})
                position = page["resume_cursor"]
    assert set(view) == set(runs)
