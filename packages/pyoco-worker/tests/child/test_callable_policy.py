import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_worker.child.callable_policy import CallablePolicy, defining_module, worker_modules

UNSET = CallablePolicy(None)
MODULES = st.lists(st.sampled_from(["a", "b", "ab", "os"]), min_size=1, max_size=3).map(".".join)


@pytest.mark.parametrize(
    "module",
    [
        *("os", "os.path", "posix", "subprocess", "builtins", "sys", "importlib", "ctypes.util"),
        *("__main__", "pip", "pip._internal", "setuptools", "test.support", "_testcapi", "runpy"),
        *("pyoco_worker", "pyoco_worker.cli", "pyoco_protocol.subjects", "pyoco.core", "nats"),
        *("pydantic", "pydantic_core", "anyio", "click", "yaml", "_yaml", "dotenv", "uvloop"),
    ],
)
def test_modules_of_python_and_of_the_worker_are_refused(module: str) -> None:
    refusal = UNSET.refusal(module)
    assert refusal is not None
    assert f"PYOCO_CALLABLE_ALLOW={module}" in refusal


@pytest.mark.parametrize("module", ["my_company.tasks", "etl", "numpy", "pandas.io", "osmium"])
def test_other_modules_are_allowed(module: str) -> None:
    assert UNSET.refusal(module) is None


def test_every_module_of_the_standard_library_is_refused() -> None:
    assert all(UNSET.refusal(name) for name in sys.stdlib_module_names)


def test_requirements_of_unused_extras_do_not_count_as_the_worker() -> None:
    # Installed for the client and for tests; the worker does not require them.
    assert not {"pytest", "hypothesis", "pyoco_client"} & worker_modules()
    assert {"nats", "yaml", "pydantic", "pyoco_protocol"} <= worker_modules()


@given(st.lists(MODULES, min_size=1, max_size=3), MODULES)
def test_a_list_allows_these_modules_and_their_submodules(names: list[str], module: str) -> None:
    inside = any(f"{module}.".startswith(f"{name}.") for name in names)
    assert (CallablePolicy(tuple(names)).refusal(module) is None) == inside


def test_a_refusal_names_the_setting_to_change() -> None:
    refusal = CallablePolicy(("etl",)).refusal("etl_secret.tasks")
    assert refusal is not None
    assert "PYOCO_CALLABLE_ALLOW=etl,etl_secret.tasks" in refusal


class Callme:
    def __call__(self) -> None:
        """Do nothing."""


def own_function() -> None:
    """Do nothing."""


@functools.cache
def cached() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("function", "module"),
    [
        (own_function, __name__),
        (cached, __name__),
        (Callme, __name__),
        (Callme(), __name__),
        (functools.partial(own_function), __name__),
        (os.system, "posix"),
        (subprocess.check_output, "subprocess"),
        (functools.partial(functools.partial(os.system), "id"), "posix"),
        (print, "builtins"),
        (eval, "builtins"),
        (Path.home, "pathlib"),
        (re.compile("x").match, "builtins"),
        ("text".join, "builtins"),
    ],
)
def test_the_defining_module_of_a_function_is_found(
    function: Callable[..., Any], module: str
) -> None:
    # Some modules of the standard library became packages in later versions.
    assert defining_module(function).partition("._")[0] == module
