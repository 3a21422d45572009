"""The dependencies of the wheel, and the cost of its import."""

import subprocess
import sys
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MOST_PACKAGES = 20


def closure(distribution: str) -> set[str]:
    """Return the packages that `pip install` adds to an empty environment."""
    found: set[str] = set()
    waiting = [Requirement(distribution)]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        found.add(name)
        for line in requires(name) or ():
            need = Requirement(line)
            extras = wanted.extras or {""}
            applies = need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in extras
            )
            if applies and canonicalize_name(need.name) not in found:
                waiting.append(need)
    return found


def test_the_wheel_has_few_dependencies_and_none_of_the_server() -> None:
    brought = closure("pyoco-client")
    assert {"pyoco-client", "pyoco-protocol", "httpx", "pydantic"} <= brought
    assert len(brought) <= MOST_PACKAGES, sorted(brought)
    assert not brought & {"nats-py", "pyoco", "fastapi", "pyoco-gateway", "pyoco-worker"}


@pytest.mark.parametrize(
    "module",
    ["pyoco_client", "pyoco_client.configuration", "pyoco_client.errors", "pyoco_client.testing"],
)
def test_the_import_is_fast(module: str) -> None:
    heavy = "{'httpx', 'pydantic', 'anyio', 'yaml', 'pytest', 'rich'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
