"""Which requests the access middleware accepts, and how it answers the others."""

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import earlier_keys
from key_admin import (
    KEYED,
    HeldKey,
    KeyAdmin,
    Keyed,
    has_key_bucket,
    keyed_gateway_at,
    knows,
    status_becomes,
)
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.route_table import Access, scopes_in
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from served_routes import err_id_in, example_of, requirements

if TYPE_CHECKING:
    from conftest import BrokerLink, StartGateway, Store

REQUIRED = requirements()
GUARDED = sorted(route for route, required in REQUIRED.items() if required is not Access.PUBLIC)
ODD_PATHS = [
    *("/runs/", "//runs", "/runs//x", "/runs%2Fcounts", "/%72uns", "/RUNS", "/runs?x=/health"),
    *("/health/", "//health", "/health/../runs", "/health%2f..%2fruns", "/./runs", "/runs/."),
    *("/health;x=1", "/health%00", "/docs", "/redoc", "/static/app.js", "/nothing", "/%2e%2e/runs"),
    *("/metrics/", "/openapi.json/", "//openapi.json", "*", "/health%0a", "http://x/metrics"),
]
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "FOO"]


async def raw_status(http: httpx.AsyncClient, method: str, target: str, *headers: str) -> int:
    """Return the status of the answer to a request that is sent without normalisation."""
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def answer(
    http: httpx.AsyncClient, method: str, path: str, headers: dict[str, str]
) -> tuple[int, str | None]:
    """Return status and error id; a stream is not read to its end."""
    async with http.stream(
        method, example_of(path), headers=headers, params={"timeout_sec": 1}
    ) as response:
        if response.is_success or method == "HEAD":
            return response.status_code, None
        return response.status_code, err_id_in(json.loads(await response.aread()))


async def test_without_a_key_only_public_routes_answer(keyed: Keyed) -> None:
    """Checks every route, including metrics and workers (PITFALLS 12)."""
    http, _ = keyed
    for method, path in GUARDED:
        response = await http.request(method, example_of(path))
        assert response.status_code == httpx.codes.UNAUTHORIZED, (method, path)
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        if method != "HEAD":
            assert err_id_in(response.json()) == "ERR-PYOCO-0014"
    for method, path in REQUIRED.keys() - set(GUARDED):
        assert (await http.request(method, path)).status_code == httpx.codes.OK


async def test_no_spelling_of_a_path_and_no_method_avoids_the_key(keyed: Keyed) -> None:
    http, _ = keyed
    for target in ODD_PATHS:
        for method in METHODS:
            status = await raw_status(http, method, target)
            # 400 where the HTTP server cannot parse the request.
            assert status in (400, 401), (method, target, status)
    for method in set(METHODS) - {"GET", "HEAD"}:
        assert await raw_status(http, method, "/health") in (400, 401), method


