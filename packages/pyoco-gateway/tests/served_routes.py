"""All routes that a gateway serves, read from the application itself."""

from collections.abc import Iterator
from typing import Any, Final

from starlette.routing import Route

from pyoco_gateway.http.direct_route import DirectRoute

EXAMPLES: Final = {
    "{run_id}": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "{worker_id}": "worker-1",
    "{seq}": "1",
}


def served_routes(app: Any) -> set[tuple[str, str]]:
    """Return each method and path that something answers, as the routes have them."""
    found = {(method, route.path) for route in plain_routes(app) for method in route.methods or ()}
    while not hasattr(app, "routes"):
        if isinstance(app, DirectRoute):
            found.add((app._method, app.path))
        app = app._app
    return found


def plain_routes(app: Any) -> list[Route]:
    """Return the routes of the framework, in the order in which they are tried."""
    while not hasattr(app, "routes"):
        app = app._app
    return list(_below(app.routes))


def example_of(path: str) -> str:
    """Return a path that the route answers."""
    for name, value in EXAMPLES.items():
        path = path.replace(name, value)
    return path


def _below(routes: Any) -> Iterator[Route]:
    for route in routes:
        # Newer frameworks keep an included router as it is, older ones its routes.
        if (router := getattr(route, "original_router", None)) is not None:
            yield from _below(router.routes)
        else:
            assert isinstance(route, Route), route
            yield route
