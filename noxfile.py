"""The tasks of this repository. Without arguments, nox runs every check that CI runs.

Arguments after `--` are passed to the task: `nox -s tests-3.12 -- gateway -k submit`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

# The first version that tries an interpreter before it uses it: version managers put commands on
# PATH that only print an error.
nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "types", "tests", "lowest", "e2e", "browser"]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PACKAGES = ("pyoco-protocol", "pyoco-gateway", "pyoco-worker", "pyoco-client")
FOLDERS = {
    **{name: ROOT / "packages" / name for name in PACKAGES},
    "pyoco-testkit": ROOT / "testkit",
}

# Modules that are hidden from the tests of a package that does not depend on them.
IMPORT_NAMES = {
    **{name: name.replace("-", "_") for name in PACKAGES},
    "fastapi": "fastapi",
    "nats-py": "nats",
    "pyoco": "pyoco",
}

# A published release; its client, worker and keys meet the gateway of this tree. Its worker hangs
# on Python 3.11.
EARLIER_RELEASE = "pyoco-server==0.5.1"
EARLIER_PYTHONS = ("python3.12", "python3.13")

# The commands of Chromium and Chrome, in the order in which they are tried.
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# The tests that `lowest` runs, as paths below the `tests` folder of a package: those of the code
# that calls third-party libraries. Features that only use this code are left out, because they
# would double the time of the test run and reach the libraries through the same modules.
LOWEST = {
    "pyoco-protocol": [
        "http",
        "jetstream",
        "logging",
        "problems",
        "runs/test_job.py",
        "runs/test_snapshot.py",
        "settings",
        "test_dead_letters.py",
        "test_golden_payloads.py",
        "test_ids.py",
        "test_workers.py",
        "workflows",
    ],
    "pyoco-gateway": [
        "broker",
        "commands/admin",
        "health",
        "http",
        "metrics",
        "streams",
        "test_route_rules.py",
        "test_services.py",
        "workflows",
    ],
    "pyoco-worker": ["child", "children", "intake", "test_config.py"],
    "pyoco-client": ["."],
}

# Two processes more than there are cores, because tests wait more than they compute. Each test has
# its own broker, ports and files.
IN_PARALLEL = ("-n", str((os.cpu_count() or 1) + 2))

# Where each test session writes its outcome, for the summary at the end of `.ci/run`.
OUTCOMES = ROOT / ".nox" / "outcomes"


@cache
def pyproject(name: str) -> Mapping[str, Any]:
    """Return the metadata of one of our packages."""
    return nox.project.load_toml(FOLDERS[name] / "pyproject.toml")


SUPPORTED = nox.project.python_versions(dict(pyproject("pyoco-protocol")))
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
# The Python that runs nox is tested too, even if it is newer than the supported ones, so that one
# interpreter is always enough. Missing interpreters are reported as skipped.
IS_NEW_ENOUGH = Version(RUNNING) >= Version(SUPPORTED[0])
PYTHONS = sorted({*SUPPORTED, *([RUNNING] if IS_NEW_ENOUGH else [])}, key=Version)
MAIN_PYTHON = None if IS_NEW_ENOUGH else SUPPORTED[0]


@nox.session(python=MAIN_PYTHON)
def lint(session: nox.Session) -> None:
    """Check style, formatting, import contracts and code rules, and test these checks."""
    session.install(*nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = os.pathsep.join(str(FOLDERS[name] / "src") for name in PACKAGES)
    session.run("lint-imports", env={"PYTHONPATH": sources})
    ours = [*(str(folder / "src") for folder in FOLDERS.values()), "tools"]
    session.run("python", "tools/code_rules.py", *ours)
    session.run("bandit", "--quiet", "--recursive", "-c", "pyproject.toml", *ours, "benchmarks")
    run_pytest(session, "tests-tooling", *IN_PARALLEL)


@nox.session(python=MAIN_PYTHON, requires=["build"])
def types(session: nox.Session) -> None:
    """Check types with mypy --strict: packages, testkit, tests, benchmarks, tools, noxfile."""
    install_wheels(session, "types")
    sources = [folder / "src" for folder in FOLDERS.values()]
    session.run("mypy", "--strict", *map(str, sources), "noxfile.py", "tools")
    # Each test folder is checked separately because each has a module `conftest`. Test folders are
    # not packages, so the path below the folder names a module.
    by_path = ("mypy", "--strict", "--explicit-package-bases")
    for folder in (*(folder / "tests" for folder in FOLDERS.values()), *ROOT.glob("tests-*")):
        session.run(*by_path, str(folder), env={"MYPYPATH": str(folder)})
    session.run("mypy", "--strict", "benchmarks", env={"MYPYPATH": "benchmarks"})


@nox.session(python=PYTHONS, requires=["build"])
def tests(session: nox.Session) -> None:
    """Test the installed wheels of the packages.

    Package names select packages; other arguments go to pytest: `-- gateway client -k settings`.
    """
    install_wheels(session, "test")
    run_tests(session)


@nox.session(python=SUPPORTED[0], requires=["build"])
def lowest(session: nox.Session) -> None:
    """Test code that calls third-party libraries with their oldest supported versions."""
    constraints = Path(session.create_tmp()) / "lowest.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in lower_bounds()), encoding="utf-8")
    session.log("\n".join(["installing with", *lower_bounds()]))
    install_wheels(session, "test", "--constraint", str(constraints))
    run_tests(session, LOWEST)


@nox.session(python=MAIN_PYTHON, requires=["build"])
def e2e(session: nox.Session) -> None:
    """Test the whole system: installed wheels, real processes, a real nats-server."""
    install_wheels(session, "e2e")
    earlier = earlier_client(session)
    options = [] if earlier is None else [f"--earlier-client={earlier}"]
    run_pytest(session, "tests-e2e", *IN_PARALLEL, *options, *session.posargs)


@nox.session(python=MAIN_PYTHON, requires=["build"])
def browser(session: nox.Session) -> None:
    """Test the gateway with a real browser: the Chromium of this machine, without a window."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if chromium is None:
        reason = (
            "not run: the browser tests, because Chromium is not installed "
            "(Debian: apt-get install chromium fonts-noto-cjk)"
        )
        if os.environ.get("CI", "").lower() in ("1", "true"):
            session.error(reason)
        session.skip(reason)
    install_wheels(session, "browser")
    run_pytest(session, "tests-browser", *IN_PARALLEL, f"--chromium={chromium}", *session.posargs)


