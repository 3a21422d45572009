"""Which functions a workflow file may have called on this worker."""

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
# What installs or is the program itself belongs to Python like its standard library.
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
    """A distribution, and the extras of it that are needed."""

    name: str
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CallablePolicy:
    """`allowed` are modules, each with all below it; None allows what is not Python's or ours."""

    allowed: tuple[str, ...] | None

    def refusal(self, module: str) -> str | None:
        """Return why functions of a module may not be called; None where they may."""
        if self.allowed is not None:
            if any(_is_within(module, name) for name in self.allowed):
                return None
            return (
                f"the module {module} is not in PYOCO_CALLABLE_ALLOW; "
                f"an operator can add it: PYOCO_CALLABLE_ALLOW={','.join((*self.allowed, module))}"
            )
        top = module.partition(".")[0]
        if _is_pythons_own(top):
            whose = "of Python itself"
        elif top in worker_modules():
            whose = "what the worker itself is made of"
        else:
            return None
        return (
            f"the module {module} is {whose}; call a function of your own, "
            f"or have an operator allow it: PYOCO_CALLABLE_ALLOW={module}"
        )


def home_of(function: object) -> str:
    """Return the module that a function comes from, which need not be where it was found.

    `from os import system` makes a module of anybody's a door to everything.
    """
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module)


def _is_within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


@functools.cache
def _is_pythons_own(top: str) -> bool:
    if top in sys.stdlib_module_names or top in _INTERPRETER:
        return True
    try:
        # Of a top-level name this runs nothing of the module's.
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None or spec.origin is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    # The names above leave out some that come with Python, its own tests among them.
    library = Path(sysconfig.get_path("stdlib")).resolve()
    origin = Path(spec.origin).resolve()
    inside = origin.is_relative_to(library)
    return inside and not {"site-packages", "dist-packages"} & set(origin.parts)


@functools.cache
def worker_modules() -> frozenset[str]:
    """Return the top-level modules of the worker and of all that it needs."""
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
            # For another platform.
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
    """Yield what a distribution needs with the extras that were asked for, and no others."""
    for requirement in requirements:
        what, _, marker = requirement.partition(";")
        only_for = _EXTRA.findall(marker)
        named = _REQUIREMENT.match(what)
        if named is None or (only_for and not extras.intersection(only_for)):
            continue
        wanted = frozenset(extra.strip() for extra in (named["extras"] or "").split(","))
        yield _Needed(named["name"], wanted - {""})
