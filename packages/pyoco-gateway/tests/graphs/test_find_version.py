"""Versions by their numbers, in a stream that other graphs share."""

import json
from random import Random

import pytest

from conftest import Store
from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.read import ReadGraphs
from pyoco_protocol.graphs.compiled import graph_hash
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.graph_versions import GraphVersions
from pyoco_protocol.problems import GraphNotFoundError
from pyoco_protocol.subjects import Names
from pyoco_testkit.graph_documents import line
from two_tenants import asked_of_broker


async def filled(broker: Broker, counts: dict[str, int], seed: int) -> GraphVersions:
    """Store versions of several graphs in a random order."""
    versions = GraphVersions(broker, Names())
    order = [graph_id for graph_id, count in counts.items() for _ in range(count)]
    Random(seed).shuffle(order)
    last: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for graph_id in order:
        numbers[graph_id] = number = numbers.get(graph_id, 0) + 1
        document = line(title=f"{graph_id} {number}")
        record = {
            "v": 1,
            "graphId": graph_id,
            "version": number,
            "hash": graph_hash(document),
            "at": "2026-11-18T03:15:27.123Z",
            "by": "ann",
            "document": document,
        }
        last[graph_id] = await versions.append(
            "acme", graph_id, json.dumps(record).encode(), expected=last.get(graph_id, 0)
        )
    return versions


@pytest.mark.parametrize("seed", range(3))
async def test_each_version_is_found_wherever_it_lies(broker: Broker, seed: int) -> None:
    counts = {"a": 1, "b": 7, "c": 40}
    versions = await filled(broker, counts, seed)
    find = FindVersion(versions)
    for graph_id, count in counts.items():
        for number in range(1, count + 1):
            # The second time it is known where the version lies.
            for _ in range(2):
                found = await find("acme", graph_id, number)
                assert json.loads(found.body)["document"]["title"] == f"{graph_id} {number}"
        with pytest.raises(GraphNotFoundError):
            await find("acme", graph_id, count + 1)


async def test_a_version_of_a_long_history_is_found_with_few_reads(
    broker: Broker, store: Store
) -> None:
    versions = await filled(broker, {"a": 100, "b": 100}, 7)
    find = FindVersion(versions)
    async with asked_of_broker(store) as asked:
        await find("acme", "a", 1)
        assert len(await asked()) <= 10
        await find("acme", "a", 1)
        assert len(await asked()) == 1


async def test_a_page_may_begin_in_the_middle_of_a_long_history(
    broker: Broker, store: Store
) -> None:
    versions = await filled(broker, {"a": 100, "b": 100}, 7)
    reads = ReadGraphs(versions, FindVersion(versions), ParseDocument())
    async with asked_of_broker(store) as asked:
        page = await reads.history("acme", "a", before=51, limit=10)
        # Two for the latest version, one for the page, the others for its place.
        assert len(await asked()) <= 13
    assert [each.version for each in page.items] == list(range(50, 40, -1))
    assert page.next_cursor == "41"
