"""Lists: what is wrong with a query is told under the id that all lists share."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from pyoco_gateway.error_responses import invalid_request
from pyoco_protocol.problems import ListQueryError

# What was sent is quoted, and not at any length.
_MAX_NAME_CHARS: Final = 40


class ListRoute(APIRoute):
    """A route whose query, where it cannot be understood, is answered with ListQueryError.

    So is a parameter that is not known: a filter with a typing error would let everything in.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with its failures named."""
        handle = super().get_route_handler()
        known = sorted(parameter.alias for parameter in self.dependant.query_params)

        async def handle_list(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    what = f"is not a parameter; there are {', '.join(known)}"
                    raise ListQueryError([(name[:_MAX_NAME_CHARS], what)])
            try:
                return await handle(request)
            except RequestValidationError as error:
                # `query.limit` is called `limit` by whoever sent it.
                faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
                raise ListQueryError(invalid_request(faults, root="query").faults) from None

        return handle_list
