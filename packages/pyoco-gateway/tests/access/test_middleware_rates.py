"""Who comes too often, with a right key or with wrong ones."""

import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest

from key_admin import KEYED, Keyed, keyed_gateway_at, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway, Store

WRONG = "pyoco_zzzzzzzzzzzz_" + "A" * 43


async def statuses(
    http: httpx.AsyncClient,
    times: int,
    headers: dict[str, str] | None = None,
    path: str = "/nothing",
) -> Counter[int]:
    return Counter([(await http.get(path, headers=headers)).status_code for _ in range(times)])


def is_too_many(answer: httpx.Response) -> bool:
    """Whether an answer is 429, and says when to come back as every such answer does."""
    if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return False
    assert answer.json()["err_id"] == "ERR-PYOCO-0104"
    assert int(answer.headers["Retry-After"]) == answer.json()["retry_after_sec"] >= 1
    return True


async def test_a_key_above_its_rate_is_told_when_to_come_back_and_others_go_on(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        *(start_gateway, nats_server.url, store),
        PYOCO_RATE_PER_KEY="0.2",
        PYOCO_RATE_PER_KEY_BURST="30",
    ) as (http, desk):
        busy, other = await desk.issue(), await desk.issue()
        await knows(http, other)
        answered = await statuses(http, 40, busy.headers)

        # The watch may not have told of the key when the first requests came.
        assert answered[429] >= 5
        assert answered[404] + answered[403] + answered[429] == 40
        assert is_too_many(await http.get("/runs", headers=busy.headers))
        # It counts for all that a key does, also for what it may not do.
        assert is_too_many(await http.get("/metrics", headers=busy.headers))
        assert (await http.get("/runs", headers=other.headers)).status_code == 200
        assert (await http.get("/health", headers=busy.headers)).status_code == 200


@pytest.mark.parametrize("mode", ["none", "api_key"])
async def test_an_address_above_its_rate_is_held_off_whoever_it_is(
    mode: str, start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    environ = KEYED if mode == "api_key" else {}
    async with start_gateway(
        nats_server.url,
        wait=False,
        PYOCO_RATE_PER_PEER="0.2",
        PYOCO_RATE_PER_PEER_BURST="20",
        **environ,
    ) as http:
        answered = await statuses(http, 30, path="/health")

        assert 20 <= answered[200] <= 25
        assert is_too_many(await http.get("/health"))
        assert is_too_many(await http.get("/runs"))


async def test_without_limits_nobody_is_held_off(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        *(start_gateway, nats_server.url, store),
        PYOCO_RATE_PER_KEY="0",
        PYOCO_RATE_PER_KEY_BURST="1",
        PYOCO_RATE_PER_PEER="0",
        PYOCO_RATE_PER_PEER_BURST="1",
        PYOCO_AUTH_FAILURES_PER_MIN="0",
    ) as (http, desk):
        held = await desk.issue()
        await knows(http, held)
        assert await statuses(http, 60, held.headers) == {404: 60}
        assert await statuses(http, 120, {"X-API-Key": WRONG}) == {403: 120}


async def test_limits_hold_on_each_gateway_of_two(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    limits = {"PYOCO_RATE_PER_KEY": "0.1", "PYOCO_RATE_PER_KEY_BURST": "25"}
    async with (
        keyed_gateway_at(start_gateway, nats_server.url, store, **limits) as (first, desk),
        start_gateway(nats_server.url, wait=False, **KEYED, **limits) as second,
    ):
        held = await desk.issue()
        for http in (first, second):
            await knows(http, held)
            answered = await statuses(http, 40, held.headers)
            assert 10 <= answered[404] <= 27
            assert answered[404] + answered[429] == 40


async def test_wrong_keys_are_held_off_and_a_right_one_from_the_same_address_is_not(
    keyed: Keyed,
) -> None:
    """Not even where its id is the one that somebody tries out: PITFALLS 14 has no way round."""
    http, desk = keyed
    held = await desk.issue()
    await knows(http, held)
    guessed = {"X-API-Key": held.key[:-43] + "A" * 43}

    known_id = await statuses(http, 60, guessed)
    unknown_id = await statuses(http, 60, {"X-API-Key": WRONG})

    # No more for an id that exists than for one that does not. One more every three seconds,
    # and the gateway may not have known the key when it was first shown.
    for answered in (known_id, unknown_id):
        assert answered[403] + answered[429] == 60
        assert 10 <= answered[403] <= 30
    assert is_too_many(await http.get("/runs", headers=guessed))
    assert await statuses(http, 60, held.headers) == {404: 60}
    # Nor are those who show none.
    assert await statuses(http, 60) == {401: 60}


async def test_ever_new_key_ids_from_one_address_are_held_off_too(
    keyed: Keyed,
) -> None:
    http, desk = keyed
    held = await desk.issue()
    await knows(http, held)
    answered: Counter[int] = Counter()
    for number in range(160):
        key_id = "".join("abcdefghij"[int(digit)] for digit in f"{number:012}")
        answered += await statuses(http, 1, {"X-API-Key": f"pyoco_{key_id}_{'A' * 43}"})

    # Five every three seconds are let through meanwhile.
    assert answered[403] + answered[429] == 160
    assert 90 <= answered[403] <= 130
    assert (await http.get("/runs", headers=held.headers)).status_code == 200


async def test_who_comes_too_often_does_not_fill_the_log(
    keyed: Keyed, caplog: pytest.LogCaptureFixture
) -> None:
    http, desk = keyed
    held = await desk.issue(KeyScope.OPS)
    with caplog.at_level(logging.INFO):
        await statuses(http, 150, {"X-API-Key": WRONG})
        await statuses(http, 150)
    lines = [record.getMessage() for record in caplog.records]

    assert lines.count("caller is held off") == 1
    assert lines.count("request refused") < 120
    assert not re.search(re.escape(WRONG[-43:]), caplog.text)
    page = (await http.get("/metrics", headers=held.headers)).text
    counted = re.search(r'^pyoco_http_refused_total{reason="back_off"} (\S+)$', page, re.M)
    assert counted is not None
    assert float(counted[1]) > 100


async def test_many_at_once_are_counted_as_well_as_one_after_the_other(
    keyed: Keyed,
) -> None:
    http, _ = keyed
    answered: Counter[int] = Counter()

    async def ask() -> None:
        answered.update(await statuses(http, 10, {"X-API-Key": WRONG}))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert answered[403] + answered[429] == 100
    assert 20 <= answered[403] <= 30
