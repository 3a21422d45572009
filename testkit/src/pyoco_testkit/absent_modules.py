"""Hides installed modules from a test process."""

import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AbsentModules(MetaPathFinder):
    """An import hook that makes the named top-level modules look as if they were not installed.

    The tests of all packages share one environment. This hook hides from each package the modules
    that it does not depend on.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)

    def install(self) -> None:
        """Hide the modules; raise RuntimeError if one of them was imported before."""
        if loaded := sorted(self.names & set(sys.modules)):
            raise RuntimeError(f"imported before it could be hidden: {', '.join(loaded)}")
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Make the modules importable again."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for a hidden module; leave all others to the next finder."""
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r} (hidden)", name=fullname)
        return None
