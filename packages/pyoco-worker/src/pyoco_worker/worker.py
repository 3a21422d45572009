"""Opens, runs and closes the parts of a worker; owns its start and its stop."""

import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.ids import new_instance_id
from pyoco_protocol.jetstream.cancel_hints import subscribe_to_cancels
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.ensure import (
    Difference,
    ExistingConsumer,
    check_broker,
    ensure_consumer,
    ensure_topology,
    find_consumer,
    report_differences,
)
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import BrokerUnavailableError, CliUsageError
from pyoco_protocol.runs.signing import JobVerifier
from pyoco_protocol.task_groups import plain_errors
from pyoco_protocol.topology import names_from, wanted_consumer, wanted_topology
from pyoco_worker.children.child_process import ChildSetup
from pyoco_worker.children.pool import ChildPool, open_pool
from pyoco_worker.claim.apply import Claimer
from pyoco_worker.claim.refuse import Refuser
from pyoco_worker.config import WorkerConfig
from pyoco_worker.identity import Identity
from pyoco_worker.intake.dispatcher import Dispatcher
from pyoco_worker.intake.source import JobSource
from pyoco_worker.registry import Registry
from pyoco_worker.run.execute import RunExecutor
from pyoco_worker.run.reporting import Reporter
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

_GIVE_BACK_SEC: Final = 5.0


