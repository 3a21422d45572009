"""Every task of this repository under one name. Without arguments: all that must pass.

Arguments after `--` go on to the task: `nox -s tests-3.12 -- gateway -k submit`.
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

# From here on nox runs an interpreter before it believes in it: version managers put commands
# on PATH that only print an error.
nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "types", "tests", "lowest", "e2e"]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PACKAGES = ("pyoco-protocol", "pyoco-gateway", "pyoco-worker", "pyoco-client")
FOLDERS = {
    **{name: ROOT / "packages" / name for name in PACKAGES},
    "pyoco-testkit": ROOT / "testkit",
}

# What the tests of a package must not find unless the package depends on it.
IMPORT_NAMES = {
    **{name: name.replace("-", "_") for name in PACKAGES},
    "fastapi": "fastapi",
    "nats-py": "nats",
    "pyoco": "pyoco",
}

# A client that users have; the gateway must suit it.
EARLIER_RELEASE = "pyoco-server==0.5.1"
EARLIER_PYTHONS = ("python3.12", "python3.13")

# Tests wait more than they compute; each has a broker, ports and files of its own.
SIDE_BY_SIDE = ("-n", str((os.cpu_count() or 1) + 1))


@cache
def pyproject(name: str) -> Mapping[str, Any]:
    """Return the metadata of one of our packages."""
    return nox.project.load_toml(FOLDERS[name] / "pyproject.toml")


SUPPORTED = nox.project.python_versions(dict(pyproject("pyoco-protocol")))
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
# A newer Python than those we know is tried too when it is what nox runs on, so that one
# interpreter is always enough. Those that are not there are reported as skipped.
IS_KNOWN_ENOUGH = Version(RUNNING) >= Version(SUPPORTED[0])
PYTHONS = sorted({*SUPPORTED, *([RUNNING] if IS_KNOWN_ENOUGH else [])}, key=Version)
MAIN_PYTHON = None if IS_KNOWN_ENOUGH else SUPPORTED[0]


@nox.session(python=MAIN_PYTHON)
def lint(session: nox.Session) -> None:
    """Check style, formatting, import contracts and rules on secrets, and that rules can break."""
    session.install(*nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = os.pathsep.join(str(FOLDERS[name] / "src") for name in PACKAGES)
    session.run("lint-imports", env={"PYTHONPATH": sources})
    ours = [*(str(folder / "src") for folder in FOLDERS.values()), "tools"]
    session.run("python", "tools/code_rules.py", *ours)
    session.run("bandit", "--quiet", "--recursive", "-c", "pyproject.toml", *ours, "benchmarks")
    session.run("pytest", "tests-tooling")


@nox.session(python=MAIN_PYTHON, requires=["build"])
def types(session: nox.Session) -> None:
    """Check all types with mypy --strict: packages, testkit, tests, benchmarks, tools and this."""
    install_wheels(session, "types")
    sources = [folder / "src" for folder in FOLDERS.values()]
    session.run("mypy", "--strict", *map(str, sources), "noxfile.py", "tools")
    # One by one: each has a conftest.py of its own. Test folders are not packages, so a module is
    # named by its path below `tests`.
    by_path = ("mypy", "--strict", "--explicit-package-bases")
    for folder in (*(folder / "tests" for folder in FOLDERS.values()), *ROOT.glob("tests-*")):
        session.run(*by_path, str(folder), env={"MYPYPATH": str(folder)})
    session.run("mypy", "--strict", "benchmarks", env={"MYPYPATH": "benchmarks"})


@nox.session(python=PYTHONS, requires=["build"])
def tests(session: nox.Session) -> None:
    """Test the packages as users get them: built into wheels and installed.

    Names of packages choose some, all else goes to pytest: `-- gateway client -k settings`.
    """
    install_wheels(session, "test")
    run_tests(session)


@nox.session(python=SUPPORTED[0], requires=["build"])
def lowest(session: nox.Session) -> None:
    """Test the packages with the oldest versions of what they say they work with."""
    constraints = Path(session.create_tmp()) / "lowest.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in lower_bounds()), encoding="utf-8")
    session.log("\n".join(["installing with", *lower_bounds()]))
    install_wheels(session, "test", "--constraint", str(constraints))
    run_tests(session)


@nox.session(python=MAIN_PYTHON, requires=["build"])
def e2e(session: nox.Session) -> None:
    """Test whole stacks: the wheels in a clean environment, real processes, a real nats-server."""
    install_wheels(session, "e2e")
    earlier = earlier_client(session)
    options = [] if earlier is None else [f"--earlier-client={earlier}"]
    session.run("pytest", "tests-e2e", *SIDE_BY_SIDE, *options, *session.posargs)


@nox.session(python=MAIN_PYTHON, requires=["build"], reuse_venv=True)
def dev(session: nox.Session) -> None:
    """Start a broker, a gateway and a worker with demo flows; Ctrl-C ends them.

    Arguments go to `pyoco-server dev`: `nox -s dev -- --clean`.
    """
    install_wheels(session, None)
    # The version stays while the code changes: only this replaces what an earlier start left.
    session.install(
        "--force-reinstall", "--no-deps", *(str(wheel(session, name)) for name in PACKAGES)
    )
    # Time to stop in order: workers first, the broker last.
    session.run("pyoco-server", "dev", *session.posargs, interrupt_timeout=20, terminate_timeout=10)


@nox.session(python=MAIN_PYTHON, reuse_venv=True)
def build(session: nox.Session) -> None:
    """Build the wheel and the source distribution of each package into dist/.

    The other tasks install these wheels, so it runs once before them.
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
    """Measure: all of benchmarks/, or those named: `-- submit`."""
    install_wheels(session, "bench")
    scripts = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))}
    names = [argument for argument in session.posargs if argument in scripts]
    arguments = [argument for argument in session.posargs if argument not in scripts]
    if unknown := [name for name in arguments[:1] if not name.startswith("-") and not names]:
        session.error(f"no benchmark {unknown[0]}; there are: {', '.join(scripts)}")
    for name in names or scripts:
        session.run("python", str(scripts[name]), *arguments)


