"""`/dlq`: listing, reading and removing dead letters."""

import json
from collections.abc import Mapping
from typing import Any

import httpx

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


def letter(**fields: Any) -> dict[str, Any]:
    return {"timestamp": NOW, "reason": "execution_error", "run_id": new_run_id(), **fields}


async def put(store: Any, body: Mapping[str, Any] | bytes, tag: str = "default") -> int:
    """Store a dead letter as a worker does; return its sequence."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return int((await store.js.publish(f"pyoco.dlq.{tag}", data)).seq)


async def all_items(gateway: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    """Return the items of all pages of a list."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await gateway.get("/dlq", params={**query, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}


async def test_without_letters_the_list_is_empty(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/dlq")
    assert (answer.status_code, answer.json()) == (200, {"items": [], "next_cursor": None})


async def test_a_letter_is_listed_as_soon_as_it_is_stored(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for number in range(20):
        seq = await put(store, letter(error=f"error {number}"))
        (newest,) = (await gateway.get("/dlq", params={"limit": 1})).json()["items"]
        assert (newest["seq"], newest["error"]) == (seq, f"error {number}")


async def test_a_letter_is_shown_with_all_of_its_fields(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    whole = letter(
        error="ValueError: no rows",
        err_id="ERR-PYOCO-0007",
        flow_name="日次集計",
        tag="cpu",
        tags=["nightly"],
        worker_id="w1",
        attempt=3,
        num_delivered=4,
        subject="pyoco.work.cpu",
        details={"signal": "SIGSEGV"},
    )
    seq = await put(store, whole, "cpu")
    (item,) = (await gateway.get("/dlq")).json()["items"]
    longer = ("tags", "num_delivered", "subject", "details")
    assert item == {"seq": seq, **{k: v for k, v in whole.items() if k not in longer}}
    assert (await gateway.get(f"/dlq/{seq}")).json() == {"seq": seq, **whole}


async def test_pages_hold_all_letters_newest_first(gateway: httpx.AsyncClient, store: Any) -> None:
    seqs = [await put(store, letter()) for _ in range(25)]
    assert [item["seq"] for item in await all_items(gateway, limit=7)] == seqs[::-1]
    # A new letter does not shift the following pages.
    first = (await gateway.get("/dlq", params={"limit": 7})).json()
    await put(store, letter())
    second = await gateway.get("/dlq", params={"limit": 7, "cursor": first["next_cursor"]})
    assert [item["seq"] for item in second.json()["items"]] == seqs[::-1][7:14]


async def test_letters_are_found_by_reason_tag_and_run(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    placed = []
    run_id = new_run_id()
    for number in range(24):
        reason = ("execution_error", "flow_not_found")[number % 2]
        tag = ("cpu", "gpu", "unknown")[number % 3]
        which = run_id if number in (5, 6) else new_run_id()
        seq = await put(store, letter(reason=reason, tag=tag, run_id=which), tag)
        placed.append((seq, reason, tag, which))
    for query in (
        {"reason": "flow_not_found"},
        {"tag": "gpu"},
        {"tag": "gpu", "reason": "execution_error"},
        {"run_id": run_id},
        {"run_id": run_id, "reason": "flow_not_found"},
        {"run_id": run_id, "tag": "gpu", "reason": "execution_error"},
        {"reason": "no such reason"},
    ):
        expected = [
            seq
            for seq, *values in reversed(placed)
            if query.items() <= dict(zip(("reason", "tag", "run_id"), values, strict=True)).items()
        ]
        assert [item["seq"] for item in await all_items(gateway, limit=3, **query)] == expected, (
            query
        )


async def test_an_invalid_parameter_is_refused_by_name(gateway: httpx.AsyncClient) -> None:
    for parameter, value in (
        ("limit", "0"),
        ("limit", "201"),
        ("limit", "many"),
        ("tag", "a.b"),
        ("tag", ">"),
        ("tag", ""),
        ("reason", "x" * 257),
        ("run_id", "x" * 257),
        ("cursor", "7"),
        ("cursor", ""),
        ("cursor", "7-00000000"),
        ("cursor", "f" * 40),
        ("runid", "7"),
    ):
        answer = await gateway.get("/dlq", params={parameter: value})
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
        assert [problem["where"] for problem in answer.json()["problems"]] == [parameter]


async def test_unknown_and_invalid_sequences_are_not_found(
    gateway: httpx.AsyncClient,
) -> None:
    unknown = ["1", "9" * 18, str(2**63 - 1)]
    invalid = ["0", "-1", "01", "+1", "1.0", "x", ">", str(2**63), "9" * 400, "１"]
    for seq in unknown + invalid:
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/redrive")):
            answer = await gateway.request(method, f"/dlq/{seq}{path}")
            assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0105"), seq


async def test_a_letter_is_removed_once(gateway: httpx.AsyncClient, store: Any) -> None:
    kept, removed_seq = await put(store, letter()), await put(store, letter())
    removed = await gateway.delete(f"/dlq/{removed_seq}")
    assert (removed.status_code, removed.content) == (204, b"")
    again = await gateway.delete(f"/dlq/{removed_seq}")
    assert (again.status_code, again.json()["err_id"]) == (404, "ERR-PYOCO-0105")
    assert (await gateway.get(f"/dlq/{removed_seq}")).status_code == 404
    assert [item["seq"] for item in await all_items(gateway)] == [kept]


async def test_letters_that_another_gateway_removed_are_not_listed(
    nats_server: NatsServer, gateway: httpx.AsyncClient, start_gateway: Any, store: Any
) -> None:
    seqs = [await put(store, letter()) for _ in range(12)]
    assert len(await all_items(gateway)) == 12
    async with start_gateway(nats_server.url) as other:
        for seq in seqs[3:11]:
            assert (await other.delete(f"/dlq/{seq}")).status_code == 204
    # The page is full, although more letters than fit on it were removed.
    page = (await gateway.get("/dlq", params={"limit": 3})).json()
    assert [item["seq"] for item in page["items"]] == [seqs[11], seqs[2], seqs[1]]
    assert [item["seq"] for item in await all_items(gateway, limit=2)] == [seqs[11], *seqs[2::-1]]


async def test_a_gateway_started_later_lists_all_letters(
    nats_server: NatsServer, gateway: httpx.AsyncClient, start_gateway: Any, store: Any
) -> None:
    seqs = [await put(store, letter()) for _ in range(5)]
    # The watch of the new gateway never delivers the removed last letter.
    await gateway.delete(f"/dlq/{seqs[-1]}")
    async with start_gateway(nats_server.url) as late:
        assert [item["seq"] for item in await all_items(late)] == seqs[-2::-1]


async def test_letters_that_the_stream_has_dropped_are_not_listed(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(10):
        await put(store, letter())
    assert len(await all_items(gateway)) == 10
    await store.js.purge_stream("PYOCO_DLQ", keep=2)
    assert [item["seq"] for item in await all_items(gateway)] == [10, 9]
    await store.js.purge_stream("PYOCO_DLQ")
    assert await all_items(gateway) == []
    seq = await put(store, letter())
    assert [item["seq"] for item in await all_items(gateway)] == [seq]


async def test_a_recreated_stream_is_read_from_its_start(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(5):
        await put(store, letter(reason="execution_error"))
    assert len(await all_items(gateway)) == 5
    config = (await store.js.stream_info("PYOCO_DLQ")).config
    await store.js.delete_stream("PYOCO_DLQ")
    await store.js.add_stream(config)
    await put(store, letter(reason="flow_not_found"))

    async def reasons() -> list[str]:
        return [item["reason"] for item in await all_items(gateway, reason="flow_not_found")]

    await eventually(reasons, ["flow_not_found"])
    assert await all_items(gateway, reason="execution_error") == []


async def test_an_invalid_message_can_be_listed_and_removed(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    seqs = [
        await put(store, data, "odd")
        for data in (b"", b"{", b"[]", b'{"reason": 7}', b"\xff\xfe", b'{"reason": "x"}')
    ]
    valid = await put(store, letter())
    listed = await all_items(gateway)
    assert [item["seq"] for item in listed] == [valid, *seqs[::-1]]
    assert {item["reason"] for item in listed[1:]} == {"unreadable"}
    assert [item["seq"] for item in await all_items(gateway, reason="unreadable")] == seqs[::-1]
    assert (await gateway.get(f"/dlq/{seqs[0]}")).json()["reason"] == "unreadable"
    refused = await gateway.post(f"/dlq/{seqs[0]}/redrive")
    assert (refused.status_code, refused.json()["err_id"]) == (409, "ERR-PYOCO-0120")
    for seq in seqs:
        assert (await gateway.delete(f"/dlq/{seq}")).status_code == 204
    assert [item["seq"] for item in await all_items(gateway)] == [valid]


async def test_without_the_broker_the_answer_is_503(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    await put(store, letter())
    await all_items(gateway)
    nats_server.kill()
    for method, path in (
        ("GET", "/dlq"),
        ("GET", "/dlq/1"),
        ("DELETE", "/dlq/1"),
        ("POST", "/dlq/1/redrive"),
    ):
        answer = await gateway.request(method, path)
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003"), path
    await nats_server.restart()

    async def status() -> int:
        return (await gateway.get("/dlq")).status_code

    await eventually(status, 200)
    assert [item["seq"] for item in await all_items(gateway)] == [1]