class Worker:
    """One worker: pulls jobs while it has room, and executes them."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._names = names_from(config.topology)
        self._me = Identity(config.worker_id, new_instance_id())
        self._stop = anyio.Event()
        self._hurry = anyio.Event()
        self._differences_reported = False
        # Of consumers that someone else made with one; ours have none.
        self._delivery_limits: dict[str, int | None] = {}
        self._ack_waits: dict[str, float] = {}

    def stop(self) -> None:
        """Take no more jobs, finish those in hand, then return from `run`. Harmless twice."""
        self._stop.set()

    def hurry(self) -> None:
        """Give back at once what a stop would have let finish."""
        self._hurry.set()

    async def run(self) -> None:
        """Work until stopped, or until one poll is over where only one run is wanted."""
        config = self._config
        async with (
            _own_directory(config),
            open_pool(self._child_setup(), config.concurrency) as pool,
            open_broker(config.broker, name=config.worker_id, prepare=self._prepare) as broker,
        ):
            await self._until_up_or_stopped(broker)
            if not self._stop.is_set():
                await self._serve(broker, pool)

    async def _until_up_or_stopped(self, broker: Broker) -> None:
        with plain_errors():
            async with anyio.create_task_group() as waiting:

                async def give_up_when_stopped() -> None:
                    await self._stop.wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(give_up_when_stopped)
                await broker.wait_until_up()
                waiting.cancel_scope.cancel()

    async def _serve(self, broker: Broker, pool: ChildPool) -> None:
        config = self._config
        registry = Registry(broker, self._names, self._me, config)
        with plain_errors():
            async with (
                registry.entered(),
                anyio.create_task_group() as side,
                anyio.create_task_group() as jobs,
            ):
                reporter = Reporter(
                    side,
                    heartbeat_sec=config.run_heartbeat_sec,
                    # A consumer that someone else made may be less patient than ours.
                    ack_progress_sec=min(
                        config.ack_progress_sec, *(wait / 3 for wait in self._ack_waits.values())
                    ),
                )
                dispatcher = Dispatcher(
                    self._executor(broker, pool, reporter, registry, side),
                    jobs,
                    concurrency=config.concurrency,
                    only_one=config.run_once,
                    on_done=self.stop if config.run_once else lambda: None,
                )
                source = JobSource(
                    broker,
                    self._names,
                    config.tags,
                    room=dispatcher.room,
                    take=dispatcher.take,
                    restore=lambda: self._prepare(broker),
                    pull_sec=config.poll_timeout_sec,
                )
                dispatcher.on_freed = source.wake
                await subscribe_to_cancels(broker, reporter.look_at)
                side.start_soon(reporter.run)
                side.start_soon(registry.run)
                async with source.listening():
                    side.start_soon(source.run)
                    _log.info("worker ready", extra=self._introduction())
                    if config.run_once:
                        side.start_soon(self._stop_after_one_poll, dispatcher)
                    await self._stop.wait()
                await self._drain(dispatcher, reporter)
                jobs.cancel_scope.cancel()
                side.cancel_scope.cancel()

    async def _drain(self, dispatcher: Dispatcher, reporter: Reporter) -> None:
        """Let the runs in hand finish; give back what takes too long."""
        _log.info("worker stopping", extra={"in_hand": dispatcher.in_hand})
        with anyio.move_on_after(self._config.drain_timeout_sec):
            async with anyio.create_task_group() as waiting:

                async def stop_waiting_when_hurried() -> None:
                    await self._hurry.wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(stop_waiting_when_hurried)
                await dispatcher.until_idle()
                waiting.cancel_scope.cancel()
        reporter.give_back_all()
        # What is over and not stored, because the broker is away, is run again by another worker.
        with anyio.move_on_after(_GIVE_BACK_SEC):
            await dispatcher.until_idle()
        _log.info("worker stopped", extra={"not_settled": dispatcher.unsettled})

    def _executor(
        self,
        broker: Broker,
        pool: ChildPool,
        reporter: Reporter,
        registry: Registry,
        tasks: TaskGroup,
    ) -> RunExecutor:
        config = self._config
        store = RunStore(broker, self._names, retention_sec=config.retention_sec)
        settler = Settler(
            DeadLetterWriter(broker, self._names), self._me, config.letters_for_execution_errors
        )
        claimer = Claimer(
            broker,
            store,
            settler,
            self._me,
            max_attempts=config.consumer.consumer_max_deliver,
            delivery_limits=self._delivery_limits,
            leave_to_owner_sec=config.consumer.consumer_ack_wait_sec,
        )
        return RunExecutor(
            broker=broker,
            store=store,
            logs=OutputStore(broker, self._names),
            pool=pool,
            claimer=claimer,
            settler=settler,
            refuser=Refuser(broker, self._names, store, settler),
            verifier=JobVerifier(config.signing_keys),
            reporter=reporter,
            registry=registry,
            me=self._me,
            config=config,
            tasks=tasks,
        )

    async def _stop_after_one_poll(self, dispatcher: Dispatcher) -> None:
        await anyio.sleep(self._config.poll_timeout_sec)
        if not dispatcher.in_hand:
            self.stop()

    async def _prepare(self, broker: Broker) -> None:
        client = broker.client
        await check_broker(client)
        differences: list[Difference] = []
        if self._config.prepares_broker:
            differences += await ensure_topology(client, wanted_topology(self._config.topology))
        for tag in self._config.tags:
            consumer = await self._queue_of(tag, broker)
            differences += consumer.differences
            self._delivery_limits[tag] = consumer.max_deliver
            self._ack_waits[tag] = consumer.ack_wait_sec
        if not self._differences_reported:
            report_differences(differences)
            self._differences_reported = True

    async def _queue_of(self, tag: str, broker: Broker) -> ExistingConsumer:
        spec = wanted_consumer(tag, self._names, self._config.consumer)
        if self._config.prepares_broker:
            return await ensure_consumer(broker.client, spec)
        found = await find_consumer(broker.client, spec)
        if found is None:
            raise BrokerUnavailableError(
                f"the queue of tag {tag} is not there; the gateway makes it if its "
                "PYOCO_WORKER_TAGS names the tag"
            )
        return found

    def _child_setup(self) -> ChildSetup:
        config = self._config
        return ChildSetup(
            resolver=config.resolver,
            import_paths=config.import_paths,
            max_record_bytes=config.max_snapshot_bytes,
            environment=config.child_environment,
            directory=config.runs_directory,
            callable_allow=config.callable_allow,
            max_log_bytes=config.max_log_bytes,
        )

    def _introduction(self) -> dict[str, object]:
        return {
            "worker_id": self._me.worker_id,
            "tags": list(self._config.tags),
            "concurrency": self._config.concurrency,
            "pid": os.getpid(),
        }


@asynccontextmanager
async def _own_directory(config: WorkerConfig) -> AsyncIterator[None]:
    """Make the place for runs, empty of what an earlier life left; remove it at the end.

    Nothing else is touched: whoever picked the directory and the worker's name may not have
    known that something of theirs lies there.
    """

    def make() -> None:
        shutil.rmtree(config.runs_directory, ignore_errors=True)
        config.runs_directory.mkdir(parents=True)

    def remove() -> None:
        shutil.rmtree(config.runs_directory, ignore_errors=True)
        with suppress(OSError):
            config.own_directory.rmdir()

    try:
        await anyio.to_thread.run_sync(make)
    except OSError as error:
        raise CliUsageError(
            f"--data-dir: {config.data_directory} cannot be used: {error.strerror or error}",
            "pyoco-worker --data-dir /var/lib/pyoco/worker",
        ) from error
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove)
