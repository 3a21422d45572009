"""A worker inside another program, which asks it for one run at a time."""

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, Self

import anyio

from pyoco_protocol.ids import MAX_WORKER_ID_CHARS, WORKER_ID_PATTERN, is_tag
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import InvalidJobError
from pyoco_protocol.runs.job import RunJob
from pyoco_worker.backend_config import NatsBackendConfig
from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.children.child_process import ChildExitedError, ChildUnusableError
from pyoco_worker.config import Flags, WorkerConfig, worker_config
from pyoco_worker.delivery import Delivery
from pyoco_worker.intake.dispatcher import Dispatcher
from pyoco_worker.run.active_runs import ActiveRuns
from pyoco_worker.worker import Worker

_CONNECT_SEC: Final = 10.0
_MIN_POLL_SEC: Final = 0.1
_GIVE_BACK_SEC: Final = 5.0


class PyocoNatsWorker:
    """A connected worker. It takes a job only during `run_once`; call `close` at the end.

    Runs are executed in a child process, as by the command `pyoco-worker`.
    """

    def __init__(self, worker: "_OnDemandWorker", running: asyncio.Task[None]) -> None:
        self._worker = worker
        self._running = running
        self._turn = anyio.Lock()

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        flow_resolver: FlowResolver | None = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
    ) -> Self:
        """Return a worker that is connected and registered.

        `config` is read from the environment if it is missing. `flow_resolver` returns a flow by
        name or raises KeyError; without one, flows come from the installed `pyoco.flows` entry
        points. A resolver that cannot be imported by name, such as a closure, runs in a forked
        child process, which shares the memory of this program.

        Raises ValueError for an invalid tag, worker id or resolver, BrokerUnavailableError if NATS
        cannot be reached, and SettingsError for an invalid setting.
        """
        tags = tuple(tags or ())
        if invalid := [tag for tag in tags if not is_tag(tag)]:
            raise ValueError(f"{invalid[0]!r} is not a tag: use letters, digits, '_' and '-' only")
        if len(worker_id) > MAX_WORKER_ID_CHARS or not re.fullmatch(WORKER_ID_PATTERN, worker_id):
            raise ValueError(f"{worker_id!r} is not a worker id")
        named = None if flow_resolver is None else importable_name(flow_resolver)
        flags = Flags(tags=tags, worker_id=worker_id, resolver=named, concurrency=1)
        settings = worker_config(flags, (config or NatsBackendConfig.from_env()).environment())
        worker = _OnDemandWorker(
            replace(settings, import_paths=_import_paths()), None if named else flow_resolver
        )
        running = asyncio.create_task(worker.serve())  # noqa: TID251 - `close` waits for it
        try:
            await worker.until_ready()
        except (ChildUnusableError, ChildExitedError) as error:
            raise ValueError(f"flow_resolver: {error}") from error
        except asyncio.CancelledError:
            worker.abandon()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((running,))
            raise
        return cls(worker, running)

    async def run_once(self, timeout: float = 1.0) -> str | None:
        """Return the id of the run that was executed, or None if no job came within `timeout`.

        `timeout` is in seconds and limits the wait for a job, not its run. An invalid job becomes a
        dead letter and gives None, and so does a poll while NATS cannot be reached. If the call is
        cancelled, the run returns to the queue.
        """
        async with self._turn:
            self._worker.require_running()
            return await self._worker.take_one(max(timeout, _MIN_POLL_SEC))

    async def close(self) -> None:
        """Finish the run in progress, then disconnect; can be repeated."""
        self._worker.stop()
        await asyncio.wait((self._running,))


class _OnDemandWorker(Worker):
    """A worker that takes a job only when it is asked to."""

    def __init__(self, config: WorkerConfig, resolve: FlowResolver | None) -> None:
        super().__init__(config, resolve)
        self._ready = anyio.Event()
        self._failure: BaseException | None = None
        # Set when a job was taken, or when the worker stops.
        self._woken = anyio.Event()
        self._intake: tuple[Broker, Dispatcher, ActiveRuns] | None = None
        self._scope = anyio.CancelScope()

    def abandon(self) -> None:
        """Stop at once, wherever `serve` is.

        Cancelling its task instead would interrupt the start of a child process, and lose it.
        """
        self._scope.cancel()

    def stop(self) -> None:
        """Take no more jobs, finish the active run, then return from `run`; can be repeated."""
        super().stop()
        self._woken.set()

    async def serve(self) -> None:
        """Be connected until stopped. Never raises: the other methods raise the failure."""
        try:
            with self._scope:
                await self.run()
        except Exception as error:  # noqa: BLE001 - raised by `until_ready` and `require_running`
            self._failure = error
        finally:
            self._intake = None
            self._ready.set()

    async def until_ready(self) -> None:
        """Return when the worker is connected and registered; raise if it cannot be."""
        await self._ready.wait()
        self.require_running()

    def require_running(self) -> None:
        """Raise if the worker has failed or was closed."""
        if self._failure is not None:
            raise self._failure
        if self._intake is None or self._stop.is_set():
            raise RuntimeError("the worker is closed")

    async def take_one(self, wait_sec: float) -> str | None:
        """Return the run id of one job after it is settled; None if none came in time."""
        assert self._intake is not None  # noqa: S101 - it is ready
        broker, dispatcher, active = self._intake
        taken: list[Delivery] = []

        def take(delivery: Delivery) -> bool:
            if not dispatcher.take(delivery):
                return False
            taken.append(delivery)
            self._woken.set()
            return True

        self._woken = anyio.Event()
        dispatcher.allowance = 1
        try:
            async with self._pulling(broker, dispatcher, take, wait_sec):
                if not self._stop.is_set():
                    with anyio.move_on_after(wait_sec):
                        await self._woken.wait()
                dispatcher.allowance = 0
            await dispatcher.until_idle()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GIVE_BACK_SEC):
                active.give_back_all()
                await dispatcher.until_idle()
            active.keep_new_ones()
            raise
        finally:
            dispatcher.allowance = 0
        return _run_id_of(taken[0]) if taken else None

    async def _take_jobs(self, broker: Broker, dispatcher: Dispatcher, active: ActiveRuns) -> None:
        dispatcher.allowance = 0
        self._intake = broker, dispatcher, active
        self._ready.set()
        await self._stop.wait()

    async def _until_up_or_stopped(self, broker: Broker) -> None:
        with anyio.move_on_after(_CONNECT_SEC):
            await super()._until_up_or_stopped(broker)
            return
        broker.require_up()


def importable_name(resolver: FlowResolver) -> str | None:
    """Return `module:function` if a new process can import the resolver by it."""
    module = getattr(resolver, "__module__", None)
    name = getattr(resolver, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    if getattr(sys.modules.get(module), name, None) is not resolver:
        return None
    found = PathFinder.find_spec(module.partition(".")[0])
    return None if found is None else f"{module}:{name}"


def _import_paths() -> tuple[str, ...]:
    """Return where this program finds modules, for its children."""
    return tuple(str(Path(path).absolute()) for path in sys.path)


def _run_id_of(delivery: Delivery) -> str | None:
    try:
        return RunJob.from_bytes(delivery.data).run_id
    except InvalidJobError:
        return None
