"""Writes commits of one execution without deciding them: long, odd and damaged logs."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from executions.log.log_parts import ANN, AT, NAMES
from pyoco_gateway.executions.log.logged_state import LoggedState, after_commit
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitRecord,
    EventRecord,
    hash_of_commit,
)
from pyoco_protocol.executions.events import AnyEvent, NodeProgressReported
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_testkit.eventually import eventually


class LogWriter:
    """Appends commits after a state of an execution, many of them in one go."""

    def __init__(self, broker: Broker, logged: LoggedState) -> None:
        self._broker = broker
        self._log = ExecutionLog(broker, NAMES)
        self._bodies: list[bytes] = []
        self.logged = logged

    def record(self, events: Sequence[AnyEvent], **fields: Any) -> CommitRecord:
        """Return the next commit with these events; `fields` replace its members."""
        logged = self.logged
        record = CommitRecord(
            commit_id=str(uuid.uuid4()),
            execution_id=logged.execution_id,
            tenant_id=logged.state.tenant_id,
            n=logged.n + 1,
            first_seq=logged.state.seq + 1,
            at=max(AT, logged.state.last_at),
            prev_hash=logged.last_hash,
            command=CommandRecord("ReportNodeProgress", ANN),
            events=tuple(EventRecord(each.type, each.wire_payload()) for each in events),
            head={"seq": logged.state.seq + len(events), "n": logged.n + 1},
        )
        return replace(record, **fields)

    def add(self, record: CommitRecord) -> None:
        """Add a commit that follows; it is stored with the next `flush`."""
        body = record.to_bytes()
        self._bodies.append(body)
        # The sequence in the stream is not known yet, and no value position is needed.
        logged = self.logged
        self.logged = after_commit(logged, logged.execution_id, record, body, logged.stream_seq + 1)

    def add_progress(self, commits: int, *, events: int = 1, node_id: str = "t") -> None:
        """Add commits of progress reports."""
        report = NodeProgressReported(node_id=node_id, attempt=1, progress=5)
        for _ in range(commits):
            self.add(self.record([report] * events))

    def add_keyed(self, number: int, *, endpoint: str) -> None:
        """Add a commit with an idempotency key."""
        report = NodeProgressReported(node_id="t", attempt=1)
        command = CommandRecord(
            "ReportNodeProgress",
            ANN,
            endpoint=endpoint,
            idempotency_key=f"key-{number}",
            request_hash="0" * 64,
        )
        answer = {"status": 202, "body": {"number": number}}
        self.add(self.record([report], command=command, answer=answer))

    async def flush(self) -> None:
        """Store the added commits."""
        execution_id = self.logged.execution_id
        subject = NAMES.execution(execution_id)
        for body in self._bodies:
            await self._broker.client.publish(subject, body)
        last = hash_of_commit(self._bodies[-1])
        self._bodies.clear()

        async def stored() -> str | None:
            found = await self._log.last(execution_id)
            return None if found is None else hash_of_commit(found.body)

        await eventually(stored, last)

    async def store(self, body: bytes) -> int:
        """Store any bytes as the next message of the execution; return its stream sequence."""
        subject = NAMES.execution(self.logged.execution_id)
        return int((await self._broker.client.jetstream().publish(subject, body)).seq)
