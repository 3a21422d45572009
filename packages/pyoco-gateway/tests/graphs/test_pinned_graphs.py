"""The graphs of executions: read from the leader, compiled once, checked when they are pinned."""

import json
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_gateway.graphs import pinned_graphs
from pyoco_gateway.graphs.documents import ReadDocument
from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_gateway.graphs.put import PutGraph
from pyoco_gateway.graphs.version_record import VersionRecord, record_of
from pyoco_protocol.graphs.compiled import CompiledGraph, graph_hash
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.stored import load_graph
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.graph_versions import GraphVersions, StoredVersion
from pyoco_protocol.problems import GraphCorruptError, GraphNotFoundError
from pyoco_protocol.settings import TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import execution_topology
from pyoco_testkit.graph_documents import JsonObject, line

AT = "2026-11-18T03:15:27.123Z"


def body_of(document: Any, version: int = 1, **fields: Any) -> bytes:
    """Return a message with a version."""
    record = {
        "v": 1,
        "graphId": "intake",
        "version": version,
        "hash": graph_hash(document),
        "at": AT,
        "by": "ann",
        "document": document,
    }
    return json.dumps({**record, **fields}).encode()


class Graphs:
    """Pinned graphs of a broker, and ways to store versions."""

    def __init__(self, broker: Broker, **options: Any) -> None:
        self.broker = broker
        self.versions = GraphVersions(broker, Names())
        self.parse = ParseDocument()
        self.find = FindVersion(self.versions)
        self.pinned = PinnedGraphs(self.versions, self.find, self.parse, **options)

    async def put(self, title: str, graph_id: str = "intake") -> None:
        """Store a version as a request would."""
        put = PutGraph(self.versions, ReadDocument(self.parse))
        content = json.dumps(line(title=title)).encode()
        await put("acme", graph_id, content, b"application/json", by="ann", expected=None)

    async def append(self, body: bytes, graph_id: str = "intake", tenant: str = "acme") -> int:
        """Store any bytes as the first version of a graph; return the stream sequence."""
        last = await self.versions.last(tenant, graph_id)
        expected = 0 if last is None else last.stream_seq
        return await self.versions.append(tenant, graph_id, body, expected=expected)

    async def again(self, found: PinnedGraph, **changes: Any) -> CompiledGraph:
        """Read a graph as a running execution does, which remembers these five values."""
        wanted: dict[str, Any] = {
            "tenant": "acme",
            "graph_id": found.graph_id,
            "graph_seq": found.stream_seq,
            "graph_hash": found.graph.hash,
            "version": found.version,
        }
        return await self.pinned.pinned(**{**wanted, **changes})


