"""Module sizes stay below the limit; noxfile.py and `.ci/run` fit the tree and each other."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400


def test_no_source_module_is_longer_than_the_limit() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.glob("packages/*/src/**/*.py")
    }

    assert lengths
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_the_tests_that_lowest_runs_exist() -> None:
    chosen = lowest_paths()

    assert set(chosen) == {path.name for path in (ROOT / "packages").iterdir() if path.is_dir()}
    for package, paths in chosen.items():
        for path in paths:
            assert (ROOT / "packages" / package / "tests" / path).exists(), f"{package}: {path}"


def test_nox_runs_every_folder_of_tests_by_default() -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    texts = {
        node.value
        for name in default_sessions(tree)
        for node in ast.walk(sessions[name])
        if isinstance(node, ast.Constant)
    }

    assert {path.name for path in ROOT.glob("tests-*")} - texts == set()


def test_ci_installs_the_packages_that_the_browser_tests_name() -> None:
    named = [
        re.findall(r"apt-get install ([a-z -]+)", (ROOT / path).read_text(encoding="utf-8"))
        for path in ("noxfile.py", "CONTRIBUTING.md")
    ]
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    (installed,) = re.findall(r"for package in ([a-z -]+);", ci)
    assert named == [[installed], [installed]]


def default_sessions(tree: ast.Module) -> list[str]:
    """Return the names of the sessions that nox runs without arguments."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "nox.options.sessions":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise LookupError("noxfile.py does not choose the default sessions")


def lowest_paths() -> dict[str, list[str]]:
    """Return the constant LOWEST of noxfile.py, which this environment cannot import."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LOWEST":
            paths: dict[str, list[str]] = ast.literal_eval(node.value)
            return paths
    raise LookupError("noxfile.py has no constant LOWEST")
