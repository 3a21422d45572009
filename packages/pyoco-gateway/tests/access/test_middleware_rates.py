"""Rate limits, for valid keys, addresses and wrong keys."""

import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest

from key_admin import KEYED, Keyed, keyed_gateway_at, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_testkit.eventually import eventually
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
    """Whether an answer is 429; each such answer has Retry-After."""
    if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return False
    assert answer.json()["err_id"] == "ERR-PYOCO-0104"
    assert int(answer.headers["Retry-After"]) == answer.json()["retry_after_sec"] >= 1
    return True


async def test_a_key_above_its_rate_gets_429_and_other_keys_are_unaffected(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        *(start_gateway, nats_server.url, store),
        PYOCO_RATE_PER_KEY="0.2",
        PYOCO_RATE_PER_KEY_BURST="30",
    ) as (http, key_admin):
        busy, other = await key_admin.issue(), await key_admin.issue()
        await knows(http, other)
        answered = await statuses(http, 40, busy.headers)

        # The gateway may not know the key yet at the first requests.
        assert answered[429] >= 5
        assert answered[404] + answered[403] + answered[429] == 40
        # Requests are allowed again at a slow rate, so the first answer may not be a refusal.
        await eventually(lambda: http.get("/runs", headers=busy.headers), is_too_many)
        # The rate covers all requests of a key, also those that its scope does not cover.
        await eventually(lambda: http.get("/metrics", headers=busy.headers), is_too_many)
        assert (await http.get("/runs", headers=other.headers)).status_code == 200
        assert (await http.get("/health", headers=busy.headers)).status_code == 200


@pytest.mark.parametrize("mode", ["none", "api_key"])
async def test_an_address_above_its_rate_gets_429_with_and_without_authentication(
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
        await eventually(lambda: http.get("/health"), is_too_many)
        await eventually(lambda: http.get("/runs"), is_too_many)


async def test_without_limits_no_request_gets_429(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        *(start_gateway, nats_server.url, store),
        PYOCO_RATE_PER_KEY="0",
        PYOCO_RATE_PER_KEY_BURST="1",
        PYOCO_RATE_PER_PEER="0",
        PYOCO_RATE_PER_PEER_BURST="1",
        PYOCO_AUTH_FAILURES_PER_MIN="0",
    ) as (http, key_admin):
        held = await key_admin.issue()
        await knows(http, held)
        assert await statuses(http, 60, held.headers) == {404: 60}
        assert await statuses(http, 120, {"X-API-Key": WRONG}) == {403: 120}


async def test_limits_apply_on_each_of_two_gateways(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    limits = {"PYOCO_RATE_PER_KEY": "0.1", "PYOCO_RATE_PER_KEY_BURST": "25"}
    async with (
        keyed_gateway_at(start_gateway, nats_server.url, store, **limits) as (first, key_admin),
        start_gateway(nats_server.url, wait=False, **KEYED, **limits) as second,
    ):
        held = await key_admin.issue()
        for http in (first, second):
            await knows(http, held)
            answered = await statuses(http, 40, held.headers)
            assert 10 <= answered[404] <= 27
            assert answered[404] + answered[429] == 40


async def test_wrong_keys_get_429_and_a_valid_key_from_the_same_address_does_not(
    keyed: Keyed,
) -> None:
    """This includes wrong secrets for the id of the valid key (PITFALLS 14)."""
    http, key_admin = keyed
    held = await key_admin.issue()
    await knows(http, held)
    guessed = {"X-API-Key": held.key[:-43] + "A" * 43}

    known_id = await statuses(http, 60, guessed)
    unknown_id = await statuses(http, 60, {"X-API-Key": WRONG})

    # The same for an id that exists and for one that does not. One more attempt is allowed every
    # three seconds, and the gateway may not have known the key at the first request.
    for answered in (known_id, unknown_id):
        assert answered[403] + answered[429] == 60
        assert 10 <= answered[403] <= 30
    await eventually(lambda: http.get("/runs", headers=guessed), is_too_many)
    assert await statuses(http, 60, held.headers) == {404: 60}
    # Requests without a key are not limited.
    assert await statuses(http, 60) == {401: 60}


async def test_many_unknown_key_ids_from_one_address_get_429_too(
    keyed: Keyed,
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue()
    await knows(http, held)
    answered: Counter[int] = Counter()
    for number in range(160):
        key_id = "".join("abcdefghij"[int(digit)] for digit in f"{number:012}")
        answered += await statuses(http, 1, {"X-API-Key": f"pyoco_{key_id}_{'A' * 43}"})

    # Five more attempts are allowed every three seconds.
    assert answered[403] + answered[429] == 160
    assert 90 <= answered[403] <= 130
    assert (await http.get("/runs", headers=held.headers)).status_code == 200


async def test_refused_callers_do_not_fill_the_log(
    keyed: Keyed, caplog: pytest.LogCaptureFixture
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue(KeyScope.OPS)
    with caplog.at_level(logging.INFO):
        await statuses(http, 150, {"X-API-Key": WRONG})
        await statuses(http, 150)
    lines = [record.getMessage() for record in caplog.records]

    assert lines.count("caller exceeds its rate") == 1
    assert lines.count("request refused") < 120
    assert not re.search(re.escape(WRONG[-43:]), caplog.text)
    page = (await http.get("/metrics", headers=held.headers)).text
    counted = re.search(r'^pyoco_http_refused_total{reason="back_off"} (\S+)$', page, re.M)
    assert counted is not None
    assert float(counted[1]) > 100


async def test_concurrent_requests_are_counted_like_sequential_ones(
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