@pytest.fixture
def graphs(broker: Broker) -> Graphs:
    return Graphs(broker)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the titles of the documents that were compiled, in their order."""
    titles: list[str] = []

    def noted(document: JsonObject) -> CompiledGraph:
        titles.append(str(document["title"]))
        return load_graph(document)

    monkeypatch.setattr(pinned_graphs, "load_graph", noted)
    return titles


async def test_the_latest_version_is_that_of_this_moment(graphs: Graphs) -> None:
    for i in range(1, 4):
        await graphs.put(f"v{i}")
        found = await graphs.pinned.latest("acme", "intake")
        assert (found.version, found.graph.document.title) == (i, f"v{i}")
        assert found.graph_id == "intake"
        assert await graphs.versions.at(found.stream_seq) is not None


async def test_a_version_is_found_by_its_number(graphs: Graphs) -> None:
    for i in range(1, 6):
        await graphs.put(f"v{i}")
        await graphs.put(f"o{i}", "other")
    for n in (3, 1, 5, 2, 4, 3):
        found = await graphs.pinned.version("acme", "intake", n)
        assert (found.version, found.graph.document.title) == (n, f"v{n}")


async def test_unknown_graphs_and_versions_are_not_found(graphs: Graphs) -> None:
    await graphs.put("v1")
    await graphs.put("v2")
    for tenant, graph_id in (
        ("acme", "none"),
        ("globex", "intake"),
        ("acme", "*"),
        ("*", "intake"),
    ):
        with pytest.raises(GraphNotFoundError):
            await graphs.pinned.latest(tenant, graph_id)
        with pytest.raises(GraphNotFoundError):
            await graphs.pinned.version(tenant, graph_id, 1)
    for number in (0, -1, 3, 10**15):
        with pytest.raises(GraphNotFoundError) as missing:
            await graphs.pinned.version("acme", "intake", number)
        assert missing.value.details["graphVersion"] == number


async def test_a_running_execution_keeps_its_version(graphs: Graphs) -> None:
    await graphs.put("v1")
    first = await graphs.pinned.latest("acme", "intake")
    await graphs.put("v2")
    assert (await graphs.again(first)).document.title == "v1"
    # A gateway that has just started reads it.
    assert (await Graphs(graphs.broker).again(first)).document.title == "v1"


async def test_a_graph_is_compiled_once(graphs: Graphs, compiled: list[str]) -> None:
    await graphs.put("v1")
    first = await graphs.pinned.latest("acme", "intake")
    found: list[CompiledGraph] = [first.graph]

    async def use() -> None:
        found.append((await graphs.pinned.latest("acme", "intake")).graph)
        found.append((await graphs.pinned.version("acme", "intake", 1)).graph)
        found.append(await graphs.again(first))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
    assert compiled == ["v1"]
    assert all(each is first.graph for each in found)


async def test_requests_that_need_a_new_graph_at_once_compile_it_once(
    graphs: Graphs, compiled: list[str]
) -> None:
    title = "x" * 200
    tasks_in_line = [{"id": f"t{i}", "type": "Task", "title": title} for i in range(100)]
    document = line(*tasks_in_line, title="large")
    await graphs.append(body_of(document))

    async def use() -> None:
        await graphs.pinned.latest("acme", "intake")

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(use)
    assert compiled == ["large"]


async def test_the_graphs_used_last_are_kept(broker: Broker, compiled: list[str]) -> None:
    # Room for three.
    graphs = Graphs(broker, max_bytes=3 * len(body_of(line(title="v1"))))
    for i in range(1, 5):
        await graphs.append(body_of(line(title=f"v{i}"), graphId=f"graph{i}"), f"graph{i}")
    for i in (1, 2, 3, 1, 4, 1, 3, 2):
        await graphs.pinned.latest("acme", f"graph{i}")
    # 4 takes the place of 2, which was not used for the longest time; 2 then that of 4.
    assert compiled == ["v1", "v2", "v3", "v4", "v2"]


async def test_a_graph_larger_than_the_memory_for_graphs_is_kept_alone(
    broker: Broker, compiled: list[str]
) -> None:
    graphs = Graphs(broker, max_bytes=1)
    await graphs.put("v1")
    for _ in range(3):
        await graphs.pinned.latest("acme", "intake")
    assert compiled == ["v1"]


# --- what is not as it was pinned


async def test_a_running_execution_gets_no_other_graph(graphs: Graphs) -> None:
    await graphs.put("v1")
    await graphs.put("v2")
    await graphs.put("o1", "other")
    first = await graphs.pinned.version("acme", "intake", 1)
    second = await graphs.pinned.version("acme", "intake", 2)
    for changes in (
        {"graph_hash": second.graph.hash},
        {"graph_seq": second.stream_seq},
        {"version": 2},
        {"graph_id": "other"},
        {"tenant": "globex"},
        {"graph_seq": 999},
        {"graph_seq": 0},
        {"graph_seq": 3},
    ):
        for fresh in (graphs, Graphs(graphs.broker)):
            with pytest.raises(GraphCorruptError) as corrupt:
                await fresh.again(first, **changes)
            assert corrupt.value.code == "GRAPH_CORRUPT"
    assert (await graphs.again(first)) is first.graph


DOCUMENT = line(title="v1")
DAMAGED: dict[str, bytes] = {
    "no JSON": b"{",
    "no object": b"[]",
    "nested too deep": b"[" * 100_000,
    "no UTF-8": b"\xff",
    "no document": body_of(DOCUMENT).replace(b'"document"', b'"other"'),
    "a document of another type": body_of([]),
    "another hash": body_of(DOCUMENT, hash="0" * 64),
    "another document": body_of(DOCUMENT).replace(b'"v1"', b'"v2"'),
    "an invalid document": body_of({"nodes": []}),
    "another graph": body_of(DOCUMENT, graphId="other"),
    "a newer format": body_of(DOCUMENT, v=2),
    "no version": body_of(DOCUMENT).replace(b'"version": 1', b'"version": "one"'),
}


@pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_version_is_not_used(graphs: Graphs, body: bytes) -> None:
    place = await graphs.append(body)
    with pytest.raises(GraphCorruptError) as corrupt:
        await graphs.pinned.latest("acme", "intake")
    # The text of the document does not get into the log.
    assert "v1" not in str(corrupt.value)
    with pytest.raises(GraphCorruptError):
        await graphs.pinned.pinned("acme", "intake", place, graph_hash(DOCUMENT), 1)


async def test_an_execution_keeps_a_graph_that_would_not_be_accepted_any_more(
    graphs: Graphs,
) -> None:
    document = line({"id": "w", "type": "Wait", "wait": {"approvers": []}})
    with pytest.raises(GraphInvalidError):
        validate_graph(document)
    place = await graphs.append(body_of(document))
    found = await graphs.pinned.pinned("acme", "intake", place, graph_hash(document), 1)
    assert found.source == document


async def test_a_stream_that_was_made_anew_brings_no_earlier_graph_back(graphs: Graphs) -> None:
    await graphs.put("before")
    first = await graphs.pinned.latest("acme", "intake")
    await graphs.pinned.version("acme", "intake", 1)
    await graphs.broker.client.jetstream().delete_stream("PYOCO_GRAPHS")
    await ensure_topology(graphs.broker.client, execution_topology(TopologySettings()))
    await graphs.put("other", "another")
    await graphs.put("after")
    latest = await graphs.pinned.latest("acme", "intake")
    assert (latest.version, latest.graph.document.title) == (1, "after")
    found = await graphs.pinned.version("acme", "intake", 1)
    assert found.graph.document.title == "after"
    assert (await graphs.pinned.latest("acme", "another")).graph.document.title == "other"
    with pytest.raises(GraphCorruptError):
        await graphs.again(first)


# --- records


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(_TEXT, _JSON))
def test_any_document_keeps_its_hash_when_it_is_stored(document: JsonObject) -> None:
    digest = graph_hash(document)
    record = VersionRecord(graph_id="g", version=1, hash=digest, at=AT, by="ann", document=document)
    stored = record_of(StoredVersion("acme", "g", 1, record.to_bytes(), 0.0))
    assert stored == record
    assert graph_hash(stored.document) == digest


# --- large documents


async def test_a_large_document_is_compiled_in_a_thread(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noted(document: JsonObject) -> CompiledGraph:
        threads.append(threading.get_ident())
        return load_graph(document)

    monkeypatch.setattr(pinned_graphs, "load_graph", noted)
    small = line(title="small")
    large = line(*({"id": f"t{i}", "type": "Task", "title": "x" * 100} for i in range(500)))
    await graphs.append(body_of(small, graphId="small"), "small")
    await graphs.append(body_of(large, graphId="large"), "large")
    await graphs.pinned.latest("acme", "small")
    await graphs.pinned.latest("acme", "large")
    assert threads[0] == threading.get_ident()
    assert threads[1] != threading.get_ident()
