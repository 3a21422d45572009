"""Opens, runs and closes the parts of a worker in order."""

import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.ids import new_instance_id
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.record_reads import run_reader
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import CliUsageError
from pyoco_protocol.runs.signing import JobVerifier
from pyoco_protocol.task_groups import plain_errors
from pyoco_protocol.topology import names_from
from pyoco_worker.child.limits import ChildLimits
from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.children.child_process import ChildSetup
from pyoco_worker.children.pool import ChildPool, open_pool
from pyoco_worker.claim.apply import Claimer
from pyoco_worker.claim.refuse import Refuser
from pyoco_worker.config import WorkerConfig
from pyoco_worker.delivery import Delivery
from pyoco_worker.identity import Identity
from pyoco_worker.intake.dispatcher import Dispatcher
from pyoco_worker.intake.handler import JobHandler
from pyoco_worker.intake.queues import WorkQueues
from pyoco_worker.intake.source import JobSource
from pyoco_worker.registration import Registration
from pyoco_worker.run.active_runs import ActiveRuns
from pyoco_worker.run.cancel import listen_for_cancels
from pyoco_worker.run.execute import RunExecutor
from pyoco_worker.run.heartbeats import HeartbeatLoop
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

_GIVE_BACK_SEC: Final = 5.0


class Worker:
    """One worker: pulls jobs while it has room, and executes them."""

    def __init__(self, config: WorkerConfig, resolve: FlowResolver | None = None) -> None:
        self._config = config
        # Replaces the resolver that the configuration names.
        self._resolve = resolve
        self._names = names_from(config.topology)
        self._me = Identity(config.worker_id, new_instance_id())
        self._queues = WorkQueues(config, self._names)
        self._stop = anyio.Event()
        self._hurry = anyio.Event()

    def stop(self) -> None:
        """Take no more jobs, finish the active runs, then return from `run`; can be repeated."""
        self._stop.set()

    def hurry(self) -> None:
        """During a stop, give active runs back at once instead of waiting for them."""
        self._hurry.set()

    async def run(self) -> None:
        """Work until stopped; with `run_once`, until one job is settled or one poll has ended."""
        config = self._config
        async with (
            _runs_directory(config),
            open_pool(self._child_setup(), config.concurrency, max_runs=config.child_runs) as pool,
            open_broker(
                config.broker, name=config.worker_id, prepare=self._queues.prepare
            ) as broker,
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
        registration = Registration(broker, self._names, self._me, config)
        active = ActiveRuns()
        with plain_errors():
            async with (
                registration.registered(),
                anyio.create_task_group() as side,
                anyio.create_task_group() as jobs,
            ):
                heartbeats = HeartbeatLoop(
                    active,
                    side,
                    heartbeat_sec=config.run_heartbeat_sec,
                    ack_progress_sec=self._queues.ack_progress_sec,
                )
                dispatcher = Dispatcher(
                    self._handler(broker, pool, active, registration, side),
                    jobs,
                    concurrency=config.concurrency,
                    allowance=1 if config.run_once else None,
                    on_done=self.stop if config.run_once else lambda: None,
                )
                await listen_for_cancels(broker, config.tags, heartbeats)
                side.start_soon(heartbeats.run)
                side.start_soon(registration.run)
                await self._take_jobs(broker, dispatcher, active)
                await self._drain(dispatcher, active)
                jobs.cancel_scope.cancel()
                side.cancel_scope.cancel()

    async def _take_jobs(self, broker: Broker, dispatcher: Dispatcher, _: ActiveRuns) -> None:
        """Take jobs until stopped."""
        config = self._config
        async with self._pulling(broker, dispatcher, dispatcher.take, config.poll_timeout_sec):
            _log.info("worker ready", extra=self._description())
            if config.run_once:
                with anyio.move_on_after(config.poll_timeout_sec):
                    await self._stop.wait()
                if not dispatcher.executing:
                    self.stop()
            await self._stop.wait()

    @asynccontextmanager
    async def _pulling(
        self,
        broker: Broker,
        dispatcher: Dispatcher,
        take: Callable[[Delivery], bool],
        pull_sec: float,
    ) -> AsyncIterator[None]:
        """Pull jobs while the block runs and the dispatcher has room."""
        source = JobSource(
            broker,
            self._names,
            self._config.tags,
            room=dispatcher.room,
            take=take,
            restore=lambda: self._queues.prepare(broker),
            pull_sec=pull_sec,
        )
        dispatcher.on_freed = source.wake
        async with source.listening(), anyio.create_task_group() as pulling:
            pulling.start_soon(source.run)
            yield
            pulling.cancel_scope.cancel()

    async def _drain(self, dispatcher: Dispatcher, active: ActiveRuns) -> None:
        """Wait for active runs to end; give back those that take too long."""
        _log.info("worker stopping", extra={"executing": dispatcher.executing})
        with anyio.move_on_after(self._config.drain_timeout_sec):
            async with anyio.create_task_group() as waiting:

                async def stop_waiting_when_hurried() -> None:
                    await self._hurry.wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(stop_waiting_when_hurried)
                await dispatcher.until_idle()
                waiting.cancel_scope.cancel()
        active.give_back_all()
        # A run whose end cannot be stored now, because the broker is down, is executed again by
        # another worker.
        with anyio.move_on_after(_GIVE_BACK_SEC):
            await dispatcher.until_idle()
        _log.info("worker stopped", extra={"not_settled": dispatcher.unsettled})

    def _handler(
        self,
        broker: Broker,
        pool: ChildPool,
        active: ActiveRuns,
        registration: Registration,
        tasks: TaskGroup,
    ) -> JobHandler:
        config = self._config
        store = RunStore(
            broker,
            self._names,
            retention_sec=config.retention_sec,
            read=(
                run_reader(broker, self._names, config.tags)
                if config.reads_through_gateway
                else None
            ),
        )
        settler = Settler(
            DeadLetterWriter(broker, self._names), self._me, config.letters_for_execution_errors
        )
        claimer = Claimer(
            broker,
            store,
            settler,
            self._me,
            max_attempts=config.consumer.consumer_max_deliver,
            delivery_limits=self._queues.delivery_limits,
            leave_to_owner_sec=config.consumer.consumer_ack_wait_sec,
        )
        executor = RunExecutor(
            broker=broker,
            store=store,
            output=OutputStore(broker, self._names),
            pool=pool,
            settler=settler,
            active=active,
            registration=registration,
            me=self._me,
            config=config,
            tasks=tasks,
        )
        return JobHandler(
            verifier=JobVerifier(config.signing_keys),
            refuser=Refuser(broker, self._names, store, settler),
            claimer=claimer,
            executor=executor,
            active=active,
        )

    def _child_setup(self) -> ChildSetup:
        config, limits = self._config, self._config.child_limits
        return ChildSetup(
            resolver=config.resolver,
            import_paths=config.import_paths,
            max_record_bytes=config.max_snapshot_bytes,
            environment=config.child_environment,
            directory=config.runs_directory,
            callable_allow=config.callable_allow,
            max_output_bytes=config.max_output_bytes,
            resolve=self._resolve,
            user=config.child_user,
            limits=ChildLimits(
                memory_bytes=limits.child_memory_bytes,
                cpu_sec=limits.child_cpu_sec,
                file_bytes=limits.child_file_bytes,
                processes=limits.child_processes,
            ),
        )

    def _description(self) -> dict[str, object]:
        return {
            "worker_id": self._me.worker_id,
            "tags": list(self._config.tags),
            "concurrency": self._config.concurrency,
            "pid": os.getpid(),
        }


@asynccontextmanager
async def _runs_directory(config: WorkerConfig) -> AsyncIterator[None]:
    """Create the empty directory for runs while the block runs; remove it afterwards.

    Removes nothing else: the user may keep other files in the data directory, even in the
    worker's own part of it.
    """

    def make() -> None:
        shutil.rmtree(config.runs_directory, ignore_errors=True)
        config.runs_directory.mkdir(parents=True)
        if config.child_user is not None:
            # Flows of another user pass through these directories to their own.
            for directory in (config.own_directory, config.runs_directory):
                directory.chmod(0o711)

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
