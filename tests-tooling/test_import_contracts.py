"""Each import contract holds for the current tree, and breaks with a forbidden import."""

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
    """A forbidden import: the contract it breaks, and the module that contains it."""

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
    Violation("gateway-layers", "pyoco_gateway.unplaced", "import anyio"),
    Violation("gateway-layers", "pyoco_gateway.app", "import pyoco_gateway.commands.up"),
    Violation("gateway-layers", "pyoco_gateway.services", "import pyoco_gateway.app"),
    Violation("gateway-layers", "pyoco_gateway.services", "import pyoco_gateway.route_rules"),
    Violation("gateway-layers", "pyoco_gateway.settings", "import pyoco_gateway.services"),
    Violation("gateway-layers", "pyoco_gateway.metrics.page", "import pyoco_gateway.services"),
    Violation("gateway-layers", "pyoco_gateway.metrics.page", "import pyoco_gateway.health.report"),
    Violation("gateway-layers", "pyoco_gateway.workflows.check", "import pyoco_gateway.metrics"),
    Violation("gateway-layers", "pyoco_gateway.runs.list", "import pyoco_gateway.workflows.check"),
    Violation("gateway-layers", "pyoco_gateway.fleet.planted", "import pyoco_gateway.runs.feed"),
    Violation("gateway-layers", "pyoco_gateway.streams.sse", "import pyoco_gateway.fleet.services"),
    Violation("gateway-layers", "pyoco_gateway.access.keys", "import pyoco_gateway.streams.sse"),
    Violation("gateway-layers", "pyoco_gateway.http.errors", "import pyoco_gateway.access.caller"),
    Violation("gateway-layers", "pyoco_gateway.http.errors", "import pyoco_gateway.broker.ports"),
    Violation("gateway-layers", "pyoco_gateway.processes.planted", "import pyoco_gateway.broker"),
    Violation(
        "gateway-run-layers",
        "pyoco_gateway.runs.watch.planted",
        "import pyoco_gateway.runs.routes",
    ),
    Violation(
        "gateway-run-layers", "pyoco_gateway.runs.logs.planted", "import pyoco_gateway.runs.reaper"
    ),
    Violation("gateway-run-layers", "pyoco_gateway.runs.feed", "import pyoco_gateway.runs.index"),
    Violation(
        "gateway-run-layers", "pyoco_gateway.runs.read", "import pyoco_gateway.runs.services"
    ),
    Violation("gateway-run-layers", "pyoco_gateway.runs.unplaced", "import anyio"),
    Violation(
        "gateway-execution-layers",
        "pyoco_gateway.executions.core.planted",
        "import pyoco_gateway.executions.log",
    ),
    Violation(
        "gateway-execution-layers",
        "pyoco_gateway.executions.index.planted",
        "import pyoco_gateway.executions.log.state_cache",
    ),
    Violation(
        "gateway-execution-layers",
        "pyoco_gateway.executions.log.planted",
        "import pyoco_gateway.executions.read_routes",
    ),
    Violation("pure-core", "pyoco_gateway.executions.core.planted", "import time"),
    Violation("pure-core", "pyoco_gateway.executions.core.planted", "from uuid import uuid4"),
    Violation(
        "pure-core",
        "pyoco_gateway.executions.core.planted",
        "import pyoco_protocol.jetstream.execution_log",
    ),
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
    ("pyoco_gateway.http.planted", "import pyoco_protocol.jetstream"),
    ("pyoco_worker.run.planted", "import pyoco_protocol.jetstream"),
]


def contract_names() -> dict[str, str]:
    """Return the name of each contract by its id."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in contracts}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a copy of the packages' sources, with the configuration of the repository."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for source in sorted(ROOT.glob("packages/*/src")):
        shutil.copytree(
            source,
            tmp_path / source.relative_to(ROOT),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return tmp_path


def plant(tree: Path, module: str, statement: str) -> None:
    """Add `statement` to a module of the copy; create the module if it does not exist."""
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
    """Return the ids of the contracts that import-linter reports as broken."""
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


def test_allowed_imports_break_no_contract(tree: Path) -> None:
    for module, statement in ALLOWED:
        plant(tree, module, statement)
    code, output = lint(tree)
    assert code == 0, output


def test_every_contract_has_a_violation_that_breaks_it() -> None:
    assert {violation.contract for violation in VIOLATIONS} == set(contract_names())
