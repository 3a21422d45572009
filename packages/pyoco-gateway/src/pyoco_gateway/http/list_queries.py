"""Routes for lists: an invalid query gets the error id that all lists share."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, get_origin

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from pyoco_gateway.http.errors import invalid_request
from pyoco_protocol.problems import ListQueryError

_MAX_FAULTS: Final = 10


class ListRoute(APIRoute):
    """A route that answers an invalid query with ListQueryError.

    A parameter that takes one value and is given twice is invalid too.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which raises ListQueryError for an invalid query."""
        handle = super().get_route_handler()

        async def handle_list(request: Request) -> Response:
            self._refuse_repeated_parameters(request)
            try:
                return await handle(request)
            except RequestValidationError as error:
                # The caller knows `query.limit` as `limit`.
                faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
                raise ListQueryError(invalid_request(faults, root="query").faults) from None

        return handle_list

    def _refuse_repeated_parameters(self, request: Request) -> None:
        given = Counter(name for name, _ in request.query_params.multi_items())
        known = {field.alias: field for field in self.dependant.query_params}
        faults = [
            (name, "is given more than once")
            for name, times in given.items()
            if times > 1 and name in known and not _is_repeatable(known[name].field_info.annotation)
        ]
        if faults:
            raise ListQueryError(faults[:_MAX_FAULTS])


def _is_repeatable(annotation: Any) -> bool:
    return get_origin(annotation) is Sequence
