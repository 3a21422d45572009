"""Resolvers are loaded from a module, a file, or entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_worker.child.resolver import ResolverError, load_resolver


@pytest.fixture(autouse=True)
def _restored_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Import modules from the folder of the test, and forget them afterwards."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


RESOLVE = "def resolve(name):\n    return f'flow of {name}'\n"


def test_a_resolver_is_loaded_from_a_module(tmp_path: Path) -> None:
    write(tmp_path / "acme_flows.py", RESOLVE)
    assert load_resolver("acme_flows:resolve")("a") == "flow of a"


def test_a_resolver_is_loaded_from_a_module_in_a_package(tmp_path: Path) -> None:
    write(tmp_path / "acme" / "__init__.py", "")
    write(tmp_path / "acme" / "flows.py", RESOLVE)
    assert load_resolver("acme.flows:resolve")("a") == "flow of a"


def test_a_resolver_is_loaded_from_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "some dir" / "my flows.py", RESOLVE)
    assert load_resolver(f"{file}:resolve")("a") == "flow of a"


def test_a_file_can_import_modules_of_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "there" / "beside_it.py", "NAME = 'beside'\n")
    file = write(
        tmp_path / "there" / "flows_of_acme.py",
        "from beside_it import NAME\n\ndef resolve(name):\n    return NAME + name\n",
    )
    assert load_resolver(f"{file}:resolve")("a") == "besidea"


def test_a_file_can_find_itself_in_sys_modules(tmp_path: Path) -> None:
    file = write(
        tmp_path / "dataflows.py",
        "import dataclasses, sys\n\n@dataclasses.dataclass\nclass P:\n    x: 'int'\n\n"
        "def resolve(name):\n    return sys.modules[__name__].P(1)\n",
    )
    assert load_resolver(f"{file}:resolve")("a").__class__.__name__ == "P"


def test_a_resolver_can_be_any_callable(tmp_path: Path) -> None:
    write(tmp_path / "acme_table.py", "flows = {'a': 1}.__getitem__\n")
    assert load_resolver("acme_table:flows")("a") == 1
    with pytest.raises(KeyError):
        load_resolver("acme_table:flows")("b")


@pytest.mark.parametrize("spec", ["", ":", "flows", "flows:", ":resolve", "flows.py", "flows.py:"])
def test_an_invalid_spec_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(ResolverError, match=r"my_flows\.py:resolve"):
        load_resolver(spec)


def test_a_missing_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResolverError, match=r"no_such_module.*ModuleNotFoundError"):
        load_resolver("no_such_module:resolve")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResolverError, match=r"no file .*nowhere\.py"):
        load_resolver(f"{tmp_path / 'nowhere.py'}:resolve")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import no_such_dependency\n", "no_such_dependency"),
        ("def resolve(:\n", "SyntaxError"),
        ("raise ValueError('bad config')\n", "bad config"),
        ("import sys\nsys.exit('not today')\n", "SystemExit"),
    ],
)
def test_the_error_of_code_that_cannot_be_loaded_says_why(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = write(tmp_path / "broken_flows.py", text)
    for spec in (f"{file}:resolve", "broken_flows:resolve"):
        sys.modules.pop("broken_flows", None)
        with pytest.raises(ResolverError, match=expected):
            load_resolver(spec)


def test_a_missing_function_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "acme_flows.py", RESOLVE)
    with pytest.raises(ResolverError, match="'resolv'"):
        load_resolver("acme_flows:resolv")


def test_an_attribute_that_is_not_callable_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "acme_flows.py", "resolve = 5\n")
    with pytest.raises(ResolverError, match="not callable"):
        load_resolver("acme_flows:resolve")


def install(tmp_path: Path, entry_points: str) -> None:
    """Install a distribution with these `pyoco.flows` entry points."""
    info = tmp_path / "acme-1.0.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    write(info / "entry_points.txt", f"[pyoco.flows]\n{entry_points}\n")


def test_without_a_spec_flows_come_from_entry_points(tmp_path: Path) -> None:
    write(tmp_path / "acme_lib.py", "FLOW = 'a flow'\n\ndef build():\n    return 'built'\n")
    install(tmp_path, "ready = acme_lib:FLOW\nmade = acme_lib:build")
    resolve = load_resolver(None)
    assert resolve("ready") == "a flow"
    assert resolve("made") == "built"
    with pytest.raises(KeyError):
        resolve("unknown")


def test_an_entry_point_that_cannot_be_loaded_affects_only_its_flow(tmp_path: Path) -> None:
    write(tmp_path / "acme_lib.py", "FLOW = 'a flow'\n")
    install(tmp_path, "ready = acme_lib:FLOW\nbroken = no_such_lib:FLOW")
    resolve = load_resolver(None)
    assert resolve("ready") == "a flow"
    with pytest.raises(ModuleNotFoundError):
        resolve("broken")


def test_without_entry_points_no_flow_is_found() -> None:
    with pytest.raises(KeyError):
        load_resolver(None)("hello")
