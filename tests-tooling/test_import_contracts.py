"""Each import contract holds for the tree as it is, and breaks when an arrow points back."""

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Violation:
    """An import that must not be: the contract it breaks, the module it stands in."""

    contract: str
    module: str
    statement: str


VIOLATIONS = [
    Violation("siblings", "pyoco_gateway.planted", "import pyoco_worker"),
    Violation("siblings", "pyoco_gateway.planted", "import pyoco_client"),
    Violation("siblings", "pyoco_worker.planted", "import pyoco_gateway"),
    Violation("siblings", "pyoco_worker.planted", "import pyoco_client"),
    Violation("siblings", "pyoco_client.planted", "import pyoco_gateway"),
    Violation("siblings", "pyoco_client.planted", "import pyoco_worker"),
    Violation("protocol-below", "pyoco_protocol.planted", "import pyoco_gateway"),
    Violation("protocol-below", "pyoco_protocol.planted", "import pyoco_worker"),
    Violation("protocol-below", "pyoco_protocol.planted", "import pyoco_client"),
    Violation("client-http-only", "pyoco_client.planted", "from nats.aio.client import Client"),
    Violation("client-http-only", "pyoco_client.planted", "import pyoco_protocol.jetstream"),
    Violation("nats-in-adapters", "pyoco_protocol.planted", "import nats"),
    Violation("nats-in-adapters", "pyoco_gateway.planted", "import nats"),
    Violation("nats-in-adapters", "pyoco_worker.planted", "import nats"),
    Violation("nats-in-adapters", "pyoco_client.planted", "import nats"),
    Violation("jetstream-extra", "pyoco_protocol.planted", "import pyoco_protocol.jetstream"),
    Violation(
        "engine-in-one-place", "pyoco_worker.planted", "from pyoco.core.engine import Engine"
    ),
    Violation("engine-in-one-place", "pyoco_worker.child.planted", "import pyoco"),
    Violation("engine-in-one-place", "pyoco_gateway.planted", "import pyoco"),
    Violation("engine-in-one-place", "pyoco_protocol.planted", "import pyoco"),
    Violation("engine-in-one-place", "pyoco_client.planted", "import pyoco"),
    Violation("worker-layers", "pyoco_worker.worker", "import pyoco_worker.cli"),
    Violation("worker-layers", "pyoco_worker.claim.planted", "import pyoco_worker.intake.source"),
    Violation("worker-layers", "pyoco_worker.run.planted", "import pyoco_worker.claim.apply"),
    Violation("worker-layers", "pyoco_worker.child.planted", "import pyoco_worker.children.pool"),
    Violation("worker-layers", "pyoco_worker.output.planted", "import pyoco_worker.children.pool"),
    # A new module must be put into a layer.
    Violation("worker-layers", "pyoco_worker.planted", "import os"),
]

ALLOWED = [
    ("pyoco_worker.child.engine", "import pyoco"),
    ("pyoco_gateway.workflows.graph_check", "import pyoco"),
    ("pyoco_protocol.jetstream.planted", "import nats"),
    ("pyoco_gateway.planted", "import pyoco_protocol.jetstream"),
    ("pyoco_worker.run.planted", "import pyoco_protocol.jetstream"),
]


def contract_names() -> dict[str, str]:
    """Return the sentence of each contract by its id."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in contracts}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a copy of the packages' sources, with the settings of the repository."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for source in sorted(ROOT.glob("packages/*/src")):
        shutil.copytree(
            source,
            tmp_path / source.relative_to(ROOT),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return tmp_path


def plant(tree: Path, module: str, statement: str) -> None:
    """Add `statement` to a module of the copy, making the module where it is not there."""
    package, *inner = module.split(".")
    folder = tree / "packages" / package.replace("_", "-") / "src" / package
    for name in inner[:-1]:
        folder /= name
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    with (folder / f"{inner[-1]}.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{statement}\n")


def lint(tree: Path) -> tuple[int, str]:
    """Return the exit code and the output of import-linter over the copy."""
    sources = os.pathsep.join(str(source) for source in sorted(tree.glob("packages/*/src")))
    ended = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": sources, "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def broken(output: str) -> set[str]:
    """Return the ids of the contracts that import-linter calls broken."""
    return {
        id_
        for id_, name in contract_names().items()
        if any(line.startswith(name) and "BROKEN" in line for line in output.splitlines())
    }


def test_the_tree_keeps_every_contract(tree: Path) -> None:
    code, output = lint(tree)
    assert code == 0, output
    assert f"Contracts: {len(contract_names())} kept, 0 broken." in output


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda v: f"{v.module}: {v.statement}")
def test_a_planted_import_breaks_its_contract(tree: Path, violation: Violation) -> None:
    plant(tree, violation.module, violation.statement)
    code, output = lint(tree)
    assert code == 1, output
    assert violation.contract in broken(output), output
    assert violation.module in output


def test_what_is_allowed_stays_allowed(tree: Path) -> None:
    for module, statement in ALLOWED:
        plant(tree, module, statement)
    code, output = lint(tree)
    assert code == 0, output


def test_every_contract_has_a_violation_that_proves_it() -> None:
    assert {violation.contract for violation in VIOLATIONS} == set(contract_names())
