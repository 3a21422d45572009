"""Workflow texts on a real broker: stored once, readable by any client, expiring."""

import hashlib
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts, sha256_of
from pyoco_protocol.subjects import Names

NAMES = Names()
STREAM = subjects.object_stream(NAMES.workflows_bucket)
DAY = 86_400
TEXT = "flow: {graph: a}\ntasks: {a: {callable: 'm:f'}}\n# 流れ\n"


@pytest.fixture
def texts(broker: Broker) -> WorkflowTexts:
    return WorkflowTexts(broker, NAMES, retention_sec=30 * DAY)


@pytest.fixture
def messages(broker: Broker) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        answer = await ask(broker.client, f"$JS.API.STREAM.INFO.{STREAM}")
        return int(answer["state"]["messages"])

    return count


async def test_a_text_is_read_by_its_hash(texts: WorkflowTexts) -> None:
    sha256 = await texts.put(TEXT, now=time.time())
    assert sha256 == sha256_of(TEXT) == hashlib.sha256(TEXT.encode()).hexdigest()
    assert await texts.get(sha256) == TEXT
    assert await texts.get(sha256_of("another")) is None


async def test_any_nats_client_can_read_a_text(texts: WorkflowTexts, broker: Broker) -> None:
    large = TEXT + "# " + "x" * 250_000
    for text in (TEXT, large):
        sha256 = await texts.put(text, now=time.time())
        store = await broker.client.jetstream().object_store(NAMES.workflows_bucket)
        found = await store.get(sha256)
        assert found.data == text.encode()
        assert (found.info.name, found.info.size) == (sha256, len(text.encode()))


async def test_concurrent_writes_of_the_same_text_store_it_once(
    texts: WorkflowTexts, messages: Callable[[], Awaitable[int]]
) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(lambda: texts.put(TEXT, now=time.time()))
    await texts.put(TEXT, now=time.time())
    assert await messages() == 2


async def test_a_text_without_metadata_is_completed(texts: WorkflowTexts, broker: Broker) -> None:
    # The state after a crash between the two writes.
    sha256 = sha256_of(TEXT)
    chunk = subjects.object_chunks(NAMES.workflows_bucket, sha256)
    await ask(broker.client, chunk, TEXT.encode())
    await texts.put(TEXT, now=time.time())
    store = await broker.client.jetstream().object_store(NAMES.workflows_bucket)
    assert (await store.get(sha256)).data == TEXT.encode()


async def test_a_deleted_text_is_stored_again(texts: WorkflowTexts, broker: Broker) -> None:
    sha256 = await texts.put(TEXT, now=time.time())
    store = await broker.client.jetstream().object_store(NAMES.workflows_bucket)
    await store.delete(sha256)
    assert await texts.get(sha256) is None
    await texts.put(TEXT, now=time.time())
    assert await texts.get(sha256) == TEXT
    assert (await store.get(sha256)).data == TEXT.encode()


async def test_a_text_that_does_not_match_its_hash_is_not_returned(
    texts: WorkflowTexts, broker: Broker
) -> None:
    sha256 = await texts.put(TEXT, now=time.time())
    await ask(broker.client, subjects.object_chunks(NAMES.workflows_bucket, sha256), b"forged")
    assert await texts.get(sha256) is None


async def test_a_text_is_kept_longer_than_any_run_submitted_with_it(
    texts: WorkflowTexts, broker: Broker, messages: Callable[[], Awaitable[int]]
) -> None:
    sha256 = await texts.put(TEXT, now=time.time())
    before = await _stored(broker, sha256)
    assert before.headers["Nats-TTL"] == str(61 * DAY)
    await texts.put(TEXT, now=time.time() + 29 * DAY)
    assert (await _stored(broker, sha256)).seq == before.seq
    # A submission after half of the TTL writes the text again.
    await texts.put(TEXT, now=time.time() + 31 * DAY)
    assert (await _stored(broker, sha256)).seq > before.seq
    assert await messages() == 2


async def test_texts_never_expire_when_runs_never_expire(broker: Broker) -> None:
    texts = WorkflowTexts(broker, NAMES, retention_sec=0)
    sha256 = await texts.put(TEXT, now=time.time())
    before = await _stored(broker, sha256)
    assert "Nats-TTL" not in before.headers
    await texts.put(TEXT, now=time.time() + 1_000 * DAY)
    assert (await _stored(broker, sha256)).seq == before.seq


async def test_a_bucket_without_ttl_support_keeps_texts_without_expiry(broker: Broker) -> None:
    client = broker.client
    await ask(client, f"$JS.API.STREAM.DELETE.{STREAM}")
    await client.jetstream().create_object_store(NAMES.workflows_bucket)
    texts = WorkflowTexts(broker, NAMES, retention_sec=60)
    sha256 = await texts.put(TEXT, now=time.time())
    assert await texts.get(sha256) == TEXT


class _Stored:
    def __init__(self, seq: int, headers: dict[str, str]) -> None:
        self.seq = seq
        self.headers = headers


async def _stored(broker: Broker, sha256: str) -> _Stored:
    subject = subjects.object_chunks(NAMES.workflows_bucket, sha256)
    message = await broker.client.jetstream().get_last_msg(STREAM, subject)
    return _Stored(message.seq or 0, message.headers or {})
