"""Workers, queues and dead letters."""

from collections.abc import Generator
from typing import Final, Unpack

from pyoco_client import calls
from pyoco_client._sync.pages import all_items
from pyoco_client._sync.transport import Transport
from pyoco_client.calls import DeadLetterFilters
from pyoco_client.error_mapping import not_found_here
from pyoco_client.models import (
    DeadLetter,
    DeadLetterItem,
    DeadLetterPage,
    Queue,
    Redriven,
    RedriveReport,
    Worker,
    WorkerPatched,
)

_MOST_WORKERS: Final = 500
_PAGE: Final = 200


class Workers:
    """The workers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        scope: str | None = None,
        state: str | None = None,
        include_hidden: bool | None = None,
        limit: int | None = None,
    ) -> list[Worker]:
        """Return the workers that take runs; with `scope="all"` also stopped and lost ones.

        With a `state` the scope is `all` unless it is given.
        """
        call = calls.workers(scope, state, include_hidden, limit)
        return (self._transport.ask(call)).read_as_list_of(Worker)

    def get(self, worker_id: str) -> Worker:
        """Return one worker, also a hidden, stopped or lost one; raise WorkerNotFoundError."""
        found = self.list(scope="all", include_hidden=True, limit=_MOST_WORKERS)
        for worker in found:
            if worker.worker_id == worker_id:
                return worker
        raise not_found_here(
            "ERR-PYOCO-0020", f"worker {worker_id} not found", self._transport.lang
        )

    def hide(self, worker_id: str) -> WorkerPatched:
        """Hide a worker from lists; it continues to take runs."""
        call = calls.worker_patch(worker_id, hidden=True)
        return (self._transport.ask(call)).read_as(WorkerPatched)

    def show(self, worker_id: str) -> WorkerPatched:
        """Show a worker in lists again."""
        call = calls.worker_patch(worker_id, hidden=False)
        return (self._transport.ask(call)).read_as(WorkerPatched)


class Queues:
    """The queues."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Queue]:
        """Return each tag that has a job, a consumer or a live worker."""
        return (self._transport.ask(calls.queues())).read_as_list_of(Queue)


class DeadLetters:
    """The dead letters: jobs that could not be run."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, limit: int | None = None, **filters: Unpack[DeadLetterFilters]
    ) -> list[DeadLetterItem]:
        """Return the newest dead letters, 50 of them or `limit` (up to 200).

        Filters: `reason`, `tag` and `run_id`.
        """
        page = self.page(limit=limit, **filters)
        return [*page.items]

    def page(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **filters: Unpack[DeadLetterFilters],
    ) -> DeadLetterPage:
        """Return one page of dead letters, the newest first; it takes the filters of `list`."""
        call = calls.dead_letters(filters, limit, cursor)
        return (self._transport.ask(call)).read_as(DeadLetterPage)

    def iter(
        self, *, reason: str | None = None, tag: str | None = None, run_id: str | None = None
    ) -> Generator[DeadLetterItem]:
        """Yield all dead letters, the newest first; pages are fetched as needed."""
        filters: DeadLetterFilters = {"reason": reason, "tag": tag, "run_id": run_id}
        return all_items(
            self._transport,
            DeadLetterPage,
            lambda cursor: calls.dead_letters(filters, _PAGE, cursor),
        )

    def show(self, seq: int) -> DeadLetter:
        """Return one dead letter with all its fields."""
        return (self._transport.ask(calls.dead_letter(seq))).read_as(DeadLetter)

    def redrive(self, seq: int) -> Redriven:
        """Run a dead letter again; return the id of the new run."""
        return (self._transport.ask(calls.redrive(seq))).read_as(Redriven)

    def redrive_all(
        self,
        *,
        reason: str | None = None,
        tag: str | None = None,
        run_id: str | None = None,
        every: bool = False,
        limit: int | None = None,
        rate_per_sec: float | None = None,
        dry_run: bool = False,
    ) -> RedriveReport:
        """Run all matching dead letters again; without a filter pass `every`.

        One call redrives at most `limit` letters, the oldest first. `remaining` in the report says
        whether more letters match.
        """
        body = {
            "reason": reason,
            "tag": tag,
            "run_id": run_id,
            "all": every or None,
            "max": limit,
            "rate_per_sec": rate_per_sec,
            "dry_run": dry_run or None,
        }
        return (self._transport.ask(calls.redrive_all(body))).read_as(RedriveReport)

    def discard(self, seq: int) -> None:
        """Delete a dead letter; its run does not change."""
        self._transport.ask(calls.discard(seq))