@nox.session(python=MAIN_PYTHON, requires=["build"], reuse_venv=True)
def dev(session: nox.Session) -> None:
    """Start a broker, a gateway and a worker with demo flows; Ctrl-C stops them.

    Arguments are passed to `pyoco-server dev`: `nox -s dev -- --clean`.
    """
    install_wheels(session, None)
    # The environment is reused and the version stays the same, so pip would keep older code.
    session.install(
        "--force-reinstall", "--no-deps", *(str(wheel(session, name)) for name in PACKAGES)
    )
    # The stack stops in order, the broker last, and needs time for it.
    session.run("pyoco-server", "dev", *session.posargs, interrupt_timeout=20, terminate_timeout=10)


@nox.session(python=MAIN_PYTHON, reuse_venv=True)
def build(session: nox.Session) -> None:
    """Build the wheel and the source distribution of each package into dist/.

    It runs once, before the other tasks, which install these wheels.
    """
    session.install(*sorted(build_requirements()))
    testkit = testkit_dist(session)
    for folder in (DIST, testkit):
        shutil.rmtree(folder, ignore_errors=True)
    for name in PACKAGES:
        with session.chdir(FOLDERS[name]):
            session.run("python", "-m", "hatchling", "build", "-d", str(DIST))
    with session.chdir(FOLDERS["pyoco-testkit"]):
        session.run("python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(testkit))


@nox.session(python=MAIN_PYTHON, requires=["build"])
def bench(session: nox.Session) -> None:
    """Run all benchmarks, or the named ones: `-- submit`."""
    install_wheels(session, "bench")
    scripts = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))}
    names = [argument for argument in session.posargs if argument in scripts]
    arguments = [argument for argument in session.posargs if argument not in scripts]
    if unknown := [name for name in arguments[:1] if not name.startswith("-") and not names]:
        session.error(f"no benchmark {unknown[0]}; there are: {', '.join(scripts)}")
    for name in names or scripts:
        session.run("python", str(scripts[name]), *arguments)


def install_wheels(session: nox.Session, group: str | None, *options: str) -> None:
    """Install the wheels that this run has built; with a dependency group, the testkit too.

    Each wheel is given by its file, because a package index may hold another package of its name.
    """
    names = PACKAGES if group is None else FOLDERS
    session.install(
        *options,
        *(f"{name}{extras(name)} @ {wheel(session, name).as_uri()}" for name in names),
        *(nox.project.dependency_groups(PROJECT, group) if group else ()),
        # Tests start hundreds of processes. Each would compile all modules if the environment
        # variable PYTHONDONTWRITEBYTECODE is set. pip compiles without this variable.
        env={"UV_COMPILE_BYTECODE": "1"},
    )


