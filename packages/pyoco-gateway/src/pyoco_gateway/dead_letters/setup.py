"""What the routes of dead letters need, put together."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from pyoco_gateway.dead_letters.index import MAX_LETTERS, DeadLetterIndex
from pyoco_gateway.dead_letters.read import DeadLetters
from pyoco_gateway.dead_letters.redrive import Redrive
from pyoco_gateway.runs.submit import SubmitRun
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_reader import DeadLetterReader
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.subjects import Names


@contextmanager
def dead_letter_desk(
    broker: Broker,
    names: Names,
    store: RunStore,
    submit_run: SubmitRun,
    texts: WorkflowTexts,
    *,
    max_letters: int,
) -> Iterator[tuple[StreamWatch, dict[str, Any]]]:
    """Yield what follows the dead letters, to be run, and the use cases by their names in routes.

    Run among the rest: what waits for the broker when the gateway stops then waits at once, and
    not one after the other.
    """
    with closing(DeadLetterIndex(max_letters or MAX_LETTERS)) as index:
        letters = DeadLetters(DeadLetterReader(broker, names), index)
        redrive = Redrive(letters, store, submit_run, texts)
        watch = StreamWatch(broker, names.dlq_stream, names.dlq(""), index)
        yield watch, {"dead_letters": letters, "redrive": redrive}
