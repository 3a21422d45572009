"""Decides which functions a workflow file may call on this worker."""

import functools
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

_OWN_DISTRIBUTION: Final = "pyoco-worker"
# Modules that are treated like the standard library: the running program, and installers.
_INTERPRETER: Final = frozenset(
    {
        "__main__",
        "builtins",
        "pip",
        "setuptools",
        "_distutils_hack",
        "pkg_resources",
        "wheel",
        "sitecustomize",
        "test",
    }
)
_REQUIREMENT: Final = re.compile(r"\s*(?P<name>[A-Za-z0-9._-]+)\s*(\[(?P<extras>[^]]*)\])?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)""")


class _Needed(NamedTuple):
    """A required distribution and its required extras."""

    name: str
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CallablePolicy:
    """Allows functions of the modules in `allowed` and of their submodules.

    None allows all modules except the standard library and the worker's own dependencies.
    """

    allowed: tuple[str, ...] | None

    def refusal(self, module: str) -> str | None:
        """Return why functions of a module may not be called; None if they may."""
        if self.allowed is not None:
            if any(_is_within(module, name) for name in self.allowed):
                return None
            return (
                f"the module {module} is not in PYOCO_CALLABLE_ALLOW; "
                f"an operator can add it: PYOCO_CALLABLE_ALLOW={','.join((*self.allowed, module))}"
            )
        top = module.partition(".")[0]
        if _belongs_to_python(top):
            owner = "part of Python itself"
        elif top in worker_modules():
            owner = "part of the worker itself"
        else:
            return None
        return (
            f"the module {module} is {owner}; call a function of another module, "
            f"or ask an operator to allow it: PYOCO_CALLABLE_ALLOW={module}"
        )


def defining_module(function: object) -> str:
    """Return the module that defines a function, which may differ from where it was found.

    After `from os import system` in an allowed module, `system` would otherwise be allowed too.
    """
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module)


def _is_within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


@functools.cache
def _belongs_to_python(top: str) -> bool:
    if top in sys.stdlib_module_names or top in _INTERPRETER:
        return True
    try:
        # For a top-level name this does not execute the module.
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None or spec.origin is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    # `stdlib_module_names` is not complete: it lacks the tests of Python, for example.
    library = Path(sysconfig.get_path("stdlib")).resolve()
    origin = Path(spec.origin).resolve()
    inside = origin.is_relative_to(library)
    return inside and not {"site-packages", "dist-packages"} & set(origin.parts)


@functools.cache
def worker_modules() -> frozenset[str]:
    """Return the top-level modules of the worker and of all its dependencies."""
    found = {"pyoco_worker", "pyoco_protocol", "pyoco"}
    seen: set[_Needed] = set()
    waiting = [_Needed(_OWN_DISTRIBUTION)]
    while waiting:
        needed = waiting.pop()
        if needed in seen:
            continue
        seen.add(needed)
        try:
            installed = distribution(needed.name)
        except PackageNotFoundError:
            # A dependency for other platforms.
            continue
        found.update(_modules_of(installed))
        waiting += _needed_by(installed.requires or (), needed.extras)
    return frozenset(found)


def _modules_of(installed: Distribution) -> set[str]:
    listed = (installed.read_text("top_level.txt") or "").split()
    found = {name for name in listed if name.isidentifier()}
    for path in installed.files or ():
        first, _, rest = str(path).partition("/")
        name = first if rest else first.partition(".")[0]
        if name.isidentifier() and (rest or first.endswith((".py", ".so", ".pyd"))):
            found.add(name)
    return found - {"__pycache__"}


def _needed_by(requirements: Iterable[str], extras: frozenset[str]) -> Iterator[_Needed]:
    """Yield the requirements of a distribution with exactly these extras."""
    for requirement in requirements:
        what, _, marker = requirement.partition(";")
        only_for = _EXTRA.findall(marker)
        named = _REQUIREMENT.match(what)
        if named is None or (only_for and not extras.intersection(only_for)):
            continue
        wanted = frozenset(extra.strip() for extra in (named["extras"] or "").split(","))
        yield _Needed(named["name"], wanted - {""})
