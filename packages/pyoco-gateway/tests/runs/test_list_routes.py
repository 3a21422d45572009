"""`GET /runs` and `GET /runs/counts` over a real bucket."""

import json
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.index import list_reader
from pyoco_gateway.runs.index.cursors import Cursors, FollowCursor, WalkCursor
from pyoco_gateway.runs.index.list_query import ListFilters, Order
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_testkit.builders import NOW, snapshot_json
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

STATUSES = {"PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"}


async def put(store: Any, **fields: Any) -> str:
    record = snapshot_json(**fields)
    await store.js.publish(f"$KV.pyoco_runs.{record['run_id']}", json.dumps(record).encode())
    return str(record["run_id"])


async def filled(store: Any, count: int) -> list[str]:
    """Store ended runs, each updated a second after the one before; return their ids."""
    return [
        await put(store, status="COMPLETED", updated_at=NOW + number, submitted_at=NOW + number)
        for number in range(count)
    ]


async def listed(gateway: httpx.AsyncClient, query: str = "") -> list[str]:
    answer = await gateway.get(f"/runs{query}")
    assert answer.status_code == httpx.codes.OK, answer.text
    body = answer.json()
    return [item["run_id"] for item in (body if isinstance(body, list) else body["items"])]


async def total(gateway: httpx.AsyncClient, query: str = "") -> int:
    """Return the number of counted runs; -1 while counts are unavailable."""
    answer = await gateway.get(f"/runs/counts{query}")
    return int(answer.json()["total"]) if answer.status_code == httpx.codes.OK else -1


async def test_an_empty_bucket_gives_empty_lists_and_counts(
    gateway: httpx.AsyncClient,
) -> None:
    assert (await gateway.get("/runs")).json() == []
    for query in ("updated_after=0", "order=created"):
        page = (await gateway.get(f"/runs?{query}")).json()
        assert (page["items"], page["next_cursor"], bool(page["resume_cursor"])) == ([], None, True)
    counts = (await gateway.get("/runs/counts")).json()
    assert counts == {"total": 0, "by_status": dict.fromkeys(STATUSES, 0)}