def install_wheels(session: nox.Session, group: str | None, *options: str) -> None:
    """Install our packages from the wheels of this run, with the testkit where a group is named.

    Each is named by its file, never by its name: an index may hold something of that name.
    """
    names = PACKAGES if group is None else FOLDERS
    session.install(
        *options,
        *(f"{name}{extras(name)} @ {wheel(session, name).as_uri()}" for name in names),
        *(nox.project.dependency_groups(PROJECT, group) if group else ()),
    )


def run_tests(session: nox.Session) -> None:
    """Run the tests of the chosen packages, each with nothing but what it depends on."""
    short = {name.removeprefix("pyoco-"): name for name in FOLDERS}
    chosen = [short.get(word, word) for word in session.posargs if short.get(word, word) in FOLDERS]
    rest = [word for word in session.posargs if short.get(word, word) not in FOLDERS]
    # On further interpreters the first failure says enough.
    brief = [] if session.python in (None, RUNNING) else ["-x", "-q"]
    failed = []
    for name in chosen or FOLDERS:
        known = {name, *dependencies(name, with_extras=True)}
        hidden = [module for need, module in IMPORT_NAMES.items() if need not in known]
        options = [f"--without={module}" for module in hidden if name in PACKAGES]
        try:
            session.run(
                *(
                    "pytest",
                    str(FOLDERS[name].relative_to(ROOT) / "tests"),
                    *SIDE_BY_SIDE,
                    *options,
                    *brief,
                    *rest,
                ),
                # A filter may leave nothing of one package; a package without tests is a mistake.
                success_codes=[0, 5] if rest else [0],
            )
        except CommandFailed:
            failed.append(name)
    if failed:
        session.error(f"tests of {', '.join(failed)} failed")


def earlier_client(session: nox.Session) -> Path | None:
    """Return the `pyoco-client` of an earlier release, in an environment of its own.

    None where there is no Python that it runs on.
    """
    folder = session.cache_dir.resolve() / EARLIER_RELEASE.replace("==", "-")
    command = folder / "bin" / "pyoco-client"
    if not command.exists():
        interpreter = next(filter(None, map(working_python, EARLIER_PYTHONS)), None)
        if interpreter is None:
            session.log(f"the command of {EARLIER_RELEASE} is not tried: no Python for it is here")
            return None
        shutil.rmtree(folder, ignore_errors=True)
        session.run(interpreter, "-m", "venv", str(folder), external=True)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
        session.run(*pip, EARLIER_RELEASE, external=True)
    return command


def working_python(name: str) -> str | None:
    """Return an interpreter on PATH that runs; version managers put others there, too."""
    found = shutil.which(name)
    if found is None:
        return None
    tried = subprocess.run([found, "-c", ""], capture_output=True, check=False)
    return found if tried.returncode == 0 else None


def asked_for(name: str, *, with_extras: bool) -> Iterator[Requirement]:
    """Yield what a package itself asks for."""
    project = pyproject(name)["project"]
    extras = project.get("optional-dependencies", {}).values() if with_extras else ()
    yield from map(Requirement, chain(project["dependencies"], *extras))


def dependencies(name: str, *, with_extras: bool) -> Iterator[str]:
    """Yield the distributions a package asks for, by way of our other packages too."""
    for requirement in asked_for(name, with_extras=with_extras):
        distribution = canonicalize_name(requirement.name)
        yield distribution
        if distribution in PACKAGES:
            yield from dependencies(distribution, with_extras=bool(requirement.extras))


def lower_bounds() -> Sequence[str]:
    """Return a pin to its lower bound for everything our packages ask for."""
    bounds: dict[str, Version] = {}
    for requirement in chain.from_iterable(asked_for(name, with_extras=True) for name in PACKAGES):
        distribution = canonicalize_name(requirement.name)
        for specifier in requirement.specifier:
            if specifier.operator == ">=":
                version = Version(specifier.version)
                bounds[distribution] = max(version, bounds.get(distribution, version))
    return [f"{distribution}=={version}" for distribution, version in sorted(bounds.items())]


def build_requirements() -> set[str]:
    """Return what the build backends of our packages ask for."""
    return {need for name in FOLDERS for need in pyproject(name)["build-system"]["requires"]}


def wheel(session: nox.Session, name: str) -> Path:
    """Return the wheel of a package that this run has built."""
    folder = DIST if name in PACKAGES else testkit_dist(session)
    (found,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return found


def testkit_dist(session: nox.Session) -> Path:
    """Return where the testkit's wheel is built: not beside what is published."""
    return session.cache_dir.resolve() / "testkit"


def extras(name: str) -> str:
    """Return all extras of a package as they are asked for, or nothing."""
    known = pyproject(name)["project"].get("optional-dependencies", {})
    return f"[{','.join(known)}]" if known else ""
