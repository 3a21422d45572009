"""Lists executions from the index."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.list_query import ListQuery
from pyoco_gateway.executions.index.pages import Walk, page_of, walk_in
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index.list_reader import ListReader
from pyoco_gateway.index.signed_cursors import CursorError, SignedCursors
from pyoco_protocol.problems import InvalidRequestError

ExecutionReader = ListReader[CommitChange, ExecutionTables]


@dataclass(frozen=True, slots=True)
class ExecutionList:
    """Executions in order, each as JSON, and the cursor of the next page."""

    items: Sequence[str]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ListExecutions:
    """Lists the executions of a tenant; refuses while the index is incomplete."""

    reader: ExecutionReader
    stream: str

    async def __call__(self, query: ListQuery) -> ExecutionList:
        """Return the executions that match; raise InvalidRequestError for an unusable cursor."""
        created = await self.reader.wait_until_ready()
        cursors = SignedCursors(self.stream, created, query.filters.tenant_id)
        try:
            walk = _walk(query, cursors)
            if walk is not None:
                await self.reader.wait_for(walk.seen)
        except CursorError as error:
            raise InvalidRequestError([("cursor", str(error))]) from error
        page = await self.reader.query(lambda tables: page_of(tables, query, walk))
        next_cursor = None
        if page.rest is not None:
            next_cursor = cursors.write(page.rest.values(), query.filters.fingerprint)
        return ExecutionList([each.item for each in page.executions], next_cursor)


def _walk(query: ListQuery, cursors: SignedCursors) -> Walk | None:
    if query.cursor is None:
        return None
    walk = walk_in(cursors.read(query.cursor, query.filters.fingerprint))
    if query.order not in (None, walk.order):
        raise CursorError("belongs to a list with another order")
    return walk
