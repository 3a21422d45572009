"""A route without the framework around it, for the one that everybody waits for."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem, named
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import PyocoError


class DirectRoute:
    """Hands one method of one path straight to its endpoint; all else goes on to the framework.

    Its matching, exit stacks and middleware take as long again as a submission itself. The
    endpoint is a route of the framework too, and answers the same there: that is where the API
    description finds it.
    """

    def __init__(
        self,
        app: ASGIApp,
        method: str,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._method = method
        self.path = path
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request if it is for this route, else pass it on."""
        if scope["type"] != "http" or scope["path"] != self.path or scope["method"] != self._method:
            await self._app(scope, receive, send)
            return
        # As the framework would: whoever measures tells routes apart by this.
        scope["route"] = self
        try:
            response = await self._endpoint(Request(scope, receive))
        except (PyocoError, RefusedError) as error:
            await answer_problem(named(error), scope, receive, send)
        else:
            await response(scope, receive, send)
