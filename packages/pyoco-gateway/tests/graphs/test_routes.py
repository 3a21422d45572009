"""The routes of graphs, at a gateway with a real broker."""

import hashlib
import json
from typing import Any

import httpx
import yaml

from conftest import Store
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.instants import milliseconds_of
from pyoco_testkit.graph_documents import JsonObject, edges_of, line

INTAKE = line({"id": "fetch", "type": "Task"}, title="Order intake")
YAML = {"Content-Type": "application/yaml"}


async def put(
    http: httpx.AsyncClient, graph_id: str, document: Any, **headers: str
) -> httpx.Response:
    return await http.put(f"/graphs/{graph_id}", json=document, headers=headers)


async def got(http: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error_of(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


async def test_a_new_document_is_a_new_version_and_has_a_location(
    gateway: httpx.AsyncClient,
) -> None:
    first = await put(gateway, "intake", INTAKE)
    digest = hashlib.sha256(canonical_json(INTAKE)).hexdigest()
    assert first.status_code == 201
    assert first.headers["Location"] == "/graphs/intake/versions/1"
    assert first.json() == {"graphId": "intake", "version": 1, "hash": digest, "warnings": []}
    second = await put(gateway, "intake", {**INTAKE, "title": "Another"})
    assert (second.status_code, second.json()["version"]) == (201, 2)
    stored = await gateway.get(second.headers["Location"])
    assert stored.json()["document"]["title"] == "Another"


async def test_the_document_of_the_latest_version_makes_no_new_version(
    gateway: httpx.AsyncClient,
) -> None:
    await put(gateway, "intake", INTAKE)
    again = await gateway.put(
        "/graphs/intake", content=yaml.safe_dump(INTAKE).encode(), headers=YAML
    )
    assert (again.status_code, again.json()["version"]) == (200, 1)
    assert "Location" not in again.headers
    await put(gateway, "intake", {**INTAKE, "title": "Another"})
    # Only the latest version counts: an earlier one comes back as a new version.
    back = await put(gateway, "intake", INTAKE)
    assert (back.status_code, back.json()["version"]) == (201, 3)


async def test_the_stored_message_has_the_document_as_it_was_given(
    gateway: httpx.AsyncClient, store: Store
) -> None:
    document = {**INTAKE, "title": None, "deadlineSec": 60}
    await put(gateway, "intake", document)
    (message,) = await store._messages("PYOCO_GRAPHS")
    body = json.loads(message.data or b"")
    assert message.subject == "pyoco.graph.default.intake"
    assert milliseconds_of(body.pop("at")) > 0
    assert body == {
        "v": 1,
        "graphId": "intake",
        "version": 1,
        "hash": hashlib.sha256(canonical_json(document)).hexdigest(),
        "by": "anonymous",
        "document": document,
    }


async def test_a_version_is_read_as_it_was_given(gateway: httpx.AsyncClient) -> None:
    document = {**INTAKE, "title": None}
    await put(gateway, "intake", document)
    latest = await got(gateway, "/graphs/intake")
    assert latest == await got(gateway, "/graphs/intake/versions/1")
    assert milliseconds_of(latest.pop("at")) > 0
    assert latest == {
        "graphId": "intake",
        "version": 1,
        "hash": hashlib.sha256(canonical_json(document)).hexdigest(),
        "title": None,
        "by": "anonymous",
        "nodes": 3,
        "edges": 2,
        "document": document,
    }


async def test_earlier_versions_stay_as_they_are(gateway: httpx.AsyncClient) -> None:
    for number in range(1, 13):
        await put(gateway, "intake", {**INTAKE, "title": f"v{number}"})
        await put(gateway, "other", {**INTAKE, "title": f"o{number}"})
    for number in range(1, 13):
        found = await got(gateway, f"/graphs/intake/versions/{number}")
        assert (found["version"], found["title"]) == (number, f"v{number}")
    assert (await got(gateway, "/graphs/intake"))["title"] == "v12"


# --- If-Match


async def test_if_match_names_the_latest_version(gateway: httpx.AsyncClient) -> None:
    assert (await put(gateway, "intake", INTAKE, **{"If-Match": "0"})).status_code == 201
    changed = {**INTAKE, "title": "changed"}
    refused = error_of(await put(gateway, "intake", changed, **{"If-Match": "0"}), 412)
    assert refused["code"] == "VERSION_MISMATCH"
    assert {key: refused["details"][key] for key in ("graphId", "expected", "latest")} == {
        "graphId": "intake",
        "expected": 0,
        "latest": 1,
    }
    assert (await put(gateway, "intake", changed, **{"If-Match": '"1"'})).status_code == 201
    error_of(await put(gateway, "intake", INTAKE, **{"If-Match": "1"}), 412)
    assert (await got(gateway, "/graphs/intake"))["title"] == "changed"


async def test_if_match_is_checked_for_an_unchanged_document_too(
    gateway: httpx.AsyncClient,
) -> None:
    await put(gateway, "intake", INTAKE)
    assert (await put(gateway, "intake", INTAKE, **{"If-Match": "1"})).status_code == 200
    error_of(await put(gateway, "intake", INTAKE, **{"If-Match": "2"}), 412)


async def test_if_match_must_be_the_number_of_a_version(gateway: httpx.AsyncClient) -> None:
    refused = error_of(await put(gateway, "intake", INTAKE, **{"If-Match": "*"}), 422)
    assert refused["code"] == "INVALID_REQUEST"
    assert refused["details"]["problems"][0]["where"] == "If-Match"


# --- documents that are refused


async def test_an_invalid_document_is_refused_with_all_problems(
    gateway: httpx.AsyncClient,
) -> None:
    document = {**INTAKE, "colour": "red", "edges": edges_of("start", "fetch", "nowhere")}
    refused = error_of(await put(gateway, "intake", document), 422)
    assert refused["code"] == "GRAPH_INVALID"
    assert [(each["code"], each["where"]) for each in refused["details"]["problems"]] == [
        ("FIELD_UNKNOWN", "colour"),
        ("EDGE_UNKNOWN_NODE", "edges[1].to"),
    ]
    assert error_of(await gateway.get("/graphs/intake"), 404)["code"] == "GRAPH_NOT_FOUND"


UNREADABLE = [
    (b"{", "application/json"),
    (b'{"a": 1, "a": 1}', "application/json"),
    (b"", "application/json"),
    (b"nodes: [", "application/yaml"),
    (b"nodes: &a []\nedges: *a", "application/yaml"),
    (b"nodes: 1\nnodes: 2", "application/yaml"),
]


async def test_a_text_that_cannot_be_parsed_is_an_invalid_document(
    gateway: httpx.AsyncClient,
) -> None:
    for content, media_type in UNREADABLE:
        headers = {"Content-Type": media_type}
        refused = await gateway.put("/graphs/intake", content=content, headers=headers)
        problems = error_of(refused, 422)["details"]["problems"]
        assert {(each["code"], each["where"]) for each in problems} == {
            ("FIELD_INVALID", "document")
        }
        checked = await gateway.post("/graphs/validate", content=content, headers=headers)
        assert checked.status_code == 200
        assert checked.json() == {"valid": False, "problems": problems, "warnings": []}


async def test_a_body_that_is_neither_json_nor_yaml_is_refused(gateway: httpx.AsyncClient) -> None:
    content = json.dumps(INTAKE).encode()
    for media_type in (None, "text/plain", "application/xml", "text/yaml"):
        headers = {} if media_type is None else {"Content-Type": media_type}
        for method, path in (("PUT", "/graphs/a"), ("POST", "/graphs/validate")):
            refused = await gateway.request(method, path, content=content, headers=headers)
            assert error_of(refused, 415)["code"] == "UNSUPPORTED_MEDIA_TYPE"


async def test_the_media_type_may_have_parameters(gateway: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    content = json.dumps(INTAKE).encode()
    stored = await gateway.put("/graphs/intake", content=content, headers=headers)
    assert stored.status_code == 201


async def test_a_document_is_counted_without_its_indentation(gateway: httpx.AsyncClient) -> None:
    tasks = [{"id": f"task{i}", "type": "Task", "title": "é" * 90} for i in range(500)]
    content = json.dumps(line(*tasks), indent=24).encode()
    assert len(content) > 400_000
    headers = {"Content-Type": "application/json"}
    stored = await gateway.put("/graphs/intake", content=content, headers=headers)
    assert stored.status_code == 201, stored.text
    assert (await got(gateway, "/graphs/intake"))["nodes"] == 502


async def test_a_body_above_one_mebibyte_is_refused_before_it_is_read(
    gateway: httpx.AsyncClient,
) -> None:
    content = json.dumps(INTAKE).encode().ljust(1_048_577)
    headers = {"Content-Type": "application/json"}
    refused = await gateway.put("/graphs/intake", content=content, headers=headers)
    assert error_of(refused, 413)["code"] == "PAYLOAD_TOO_LARGE"
    checked = await gateway.post("/graphs/validate", content=content[:-1], headers=headers)
    assert checked.json()["valid"] is True


async def test_a_graph_needs_an_id_of_its_own_form(gateway: httpx.AsyncClient) -> None:
    for graph_id in ("-a", "a.b", "a*", ">", "a b", "ä", "a" * 65):
        refused = error_of(await put(gateway, graph_id, INTAKE), 422)
        assert refused["details"]["problems"][0]["where"] == "graphId"
        for path in ("", "/versions", "/versions/1"):
            answer = await gateway.get(f"/graphs/{graph_id}{path}")
            assert error_of(answer, 404)["code"] == "GRAPH_NOT_FOUND"
    longest = "a" * 64
    assert (await put(gateway, longest, INTAKE)).status_code == 201
    assert (await got(gateway, f"/graphs/{longest}"))["graphId"] == longest


# --- validate


async def test_a_valid_document_is_checked_and_not_stored(gateway: httpx.AsyncClient) -> None:
    checked = await gateway.post("/graphs/validate", json=INTAKE)
    assert checked.json() == {"valid": True, "problems": [], "warnings": []}
    assert await got(gateway, "/graphs") == {"items": [], "nextCursor": None}


async def test_an_invalid_document_is_no_error_of_the_check(gateway: httpx.AsyncClient) -> None:
    checked = await gateway.post("/graphs/validate", json={**INTAKE, "deadlineSec": 0})
    assert checked.status_code == 200
    body = checked.json()
    assert body["valid"] is False
    assert [(each["code"], each["where"]) for each in body["problems"]] == [
        ("FIELD_INVALID", "deadlineSec")
    ]


async def test_warnings_do_not_prevent_that_a_graph_is_stored(gateway: httpx.AsyncClient) -> None:
    bound = {"id": "fetch", "type": "Task", "run": {"flow": "f", "tag": "gpu"}}
    stored = await put(gateway, "intake", line(bound))
    assert stored.status_code == 201
    (warning,) = stored.json()["warnings"]
    assert (warning["code"], warning["where"]) == ("TAG_WITHOUT_WORKER", "nodes[1].run.tag")
    checked = await gateway.post("/graphs/validate", json=line(bound))
    assert checked.json() == {"valid": True, "problems": [], "warnings": [warning]}
    unchanged = await put(gateway, "intake", line(bound))
    assert (unchanged.status_code, unchanged.json()["warnings"]) == (200, [warning])


# --- reads


async def test_unknown_graphs_and_versions_are_not_found(gateway: httpx.AsyncClient) -> None:
    await put(gateway, "intake", INTAKE)
    for version in ("0", "2", "-1", "x", "01", "9" * 16, "9" * 400):
        answer = await gateway.get(f"/graphs/intake/versions/{version}")
        assert error_of(answer, 404)["code"] == "GRAPH_NOT_FOUND"
    for path in ("/graphs/none", "/graphs/none/versions", "/graphs/none/versions/1"):
        assert error_of(await gateway.get(path), 404)["details"]["graphId"] == "none"


async def test_the_list_has_the_latest_version_of_each_graph_by_id(
    gateway: httpx.AsyncClient,
) -> None:
    for graph_id in ("b", "a-2", "a", "B", "a_2"):
        await put(gateway, graph_id, INTAKE)
    await put(gateway, "a", {**INTAKE, "title": "newer"})
    page = await got(gateway, "/graphs")
    assert [each["graphId"] for each in page["items"]] == ["B", "a", "a-2", "a_2", "b"]
    assert page["nextCursor"] is None
    newer = page["items"][1]
    assert (newer["version"], newer["title"], newer["nodes"], newer["edges"]) == (2, "newer", 3, 2)
    assert "document" not in newer


async def test_the_pages_of_a_list_have_each_graph_once(gateway: httpx.AsyncClient) -> None:
    for i in range(7):
        await put(gateway, f"g{i}", INTAKE)
    found: list[str] = []
    query: JsonObject = {"limit": 3}
    while True:
        page = await got(gateway, "/graphs", **query)
        found += [each["graphId"] for each in page["items"]]
        if page["nextCursor"] is None:
            break
        assert len(page["items"]) == 3
        # A new graph before the cursor does not move the pages.
        await put(gateway, "a", INTAKE)
        query["cursor"] = page["nextCursor"]
    assert found == [f"g{i}" for i in range(7)]
    assert (await got(gateway, "/graphs", limit=8))["nextCursor"] is None


async def test_the_versions_of_a_graph_are_listed_from_the_newest(
    gateway: httpx.AsyncClient,
) -> None:
    for i in range(1, 8):
        await put(gateway, "intake", {**INTAKE, "title": f"v{i}"})
        await put(gateway, "other", {**INTAKE, "title": f"o{i}"})
    page = await got(gateway, "/graphs/intake/versions", limit=3)
    assert [(each["version"], each["title"]) for each in page["items"]] == [
        (7, "v7"),
        (6, "v6"),
        (5, "v5"),
    ]
    assert "document" not in page["items"][0]
    # A new version does not move the pages.
    await put(gateway, "intake", INTAKE)
    found = [each["version"] for each in page["items"]]
    while page["nextCursor"] is not None:
        page = await got(gateway, "/graphs/intake/versions", limit=3, cursor=page["nextCursor"])
        found += [each["version"] for each in page["items"]]
    assert found == [7, 6, 5, 4, 3, 2, 1]
    assert await got(gateway, "/graphs/intake/versions", cursor=1) == {
        "items": [],
        "nextCursor": None,
    }


async def test_the_newest_version_is_in_the_list_at_once(gateway: httpx.AsyncClient) -> None:
    for i in range(1, 4):
        await put(gateway, "intake", {**INTAKE, "title": f"v{i}"})
        page = await got(gateway, "/graphs/intake/versions", limit=1)
        assert [each["version"] for each in page["items"]] == [i]


async def test_an_invalid_query_is_refused_with_all_faults(gateway: httpx.AsyncClient) -> None:
    await put(gateway, "intake", INTAKE)
    for path in ("/graphs", "/graphs/intake/versions"):
        refused = error_of(await gateway.get(f"{path}?limit=201&cursor=*"), 422)
        assert refused["code"] == "INVALID_REQUEST"
        assert [each["where"] for each in refused["details"]["problems"]] == ["limit", "cursor"]
        await got(gateway, path, limit=200)


async def test_an_unknown_query_parameter_is_refused(gateway: httpx.AsyncClient) -> None:
    for method, path in (
        ("GET", "/graphs"),
        ("GET", "/graphs/intake"),
        ("PUT", "/graphs/intake"),
        ("POST", "/graphs/validate"),
        ("GET", "/graphs/intake/versions"),
        ("GET", "/graphs/intake/versions/1"),
    ):
        refused = await gateway.request(method, f"{path}?colour=red", json=INTAKE)
        error = error_of(refused, 422)
        assert error["code"] == "INVALID_REQUEST"
        assert error["details"]["problems"][0]["where"] == "colour"


async def test_graphs_and_their_versions_cannot_be_deleted_or_replaced(
    gateway: httpx.AsyncClient,
) -> None:
    for method, path, allowed in (
        ("POST", "/graphs", "GET"),
        ("DELETE", "/graphs/intake", "GET, PUT"),
        ("PUT", "/graphs/validate", "POST"),
        ("PUT", "/graphs/intake/versions/1", "GET"),
    ):
        refused = await gateway.request(method, path)
        error_of(refused, 405)
        assert refused.headers["Allow"] == allowed


async def test_two_gateways_see_each_others_versions_at_once(
    gateway: httpx.AsyncClient, start_gateway: Any, nats_server: Any
) -> None:
    async with start_gateway(nats_server.url) as other:
        for i in range(1, 6):
            writer, reader = (gateway, other) if i % 2 else (other, gateway)
            await put(writer, "intake", {**INTAKE, "title": f"v{i}"})
            assert (await got(reader, "/graphs/intake"))["version"] == i
            assert (await got(reader, "/graphs/intake/versions"))["items"][0]["version"] == i
            assert (await got(reader, "/graphs"))["items"][0]["version"] == i
