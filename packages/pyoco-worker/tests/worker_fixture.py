"""A queue and a run store, used as a gateway uses them, and real workers."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import psutil

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_consumer, ensure_topology
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.record_reads import RecordReads
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.output import OutputChunk
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings, ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names, work_consumer
from pyoco_protocol.topology import wanted_consumer, wanted_topology
from pyoco_testkit.builders import job, snapshot
from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess

NAMES = Names()


class WorkerFixture:
    """Submits runs as a gateway does, starts workers, and reads what they store."""

    def __init__(
        self, nats: NatsServer, directory: Path, flows: str, *, url: str | None = None
    ) -> None:
        self.nats = nats
        self._url = url or nats.url
        self.directory = directory
        self.flows = flows
        self.ledger = directory / "ledger"
        self._exits = AsyncExitStack()
        self._workers = 0

    async def __aenter__(self) -> Self:
        async def prepare(broker: Broker) -> None:
            await ensure_topology(broker.client, wanted_topology(TopologySettings()))

        settings = BrokerSettings(nats_url=self._url)
        self.broker = await self._exits.enter_async_context(
            open_broker(settings, name="fixture", prepare=prepare)
        )
        await self.broker.wait_until_up()
        self.store = RunStore(self.broker, NAMES, retention_sec=0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    # --- writes of a gateway

    async def admit(self, flow_name: str, **fields: Any) -> RunSnapshot:
        """Store a run without a job: PENDING, or as `fields` say."""
        return (await put_record(self.broker, snapshot(flow_name=flow_name, **fields))).snapshot

    async def queue(
        self, wanted: RunJob | bytes, *, headers: Mapping[str, str] | None = None
    ) -> int:
        """Publish a job, or any bytes, and return the stream sequence."""
        body = wanted if isinstance(wanted, bytes) else wanted.to_bytes()
        subject = NAMES.work("default" if isinstance(wanted, bytes) else wanted.tag)
        answer = await ask(self.broker.client, subject, body, headers=headers)
        return int(answer["seq"])

    async def submit(self, flow_name: str, tag: str = "default", **params: Any) -> str:
        """Store a run, publish its job, and return its id."""
        run = await self.admit(flow_name, params=params, tag=tag)
        await self.queue(job(run_id=run.run_id, flow_name=flow_name, params=params, tag=tag))
        return run.run_id

    async def submit_noted(self, flow_name: str, **params: Any) -> str:
        """Submit a flow whose first task adds a line to the ledger."""
        return await self.submit(flow_name, ledger=str(self.ledger), **params)

    async def consumer(self, **settings: float) -> None:
        """Create the queue's consumer as a worker with these settings would."""
        spec = wanted_consumer("default", NAMES, ConsumerSettings.model_validate(settings))
        await ensure_consumer(self.broker.client, spec)

    async def put_raw(self, run_id: str, record: bytes) -> None:
        """Store any bytes as the record of a run."""
        await ask(self.broker.client, NAMES.run(run_id), record)

    @asynccontextmanager
    async def answering_reads(self) -> AsyncGenerator[None]:
        """Read records for workers without the permission, as a gateway does."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(RecordReads(self.broker, NAMES).run)
            yield
            tasks.cancel_scope.cancel()

    # --- reads

    async def read(self, run_id: str) -> StoredRun:
        """Return the stored run."""
        found = await self.store.read(run_id)
        assert found is not None, f"run {run_id} does not exist"
        return found

    async def status(self, run_id: str) -> str:
        """Return the stored status of the run."""
        return (await self.read(run_id)).snapshot.status.value

    async def ended(self, run_id: str, timeout: float = 20.0) -> RunSnapshot:
        """Return the run when its status is terminal."""

        def is_terminal(found: StoredRun) -> bool:
            return found.snapshot.status.is_terminal

        return (await eventually(lambda: self.read(run_id), is_terminal, timeout)).snapshot

    async def jobs_left(self) -> int:
        """Return how many jobs the queue holds."""
        answer = await ask(self.broker.client, f"$JS.API.STREAM.INFO.{NAMES.work_stream}")
        return int(answer["state"]["messages"])

    async def settled(self, timeout: float = 20.0) -> None:
        """Return when the queue is empty."""
        await eventually(self.jobs_left, 0, timeout)

    async def deliveries(self, tag: str = "default") -> int:
        """Return how many deliveries the queue has made."""
        subject = f"$JS.API.CONSUMER.INFO.{NAMES.work_stream}.{work_consumer(tag)}"
        answer = await ask(self.broker.client, subject)
        return int(answer["delivered"]["consumer_seq"])

    async def dead_letters(self) -> list[DeadLetter]:
        """Return all dead letters, the oldest first."""
        letters: list[DeadLetter] = []
        sequence = 1
        while True:
            request = json.dumps({"seq": sequence, "next_by_subj": NAMES.all_dlq}).encode()
            subject = f"$JS.API.DIRECT.GET.{NAMES.dlq_stream}"
            reply = await self.broker.client.request(subject, request, timeout=5)
            headers = reply.headers or {}
            if "Nats-Sequence" not in headers:
                return letters
            letters.append(DeadLetter.model_validate_json(reply.data))
            sequence = int(headers["Nats-Sequence"]) + 1

    async def output_chunks(self, run_id: str) -> list[OutputChunk]:
        """Return the stored output chunks of the run."""
        store, found, seq = OutputStore(self.broker, NAMES), list[OutputChunk](), 0
        while (stored := await store.next(run_id, seq)) is not None:
            assert stored.chunk is not None
            found.append(stored.chunk)
            seq = stored.stream_seq + 1
        return found

    async def printed(self, run_id: str) -> list[str]:
        """Return the lines that the run has printed."""
        chunks = await self.output_chunks(run_id)
        return [entry.text for chunk in chunks for entry in chunk.entries]

    def executions(self, run_id: str) -> list[int]:
        """Return the attempts that the flow has written to the ledger."""
        if not self.ledger.exists():
            return []
        lines = [line.split() for line in self.ledger.read_text(encoding="utf-8").splitlines()]
        return [int(attempt) for noted, attempt in lines if noted == run_id]

    # --- workers

    def worker_process(
        self,
        *arguments: str,
        flows: str | None = None,
        concurrency: int = 1,
        env: Mapping[str, str] | None = None,
        nats_url: str | None = None,
    ) -> ManagedProcess:
        """Return the process of a worker, not started yet."""
        self._workers += 1
        name = f"worker-{self._workers}"
        command = [
            *(str(command_path("pyoco-worker")), "--nats-url", nats_url or self._url),
            *("--worker-id", name, "--concurrency", str(concurrency)),
            *("--data-dir", str(self.directory / "data")),
            *("--flow-resolver", flows or self.flows),
            *arguments,
        ]
        return ManagedProcess(name, command, self.directory / name, env)

    @asynccontextmanager
    async def worker(
        self,
        *arguments: str,
        flows: str | None = None,
        concurrency: int = 1,
        env: Mapping[str, str] | None = None,
        nats_url: str | None = None,
    ) -> AsyncGenerator[ManagedProcess]:
        """Yield a worker that takes jobs; stop it at the end."""
        process = self.worker_process(
            *arguments, flows=flows, concurrency=concurrency, env=env, nats_url=nats_url
        )
        async with process:
            await process.wait_for_log("worker ready")
            yield process

    def wait_files(self) -> dict[str, str]:
        """Return params of a waiting flow: a file it creates, and a file it waits for."""
        self._workers += 1
        return {
            "began": str(self.directory / f"began-{self._workers}"),
            "until": str(self.directory / f"until-{self._workers}"),
        }


async def began(params: Mapping[str, str], timeout: float = 20.0) -> None:
    """Return when the flow with these params has started to wait."""
    await eventually(Path(params["began"]).exists, True, timeout)


def let_go_on(params: Mapping[str, str]) -> None:
    """Let the flow with these params continue."""
    Path(params["until"]).touch()


def names_in(directory: Path) -> set[str]:
    """Return the names in a directory."""
    return {path.name for path in directory.iterdir()}


def own_children(kind: str = "pyoco_worker") -> set[int]:
    """Return the running processes that this one has started, with `kind` in the command line."""
    found: set[int] = set()
    for child in psutil.Process().children(recursive=True):
        # A process may end during the check.
        with suppress(psutil.NoSuchProcess):
            alive = child.status() != psutil.STATUS_ZOMBIE
            if alive and kind in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def log_lines(process: ManagedProcess, message: str) -> Sequence[dict[str, Any]]:
    """Return the log records of a process with this message."""
    records = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    return [record for record in records if record.get("message") == message]