def run_tests(session: nox.Session, paths: Mapping[str, Sequence[str]] | None = None) -> None:
    """Test the selected packages, each without the modules that it does not depend on.

    `paths` selects tests by package, as paths below its `tests` folder.
    """
    short = {name.removeprefix("pyoco-"): name for name in FOLDERS}
    chosen = [short.get(word, word) for word in session.posargs if short.get(word, word) in FOLDERS]
    rest = [word for word in session.posargs if short.get(word, word) not in FOLDERS]
    # On further interpreters a broken package is reported early.
    brief = [] if session.python in (None, RUNNING) else ["--maxfail=11", "-q"]
    failed = []
    for name in chosen or paths or FOLDERS:
        tests = FOLDERS[name].relative_to(ROOT) / "tests"
        known = {name, *dependencies(name, with_extras=True)}
        hidden = [module for need, module in IMPORT_NAMES.items() if need not in known]
        options = [f"--without={module}" for module in hidden if name in PACKAGES]
        try:
            run_pytest(
                session,
                *(str(tests / path) for path in (paths or {}).get(name, ["."])),
                *(*IN_PARALLEL, *options, *brief, *rest),
                package=name,
                # A filter may select no test of a package; a package without tests is an error.
                success_codes=[0, 5] if rest else [0],
            )
        except CommandFailed:
            failed.append(name)
    if failed:
        session.error(f"tests of {', '.join(failed)} failed")


def run_pytest(
    session: nox.Session, *arguments: str, package: str = "", success_codes: Sequence[int] = (0,)
) -> None:
    """Run pytest; a failing test is repeated once, alone, and is named if it passes then."""
    outcome = OUTCOMES / f"{' '.join(filter(None, [session.name, package]))}.json"
    command = ("python", "tools/run_tests.py", "--outcome", str(outcome))
    session.run(*command, *arguments, success_codes=success_codes)


def earlier_client(session: nox.Session) -> Path | None:
    """Return the command `pyoco-client` of an earlier release, installed in its own environment.

    None if this machine has no Python version that it supports.
    """
    folder = session.cache_dir.resolve() / EARLIER_RELEASE.replace("==", "-")
    command = folder / "bin" / "pyoco-client"
    if not command.exists():
        interpreter = next(filter(None, map(working_python, EARLIER_PYTHONS)), None)
        if interpreter is None:
            session.log(f"not run: tests of {EARLIER_RELEASE}, which needs Python 3.12 or 3.13")
            return None
        shutil.rmtree(folder, ignore_errors=True)
        session.run(interpreter, "-m", "venv", str(folder), external=True)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
        session.run(*pip, EARLIER_RELEASE, external=True)
    return command


def working_python(name: str) -> str | None:
    """Return the path of an interpreter that runs, on PATH or among the versions of pyenv.

    A version manager puts commands on PATH that only print an error, unless their version is the
    selected one.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    for found in (shutil.which(name), *map(str, sorted(pyenv.glob(f"versions/*/bin/{name}")))):
        if found is not None:
            tried = subprocess.run([found, "-c", ""], capture_output=True, check=False)
            if tried.returncode == 0:
                return found
    return None


def requirements_of(name: str, *, with_extras: bool) -> Iterator[Requirement]:
    """Yield the requirements that a package declares itself."""
    project = pyproject(name)["project"]
    extras = project.get("optional-dependencies", {}).values() if with_extras else ()
    yield from map(Requirement, chain(project["dependencies"], *extras))


def dependencies(name: str, *, with_extras: bool) -> Iterator[str]:
    """Yield the distributions a package requires, directly or through our other packages."""
    for requirement in requirements_of(name, with_extras=with_extras):
        distribution = canonicalize_name(requirement.name)
        yield distribution
        if distribution in PACKAGES:
            yield from dependencies(distribution, with_extras=bool(requirement.extras))


def lower_bounds() -> Sequence[str]:
    """Return a pin to its lower bound for each requirement of our packages."""
    bounds: dict[str, Version] = {}
    for requirement in chain.from_iterable(
        requirements_of(name, with_extras=True) for name in PACKAGES
    ):
        distribution = canonicalize_name(requirement.name)
        for specifier in requirement.specifier:
            if specifier.operator == ">=":
                version = Version(specifier.version)
                bounds[distribution] = max(version, bounds.get(distribution, version))
    return [f"{distribution}=={version}" for distribution, version in sorted(bounds.items())]


def build_requirements() -> set[str]:
    """Return the requirements of our packages' build backends."""
    return {need for name in FOLDERS for need in pyproject(name)["build-system"]["requires"]}


def wheel(session: nox.Session, name: str) -> Path:
    """Return the wheel that this run has built for a package."""
    folder = DIST if name in PACKAGES else testkit_dist(session)
    (found,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return found


def testkit_dist(session: nox.Session) -> Path:
    """Return the folder of the testkit's wheel, apart from the wheels that are published."""
    return session.cache_dir.resolve() / "testkit"


def extras(name: str) -> str:
    """Return all extras of a package in the form `[a,b]`, or an empty string."""
    known = pyproject(name)["project"].get("optional-dependencies", {})
    return f"[{','.join(known)}]" if known else ""