async def test_wrong_expired_revoked_and_unknown_keys_get_the_same_answer(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    now = time.time()
    async with keyed_gateway_at(
        start_gateway, nats_server.url, store, PYOCO_AUTH_FAILURES_PER_MIN="0"
    ) as (http, key_admin):
        good, expired = await key_admin.issue(), await key_admin.issue(expires_at=now - 1)
        revoked, deleted = await key_admin.issue(), await key_admin.issue()
        for held in (good, revoked, deleted):
            await knows(http, held)
        await key_admin.revoke(revoked)
        await key_admin.delete(deleted)
        await status_becomes(http, "/runs", revoked, httpx.codes.FORBIDDEN)
        await status_becomes(http, "/runs", deleted, httpx.codes.FORBIDDEN)
        wrong = good.key[:-4] + ("AAAA" if good.key[-4:] != "AAAA" else "BBBB")
        unknown = "pyoco_zzzzzzzzzzzz_" + good.key[-43:]
        texts = [expired.key, revoked.key, deleted.key, wrong, unknown, "x", "é" * 80, "k" * 5000]
        bodies: set[tuple[bool, bytes]] = set()
        for method, path in GUARDED:
            for text in texts:
                response = await http.request(
                    method,
                    example_of(path),
                    headers=[
                        (b"X-API-Key", text.encode("latin-1")),
                        (b"X-Request-ID", b"same"),
                    ],
                )
                is_401 = is_execution_path(path)
                expected = httpx.codes.UNAUTHORIZED if is_401 else httpx.codes.FORBIDDEN
                assert response.status_code == expected, (method, path, text)
                if method != "HEAD":
                    bodies.add((is_401, response.content))
        # One body for each of the two forms.
        assert len(bodies) == len({is_401 for is_401, _ in bodies})
        assert {err_id_in(json.loads(body)) for _, body in bodies} == {"ERR-PYOCO-0015"}


async def test_a_key_of_an_earlier_server_is_named_in_the_refusal(
    keyed: Keyed, store: "Store", caplog: pytest.LogCaptureFixture
) -> None:
    http, key_admin = keyed
    for key, value in earlier_keys.RECORDS.items():
        await store.js.publish(f"$KV.pyoco_auth.{key}", value)
    # The gateway has read them too when it accepts a key that was written later.
    await knows(http, await key_admin.issue())
    headers = {"X-API-Key": earlier_keys.KEY, "X-Request-ID": "same"}
    refused = await http.get("/runs", headers=headers)
    body = refused.json()
    assert (refused.status_code, body["err_id"]) == (403, "ERR-PYOCO-0015")
    assert "was issued by an earlier server" in body["detail"]
    assert "pyoco-server-admin api-key create" in body["detail"]
    # The answer depends on the form of the key alone: it does not show which key ids exist.
    for other in (
        earlier_keys.KEY.replace(earlier_keys.KEY_ID, 24 * "0"),
        earlier_keys.KEY[:-4] + "AAAA",
    ):
        again = await http.get("/runs", headers={**headers, "X-API-Key": other})
        assert (again.status_code, again.content) == (403, refused.content)
    assert earlier_keys.KEY[-43:] not in caplog.text
    assert "invalid key record" not in caplog.text


async def test_a_scope_gives_access_to_its_routes_and_no_others(keyed: Keyed) -> None:
    http, key_admin = keyed
    for scope in KeyScope:
        held = await key_admin.issue(scope)
        await eventually(lambda held=held: _is_known(http, held), True)  # type: ignore[misc] # bound now
        for (method, path), required in sorted(REQUIRED.items()):
            told = await answer(http, method, path, held.headers)
            scopes = scopes_in(required)
            is_allowed = not scopes or scope in (*scopes, KeyScope.ADMIN)
            if is_allowed:
                assert told[0] not in (401, 403, 429, 500, 503), (scope, method, path, told)
            else:
                assert told == (403, "ERR-PYOCO-0130"), (scope, method, path, told)


async def test_no_spelling_of_a_path_gives_access_to_a_key_with_another_scope(keyed: Keyed) -> None:
    http, key_admin = keyed
    held = await key_admin.issue(KeyScope.WHEELS_WRITE)
    await eventually(lambda: _is_known(http, held), True)
    shown = f"X-API-Key: {held.key}"
    for (method, path), required in sorted(REQUIRED.items()):
        if scopes_in(required):
            for end in ("%0A", "%0D", "%00", "/", "%2F", "%20", ";", "%3F"):
                status = await raw_status(http, method, example_of(path) + end, shown)
                assert status in (403, 404, 405), (method, path, end, status)


async def _is_known(http: httpx.AsyncClient, held: HeldKey) -> bool:
    return (await http.get("/nothing", headers=held.headers)).status_code == httpx.codes.NOT_FOUND


async def test_with_a_key_unknown_paths_answer_404_and_other_methods_405(
    keyed: Keyed,
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue(KeyScope.RUNS_READ)
    await knows(http, held)

    assert (await http.get("/nothing", headers=held.headers)).status_code == 404
    refused = await http.put("/runs", headers=held.headers)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, POST")
    assert (await http.head("/runs", headers=held.headers)).status_code == 405


async def test_a_key_is_read_from_either_header_and_two_different_keys_are_refused(
    keyed: Keyed,
) -> None:
    http, key_admin = keyed
    held, other = await key_admin.issue(), await key_admin.issue()
    await knows(http, held)
    await knows(http, other)

    async def status(**headers: str) -> int:
        return (await http.get("/runs", headers=headers)).status_code

    bearer = f"Bearer {held.key}"
    assert await status(Authorization=bearer) == 200
    assert await status(**{"X-API-Key": held.key, "Authorization": bearer}) == 200
    assert await status(**{"X-API-Key": other.key, "Authorization": bearer}) == 403
    assert await status(Authorization="Basic dTpw") == 401
    twice = f"X-API-Key: {held.key}"
    assert await raw_status(http, "GET", "/runs", twice) == 200
    assert await raw_status(http, "GET", "/runs", twice, twice) == 403
    assert await raw_status(http, "GET", "/runs", "X-API-Key: \xff\xfe") == 403


async def test_the_setting_names_the_header_for_keys(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    environ = {**KEYED, "PYOCO_HTTP_API_KEY_HEADER": "Authorization"}
    async with start_gateway(nats_server.url, wait=False, **environ) as http:
        await has_key_bucket(store)
        held = await KeyAdmin(store).issue()
        for value in (held.key, f"Bearer {held.key}"):
            headers = {"Authorization": value}
            await eventually(lambda headers=headers: _status(http, headers), 200)  # type: ignore[misc] # bound now
        refusal = (await http.get("/runs")).json()
        assert "Authorization" in refusal["hint"]


async def _status(http: httpx.AsyncClient, headers: dict[str, str]) -> int:
    return (await http.get("/runs", headers=headers)).status_code


async def test_a_body_is_not_read_before_its_caller_is_authenticated(keyed: Keyed) -> None:
    """The answer arrives although no byte of the body was sent."""
    http, _ = keyed
    length = "Content-Length: 1000000"
    assert await raw_status(http, "POST", "/runs", length, "Expect: 100-continue") == 401
    assert await raw_status(http, "POST", "/runs", length) == 401


async def test_keys_that_cannot_be_read_answer_503(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(start_gateway, nats_server.url, store) as (http, key_admin):
        held = await key_admin.issue()
        await knows(http, held)
        await nats_server.stop()

        # The gateway trusts the keys it has read for two seconds.
        await status_becomes(http, "/nothing", held, 503)
        refused = await http.get("/nothing", headers=held.headers)
        assert (refused.status_code, refused.json()["err_id"]) == (503, "ERR-PYOCO-0003")
        # Answers that need no look at the keys stay the same.
        assert (await http.get("/runs")).status_code == 401
        assert (await http.get("/runs", headers={"X-API-Key": "x"})).status_code == 403
        assert (await http.get("/health", headers=held.headers)).status_code == 200

        await nats_server.start()
        await status_becomes(http, f"/runs/{new_run_id()}", held, 404)


async def test_only_keys_with_the_scope_ops_see_the_details_of_health(keyed: Keyed) -> None:
    http, key_admin = keyed
    plain, ops = await key_admin.issue(), await key_admin.issue(KeyScope.OPS)
    await knows(http, plain)
    await eventually(lambda: _is_known(http, ops), True)

    async def shown(headers: dict[str, str]) -> dict[str, Any]:
        answered = await http.get("/health", params={"verbose": 1}, headers=headers)
        assert answered.status_code == httpx.codes.OK
        body: dict[str, Any] = answered.json()
        return body

    for headers in ({}, plain.headers, {"X-API-Key": "wrong"}):
        assert (await shown(headers)).keys() == {"status", "version"}
    assert "broker" in await shown(ops.headers)


async def test_refusals_are_counted_by_their_reason_only(keyed: Keyed) -> None:
    http, key_admin = keyed
    plain, ops = await key_admin.issue(), await key_admin.issue(KeyScope.OPS)
    await knows(http, plain)
    await eventually(lambda: _is_known(http, ops), True)
    before = await _refused(http, ops)
    await http.get("/runs")
    await http.get("/runs", headers={"X-API-Key": "wrong"})
    await http.get("/metrics", headers=plain.headers)

    after = await _refused(http, ops)

    risen = {reason for reason in after if after[reason] - before[reason] == 1}
    assert risen == {"key_missing", "key_invalid", "scope_missing"}
    assert after.keys() == {
        *("key_missing", "key_invalid", "scope_missing", "keys_unknown"),
        *("back_off", "key_rate", "peer_rate"),
    }
    page = (await http.get("/metrics", headers=ops.headers)).text
    for secret in (plain.key, plain.record.key_id, ops.record.key_id, "acme"):
        assert secret not in page


async def _refused(http: httpx.AsyncClient, ops: HeldKey) -> dict[str, float]:
    page = (await http.get("/metrics", headers=ops.headers)).text
    prefix = "pyoco_http_refused_total{"
    lines = [line for line in page.splitlines() if line.startswith(prefix)]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def test_two_gateways_on_one_broker_accept_the_same_keys(
    keyed: Keyed, start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    http, key_admin = keyed
    async with start_gateway(nats_server.url, wait=False, **KEYED) as second:
        held = await key_admin.issue()
        for each in (http, second):
            await knows(each, held)

        await key_admin.revoke(held)

        # A revocation takes effect within two seconds.
        for each in (http, second):
            await status_becomes(each, "/runs", held, 403, timeout=2.0)


async def test_no_request_reads_a_key_from_the_broker(
    start_gateway: "StartGateway", store: "Store", broker_link: "tuple[BrokerLink, str]"
) -> None:
    """A watch delivers the keys, so requests cause no reads of the key bucket."""
    link, url = broker_link
    async with keyed_gateway_at(start_gateway, url, store) as (http, key_admin):
        held = await key_admin.issue()
        await knows(http, held)
        link.swallow = ("$JS.API.STREAM.MSG.GET.KV_pyoco_auth", "$JS.API.DIRECT.GET.KV_pyoco_auth")
        wrong = {"X-API-Key": held.key[:-43] + "A" * 43}
        for _ in range(30):
            assert (await http.get("/nothing", headers=held.headers)).status_code == 404
            assert (await http.get("/nothing", headers=wrong)).status_code in (403, 429)
            assert (await http.get("/nothing")).status_code == 401
        assert not link.lost


@pytest.mark.parametrize("mode", ["none", "api_key"])
async def test_every_request_that_passes_has_a_caller(
    mode: str, start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    """A route that reads the caller would fail without one."""
    environ = KEYED if mode == "api_key" else {}
    async with start_gateway(nats_server.url, wait=False, **environ) as http:
        shown = (await http.get("/health", params={"verbose": 1})).json()
    assert ("broker" in shown) is (mode == "none")
