"""Lists that the gateway answers in pages."""

from collections.abc import Generator

from pyoco_client._sync.transport import Transport
from pyoco_client.http_call import CallAt
from pyoco_client.models import Item, Page


def all_items(transport: Transport, model: type[Page[Item]], call_at: CallAt) -> Generator[Item]:
    """Yield the items of all pages; pages are fetched as needed."""
    cursor: str | None = None
    while True:
        page = (transport.ask(call_at(cursor))).read_as(model)
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
