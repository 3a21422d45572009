"""Lists: what is wrong with a query is told under the id that all lists share."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from pyoco_gateway.error_responses import invalid_request
from pyoco_protocol.problems import ListQueryError


class ListRoute(APIRoute):
    """A route whose query, where it cannot be understood, is answered with ListQueryError."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with its failures named."""
        handle = super().get_route_handler()

        async def handle_list(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                # `query.limit` is called `limit` by whoever sent it.
                faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
                raise ListQueryError(invalid_request(faults, root="query").faults) from None

        return handle_list
