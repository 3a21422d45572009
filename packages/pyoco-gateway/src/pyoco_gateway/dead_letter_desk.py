"""What the routes of dead letters need, put together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio

from pyoco_gateway.read_model.dead_letter_index import MAX_LETTERS, DeadLetterIndex
from pyoco_gateway.use_cases.read_dead_letters import DeadLetters
from pyoco_gateway.use_cases.redrive import Redrive
from pyoco_gateway.use_cases.submit_run import SubmitRun
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_shelf import DeadLetterShelf
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.subjects import Names


@asynccontextmanager
async def dead_letter_desk(
    broker: Broker,
    names: Names,
    store: RunStore,
    submit_run: SubmitRun,
    texts: WorkflowTexts,
    *,
    max_letters: int,
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the use cases of dead letters, by the names that the routes know them by.

    The dead letters are followed until the context is left.
    """
    with closing(DeadLetterIndex(max_letters or MAX_LETTERS)) as index:
        letters = DeadLetters(DeadLetterShelf(broker, names), index)
        async with anyio.create_task_group() as tasks:
            watch = StreamWatch(broker, names.dlq_stream, names.dlq(""), index)
            tasks.start_soon(watch.run)
            yield {"dead_letters": letters, "redrive": Redrive(letters, store, submit_run, texts)}
            tasks.cancel_scope.cancel()
