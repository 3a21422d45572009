"""Lists that the gateway answers in pages."""

from collections.abc import AsyncGenerator

from pyoco_client._async.transport import AsyncTransport
from pyoco_client.http_call import CallAt
from pyoco_client.models import Item, Page


async def all_items(
    transport: AsyncTransport, model: type[Page[Item]], call_at: CallAt
) -> AsyncGenerator[Item]:
    """Yield the items of all pages; pages are fetched as needed."""
    cursor: str | None = None
    while True:
        page = (await transport.ask(call_at(cursor))).read_as(model)
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
