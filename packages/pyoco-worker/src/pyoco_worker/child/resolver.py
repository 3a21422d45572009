"""Loads the resolver: the function that returns a flow by name."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

FLOWS_GROUP: Final = "pyoco.flows"

FlowResolver = Callable[[str], object]


class ResolverError(Exception):
    """The resolver cannot be loaded; the message says what was tried and how to fix it."""


def load_resolver(spec: str | None) -> FlowResolver:
    """Return the resolver that `module:function` or `path/to/file.py:function` names.

    None selects the installed `pyoco.flows` entry points.
    """
    if spec is None:
        return _from_entry_points()
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not name:
        raise ResolverError(
            f"{spec!r} is not module:function or path/to/file.py:function; "
            "for example my_flows:resolve or flows/my_flows.py:resolve"
        )
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    resolver = getattr(module, name, None)
    if resolver is None:
        raise ResolverError(f"{place} has no {name!r}")
    if not callable(resolver):
        raise ResolverError(f"{name!r} in {place} is not callable")
    function: FlowResolver = resolver
    return function


def _load_module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ResolverError(f"module {name!r} cannot be imported: {_error_text(error)}") from error


def _load_file(path: Path) -> object:
    if not path.is_file():
        raise ResolverError(f"there is no file {path}")
    # As for a script, modules in the same directory can be imported.
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ResolverError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ResolverError(f"{path} cannot be loaded: {_error_text(error)}") from error
    return module


def _from_entry_points() -> FlowResolver:
    found: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=FLOWS_GROUP)}

    def resolve(flow_name: str) -> object:
        loaded = found[flow_name].load()
        # An entry point is a flow or a function that returns one.
        return loaded() if callable(loaded) else loaded

    return resolve


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
