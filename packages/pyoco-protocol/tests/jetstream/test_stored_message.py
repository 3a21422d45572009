from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.subjects import Names

NAMES = Names()


async def test_a_stored_message_is_read_with_its_parts(broker: Broker) -> None:
    await ask(broker.client, NAMES.work("a"), b"first")
    await ask(broker.client, NAMES.work("b"), "世界".encode())
    request = {"seq": 1, "next_by_subj": NAMES.work("b")}
    message = await read_message(broker.client, NAMES.work_stream, request)
    assert message is not None
    assert (message.seq, message.subject) == (2, NAMES.work("b"))
    assert message.data.decode() == "世界"
    assert message.stored_at > 1_700_000_000


async def test_an_empty_message_has_empty_data(broker: Broker) -> None:
    await ask(broker.client, NAMES.work("a"))
    message = await read_message(broker.client, NAMES.work_stream, {"seq": 1})
    assert message is not None
    assert message.data == b""


async def test_a_missing_message_is_none(broker: Broker) -> None:
    assert await read_message(broker.client, NAMES.work_stream, {"seq": 1}) is None