async def test_a_submitted_run_is_listed_and_counted_at_once(gateway: httpx.AsyncClient) -> None:
    for number in range(1, 21):
        run_id = (await gateway.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
        assert (await listed(gateway, "?limit=1"))[0] == run_id
        assert await total(gateway) == number


async def test_a_list_shows_the_latest_runs_first_up_to_the_limit(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = await filled(store, 60)
    await eventually(lambda: total(gateway), 60)

    assert await listed(gateway) == runs[:-51:-1]
    assert await listed(gateway, "?limit=3&order=updated") == runs[:-4:-1]
    assert len(await listed(gateway, "?limit=200")) == 60


async def test_filters_select_runs_and_counts_agree(gateway: httpx.AsyncClient, store: Any) -> None:
    failed = await put(store, status="FAILED", flow_name="daily_report", tag="gpu", error="why")
    done = await put(store, status="COMPLETED", flow_name="daily_sync", workflow_yaml_sha256="ab")
    other = await put(store, status="CANCELLED", flow_name="日次集計", submitted_at=NOW - 100)
    await eventually(lambda: total(gateway), 3)

    for query, expected in {
        "?status=FAILED": {failed},
        "?status=FAILED&status=CANCELLED": {failed, other},
        "?flow=daily_sync": {done},
        "?flow=daily*": {failed, done},
        "?flow=日次*&status=CANCELLED": {other},
        "?tag=gpu": {failed},
        "?tag=gpu&status=COMPLETED": set(),
        "?workflow_yaml_sha256=ab": {done},
        "?workflow_yaml_sha256=ab&tag=gpu": set(),
    }.items():
        assert set(await listed(gateway, query)) == expected, query
        assert await total(gateway, query) == len(expected), query
    assert await listed(gateway, f"?submitted_before={NOW}") == [other]
    assert set(await listed(gateway, f"?submitted_after={NOW}&order=created")) == {failed, done}
    (item,) = (await gateway.get("/runs?status=FAILED")).json()
    assert (item["flow_name"], item["tag"], item["error"]) == ("daily_report", "gpu", "why")
    assert {"params", "tasks", "task_records"}.isdisjoint(item)


async def test_full_snapshots_are_returned_on_request(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    records = {"a": {"state": "SUCCEEDED", "output": [1]}}
    run_id = await put(store, params={"n": 1}, task_records=records, request_hash="internal")
    await eventually(lambda: total(gateway), 1)

    for include in ("full", "all", "records"):
        (run,) = (await gateway.get(f"/runs?include={include}")).json()
        assert (run["run_id"], run["params"]) == (run_id, {"n": 1})
        assert run["task_records"]["a"]["output"] == [1]
        assert "request_hash" not in run
        page = (await gateway.get(f"/runs?include={include}&updated_after=0")).json()
        assert page["items"] == [run]


async def test_the_history_is_paged_from_newest_to_oldest(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = await filled(store, 23)
    await eventually(lambda: total(gateway), 23)
    shown: list[str] = []
    query = "?order=created&limit=5"
    while True:
        page = (await gateway.get(f"/runs{query}")).json()
        shown += [item["run_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        # A change does not move a run within this order.
        await put(store, run_id=runs[0], status="FAILED", updated_at=NOW + 1000 + len(shown))
        # The cursor implies the order.
        query = f"?limit=5&cursor={page['next_cursor']}"

    assert shown == runs[::-1]


async def test_a_cursor_works_at_every_gateway_and_after_a_restart(
    nats_server: NatsServer, store: Any, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as first:
        runs = await filled(store, 6)
        await eventually(lambda: total(first), 6)
        walks = [
            (await first.get(f"/runs?{query}&limit=4")).json()
            for query in ("order=created", "updated_after=0")
        ]
    async with start_gateway(nats_server.url) as second:
        for page in walks:
            assert await listed(second, f"?cursor={page['next_cursor']}") == runs[1::-1]
            assert await listed(second, f"?cursor={page['resume_cursor']}") == []


async def test_a_poll_returns_only_changes(gateway: httpx.AsyncClient, store: Any) -> None:
    first, second = await filled(store, 2)
    await eventually(lambda: total(gateway), 2)

    page = (await gateway.get(f"/runs?updated_after={NOW}")).json()
    assert [item["run_id"] for item in page["items"]] == [second]

    async def following() -> list[str]:
        nonlocal page
        page = (await gateway.get(f"/runs?cursor={page['resume_cursor']}")).json()
        return [item["run_id"] for item in page["items"]]

    assert await following() == []
    assert page["next_cursor"] is None
    # A heartbeat is not a change; a write with a slow clock is one.
    await put(
        store, run_id=second, status="COMPLETED", updated_at=NOW + 1, submitted_at=NOW + 1,
        heartbeat_at=NOW + 500,
    )  # fmt: skip
    await put(store, run_id=first, status="FAILED", updated_at=NOW - 500)
    assert await eventually(following, bool) == [first]
    assert await following() == []


async def test_an_invalid_parameter_is_refused_by_name(
    gateway: httpx.AsyncClient,
) -> None:
    for query, named in {
        "limit=0": "limit",
        "limit=201": "limit",
        "limit=x": "limit",
        "status=DONE": "status",
        "updated_after=soon": "updated_after",
        "submitted_after=nan": "submitted_after",
        "flow=": "flow",
        "tag=a&tag=b": "tag",
        "order=up": "order",
        "updated_after=0&order=created": "updated_after",
        "include=some": "include",
        "cursor=abc": "cursor",
    }.items():
        answer = await gateway.get(f"/runs?{query}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017"), query
        assert named in answer.json()["detail"], query
        assert [problem["where"] for problem in answer.json()["problems"]] == [named]


async def test_a_cursor_is_refused_for_another_list(gateway: httpx.AsyncClient, store: Any) -> None:
    await filled(store, 3)
    await eventually(lambda: total(gateway), 3)
    history = (await gateway.get("/runs?order=created&limit=1&tag=default")).json()["next_cursor"]
    page = (await gateway.get("/runs?updated_after=0&limit=1")).json()
    changes, resume = page["next_cursor"], page["resume_cursor"]

    for query, words in {
        f"cursor={history}": "other filters",
        f"cursor={history}&tag=gpu": "other filters",
        f"cursor={history}&tag=default&order=updated": "another order",
        f"cursor={history}&tag=default&updated_after=0": "without updated_after",
        f"cursor={changes}&order=created": "another order",
        f"cursor={resume}&order=created": "another order",
        f"cursor={changes[:-2]}AA": "altered",
        f"cursor={changes}A": "cursor",
    }.items():
        answer = await gateway.get(f"/runs?{query}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017"), query
        assert words in answer.json()["detail"], query
    for query in ("", "&order=updated", "&updated_after=7"):
        assert len(await listed(gateway, f"?cursor={changes}&limit=200{query}")) == 2
        assert await listed(gateway, f"?cursor={resume}&limit=200{query}") == []


async def test_unreadable_records_are_left_out_of_lists(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = await put(store)
    for value in (b"{", b"\xff\xfe", b'{"run_id": 7}', b"[]", b"null", b"[" * 50_000):
        await store.js.publish(f"$KV.pyoco_runs.{new_run_id()}", value)
    last = await put(store, updated_at=NOW + 9)
    await eventually(lambda: total(gateway), 2)

    for query in ("", "?include=full", "?updated_after=0", "?order=created"):
        assert set(await listed(gateway, query)) == {run_id, last}
    assert (await gateway.get("/health?verbose=1")).json()["index"]["unreadable"] == 6


async def test_a_deleted_run_disappears_from_every_list(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id, other = await filled(store, 2)
    await eventually(lambda: total(gateway), 2)
    await store.js.publish(f"$KV.pyoco_runs.{run_id}", b"", headers={"KV-Operation": "DEL"})

    await eventually(lambda: total(gateway), 1)
    for query in ("", "?include=full", "?updated_after=0", "?order=created"):
        assert await listed(gateway, query) == [other]


async def test_lists_send_no_requests_to_the_broker(
    gateway: httpx.AsyncClient, store: Any, nats_server: NatsServer
) -> None:
    """Four hundred complete responses cause no request to the broker."""
    runs = await filled(store, 100)
    await eventually(lambda: total(gateway), 100)

    async def requests() -> int:
        account = await store.client.request("$JS.API.INFO", timeout=5)
        return int(json.loads(account.data)["api"]["total"])

    before = await requests()
    for _ in range(100):
        assert await listed(gateway, "?limit=100") == runs[::-1]
        assert len(await listed(gateway, "?updated_after=0&limit=200")) == 100
        assert len(await listed(gateway, "?order=created&status=COMPLETED&limit=200")) == 100
        assert await total(gateway) == 100
    # The reaper and the checks of the gateway may send a few.
    assert await requests() - before < 20


async def test_lists_are_unavailable_while_the_broker_is_down(
    gateway: httpx.AsyncClient, store: Any, nats_server: NatsServer
) -> None:
    """The index would become outdated."""
    runs = await filled(store, 3)
    await eventually(lambda: total(gateway), 3)
    nats_server.kill()

    async def status() -> int:
        return (await gateway.get("/runs")).status_code

    await eventually(status, 503)
    for path in ("/runs", "/runs/counts", "/runs?updated_after=0"):
        answer = await gateway.get(path)
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")
    await nats_server.restart()
    await eventually(status, 200, timeout=15)
    assert await listed(gateway) == runs[::-1]


async def test_lists_answer_503_with_retry_after_while_the_index_is_built(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: BucketWatch) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(BucketWatch, "run", never)
    monkeypatch.setattr(list_reader, "_BUILD_WAIT_SEC", 0.05)
    async with start_gateway(nats_server.url, wait=False) as gateway:

        async def status() -> int:
            return int((await gateway.get(f"/runs/{new_run_id()}")).status_code)

        await eventually(status, 404)
        for path in ("/runs", "/runs/counts", "/runs?order=created"):
            answer = await gateway.get(path)
            assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0123")
            assert answer.headers["Retry-After"] == "2"
        # Requests that do not need the index are served.
        assert (await gateway.post("/runs", json={"flow_name": "hello"})).status_code == 200


async def test_a_cursor_ahead_of_the_bucket_is_refused(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """A bucket restored from a backup continues with lower revisions."""
    info = await store.client.request("$JS.API.STREAM.INFO.KV_pyoco_runs", timeout=5)
    cursors = Cursors("KV_pyoco_runs", json.loads(info.data)["created"])
    for cursor in (FollowCursor(1000), WalkCursor(Order.UPDATED, NOW, 0, resume=1000)):
        ahead = cursors.write(cursor, ListFilters().fingerprint)
        answer = await gateway.get(f"/runs?cursor={ahead}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
        assert "start again" in answer.json()["detail"]


async def test_a_recreated_bucket_is_listed_and_old_cursors_are_refused(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await filled(store, 5)
    await eventually(lambda: total(gateway), 5)
    cursors = []
    for query in ("updated_after=0", "order=created"):
        page = (await gateway.get(f"/runs?limit=2&{query}")).json()
        cursors += [page["next_cursor"], page["resume_cursor"]]
    config = (await store.js.stream_info("KV_pyoco_runs")).config
    await store.js.delete_stream("KV_pyoco_runs")
    await store.js.add_stream(config)
    run_id = await put(store)

    async def runs() -> list[str] | None:
        answer = await gateway.get("/runs")
        return [item["run_id"] for item in answer.json()] if answer.status_code == 200 else None

    await eventually(runs, [run_id], timeout=15)
    for cursor in cursors:
        answer = await gateway.get(f"/runs?cursor={cursor}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
        assert "start again" in answer.json()["detail"]


async def test_a_poller_gets_the_final_state_of_five_thousand_runs_from_eight_writers(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    final: dict[str, str] = {}

    async def write(runs: list[str]) -> None:
        # Enough concurrent writes to keep the broker busy.
        for status in ("PENDING", "RUNNING", "COMPLETED"):
            for first in range(0, len(runs), 125):
                async with anyio.create_task_group() as batch:
                    for run_id in runs[first : first + 125]:
                        batch.start_soon(_put_status, run_id, status)

    async def _put_status(run_id: str, status: str) -> None:
        await put(store, run_id=run_id, status=status, updated_at=NOW + len(final))
        final[run_id] = status

    view: dict[str, str] = {}
    page = (await gateway.get("/runs?updated_after=0&limit=200")).json()
    async with anyio.create_task_group() as writers:
        for _ in range(8):
            writers.start_soon(write, [new_run_id() for _ in range(625)])
        while len(view) < 5000 or view != final or page["items"]:
            view.update({item["run_id"]: item["status"] for item in page["items"]})
            query = f"?limit=200&cursor={page['resume_cursor']}"
            page = (await gateway.get(f"/runs{query}")).json()
    assert set(view.values()) == {"COMPLETED"}
    assert len(view) == 5000
