"""Nodes that wait for a resume."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Unpack

from pyoco_client import execution_calls
from pyoco_client._async.node_handle import AsyncNodeHandle
from pyoco_client._async.pages import all_items
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.execution_calls import OpenNodeFilters
from pyoco_client.execution_models import CommandAnswer, Execution, OpenNode, OpenNodePage

_PAGE: Final = 200
_REJECTED: Final = "REJECTED"


class AsyncWaits:
    """The nodes that wait for a resume, such as those that a person has to approve."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(
        self, *, limit: int | None = None, **filters: Unpack[OpenNodeFilters]
    ) -> list[OpenNode]:
        """Return the nodes that wait the longest.

        Filters: `graph_id` and `approver`, which matches the waits that this actor may approve.
        """
        return [*(await self.page(limit=limit, **filters)).items]

    async def page(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        **filters: Unpack[OpenNodeFilters],
    ) -> OpenNodePage:
        """Return one page with the `total` of all pages; it takes the filters of `list`.

        `cursor` is the `next_cursor` of the previous page; pass the same filters with it.
        """
        call = execution_calls.waits(filters, limit=limit, cursor=cursor)
        return (await self._transport.ask(call)).read_as(OpenNodePage)

    def iter(self, **filters: Unpack[OpenNodeFilters]) -> AsyncGenerator[OpenNode]:
        """Yield all waiting nodes, the one that waits the longest first; see `list`."""
        return all_items(
            self._transport,
            OpenNodePage,
            lambda cursor: execution_calls.waits(filters, limit=_PAGE, cursor=cursor),
        )

    async def approve(
        self,
        execution_id: str,
        node_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        comment: str | None = None,
    ) -> CommandAnswer:
        """Approve a wait that needs approvals; resume any other wait.

        The key of the wait is read and sent, so that the approval is for what waits now. Raises
        ValueError for a comment on a wait without approvals, which cannot keep it.
        """
        call = execution_calls.execution(execution_id)
        execution = (await self._transport.ask(call)).read_as(Execution)
        found = execution.node(node_id)
        resume_key = None if found is None else found.wait_key
        node = AsyncNodeHandle(self._transport, execution_id, node_id)
        if found is not None and found.approvals is not None:
            return await node.request_resume(payload, comment=comment, resume_key=resume_key)
        if comment is not None:
            raise ValueError(f"node {node_id} needs no approvals, so it keeps no comment")
        return await node.resume(payload, resume_key=resume_key)

    async def reject(
        self,
        execution_id: str,
        node_id: str,
        message: str | None = None,
        *,
        code: str = _REJECTED,
        idempotency_key: str | None = None,
    ) -> CommandAnswer:
        """Reject a wait: the node fails with `code` and is not retried."""
        node = AsyncNodeHandle(self._transport, execution_id, node_id)
        return await node.fail(code, message, retryable=False, idempotency_key=idempotency_key)
