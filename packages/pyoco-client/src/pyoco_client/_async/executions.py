"""Lists of executions, and new ones."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Unpack

from pyoco_client import execution_calls
from pyoco_client._async.execution_handle import AsyncExecutionHandle
from pyoco_client._async.pages import all_items
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.execution_calls import ExecutionFilters
from pyoco_client.execution_models import (
    CommandAnswer,
    Execution,
    ExecutionItem,
    ExecutionPage,
)

_PAGE: Final = 200


class AsyncExecutions:
    """All executions that the caller may see."""

    def __init__(self, transport: AsyncTransport, patience: float) -> None:
        self._transport = transport
        self._patience = patience

    async def create(
        self,
        graph_id: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
        *,
        graph_version: int | None = None,
        labels: Sequence[str] | None = None,
        start: bool = True,
        idempotency_key: str | None = None,
    ) -> AsyncExecutionHandle:
        """Return the handle of a new execution of a graph, started unless `start` is False.

        The creation is repeated after failures and still makes one execution. A second call makes
        another one, unless it has the same `idempotency_key`.
        """
        call = execution_calls.creation(
            graph_id,
            graph_version=graph_version,
            input=input,
            labels=labels,
            start=start,
            idempotency_key=idempotency_key,
        )
        answer = await self._transport.ask(call)
        accepted = answer.read_as(CommandAnswer)
        return AsyncExecutionHandle(
            self._transport,
            accepted.execution_id,
            patience=self._patience,
            accepted=accepted,
            is_replay=answer.headers.get("idempotency-replayed") == "true",
        )

    def handle(self, execution_id: str) -> AsyncExecutionHandle:
        """Return the handle of an existing execution; no request is sent."""
        return AsyncExecutionHandle(self._transport, execution_id, patience=self._patience)

    async def get(
        self,
        execution_id: str,
        *,
        at_seq: int | None = None,
        min_seq: int | None = None,
        wait_sec: int | None = None,
        include_values: bool = False,
    ) -> Execution:
        """Return the state of an execution; see the handle's `get`."""
        return await self.handle(execution_id).get(
            at_seq=at_seq, min_seq=min_seq, wait_sec=wait_sec, include_values=include_values
        )

    async def list(
        self, *, limit: int | None = None, **filters: Unpack[ExecutionFilters]
    ) -> list[ExecutionItem]:
        """Return the latest changed executions: 50 of them, or `limit` (up to 200).

        Filters: `status`, `graph_id`, `graph_version`, `label`, `cancel_requested`, `archived`,
        `created_after` and `created_before`.
        """
        page = await self.page(limit=limit, **filters)
        return [*page.items]

    def iter(
        self, *, order: str = "created", **filters: Unpack[ExecutionFilters]
    ) -> AsyncGenerator[ExecutionItem]:
        """Yield all executions, the latest one first; pages are fetched as needed.

        It takes the filters of `list`.
        """
        return all_items(
            self._transport,
            ExecutionPage,
            lambda cursor: execution_calls.executions(
                filters, order=order, cursor=cursor, limit=_PAGE
            ),
        )

    async def page(
        self,
        *,
        order: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        **filters: Unpack[ExecutionFilters],
    ) -> ExecutionPage:
        """Return one page: by the latest change, or with `order="created"` by the creation.

        `cursor` is the `next_cursor` of the previous page; pass the same filters with it. It takes
        the filters of `list`.
        """
        call = execution_calls.executions(filters, order=order, cursor=cursor, limit=limit)
        return (await self._transport.ask(call)).read_as(ExecutionPage)
