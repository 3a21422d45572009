"""All routes that a gateway serves, and the rules about them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.routing import Route

from pyoco_gateway.http.route_table import Requirement, RouteMatch
from pyoco_gateway.route_rules import route_rules
from pyoco_protocol.settings import SnapshotSettings

EXAMPLES: Final = {
    "{run_id}": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "{worker_id}": "worker-1",
    "{seq}": "1",
}


def requirements(*, description_is_public: bool = False) -> dict[tuple[str, str], Requirement]:
    """Return what each route requires, by method and path."""
    rules = route_rules(SnapshotSettings(), description_is_public=description_is_public)
    return {
        (method, path): required
        for path, rule in rules.items()
        for method, required in rule.methods.items()
    }


def served_routes(app: Any) -> set[tuple[str, str]]:
    """Return each method and path that the application answers."""
    found = {(method, route.path) for route in plain_routes(app) for method in route.methods or ()}
    for middleware in _middleware(app):
        if (table := getattr(middleware, "_table", None)) is not None:
            found |= {key for key, match in table._known.items() if match.endpoint is not None}
    return found


def plain_routes(app: Any) -> list[Route]:
    """Return the routes of the framework, in the order in which it tries them."""
    *_, api = _middleware(app)
    return list(_below(api.routes))


def match_in(app: Any, method: str, path: str) -> RouteMatch:
    """Return what the application decides about a request."""
    (table,) = (each._table for each in _middleware(app) if hasattr(each, "_table"))
    match: RouteMatch = table.match(method, path)
    return match


def example_of(path: str) -> str:
    """Return a path that matches the path of a route."""
    for name, value in EXAMPLES.items():
        path = path.replace(name, value)
    return path


def err_id_in(body: Mapping[str, Any]) -> str:
    """Return the error id in the body of an error, in either of its two forms."""
    err_id: str = body["error"]["details"]["errId"] if "error" in body else body["err_id"]
    return err_id


def _middleware(app: Any) -> Iterator[Any]:
    """Yield the layers of the application, the framework last."""
    yield app
    while not hasattr(app, "routes"):
        app = app._app
        yield app


def _below(routes: Any) -> Iterator[Route]:
    for route in routes:
        # Newer versions of the framework keep an included router, older ones its routes.
        if (router := getattr(route, "original_router", None)) is not None:
            yield from _below(router.routes)
        else:
            assert isinstance(route, Route), route
            yield route
