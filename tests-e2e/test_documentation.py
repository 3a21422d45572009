import ast
import re
import sysconfig
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

from pyoco_testkit.documents import Block, blocks_in, tables_in
from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack, free_port

ROOT: Final = Path(__file__).parents[1]
SCRIPT_TIMEOUT: Final = 90.0

# The examples in these documents need a running development server.
NEEDS_DEV_SERVER: Final = [
    "README.md",
    "README.ja.md",
    "docs/cli-doctor.md",
    "docs/cli.md",
    "docs/client.md",
    "docs/http-api.md",
    "packages/pyoco-client/README.md",
]


class Ports:
    """Free ports that replace the default ports in the documents."""

    def __init__(self) -> None:
        self.http = free_port()
        self.nats = free_port()

    def replace_in(self, text: str) -> str:
        return re.sub(r"\b4222\b", str(self.nats), re.sub(r"\b8000\b", str(self.http), text))


def write_script(blocks: Sequence[Block], folder: Path, ports: Ports) -> Path:
    """Write one shell script with all `run` blocks, unchanged but for ports; return its path."""
    folder.mkdir()
    # Background jobs of the blocks end with the script.
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, block in enumerate(blocks):
        text = ports.replace_in(block.text).replace(".nox/dev/bin/", "")
        if block.kind == "file":
            (folder / block.name).write_text(text, encoding="utf-8")
        elif block.kind == "run" and block.language == "python":
            (folder / f"block-{number}.py").write_text(text, encoding="utf-8")
            lines += [f"echo '=== block {number}'", f"python block-{number}.py"]
        elif block.kind == "run":
            lines += [f"echo '=== block {number}'", text]
    script = folder / "script.sh"
    script.write_text("\n".join([*lines, "echo '=== end'"]), encoding="utf-8")
    return script


def background_command(block: Block, ports: Ports) -> list[str]:
    """Return the command of a `background` block."""
    # The server takes its ports only from options; other commands read the environment.
    flags = f" --port {ports.http} --nats-port {ports.nats}"
    text = block.text.strip()
    return ["/bin/bash", "-c", f"exec {text}{flags if text.startswith('pyoco-server') else ''}"]


async def check_examples(document: str, folder: Path, ports: Ports) -> None:
    """Run every marked block of a document and check its output."""
    blocks = blocks_in(ROOT / document)
    assert blocks, f"{document} has no blocks to run"
    script = write_script(blocks, folder, ports)
    environment = {
        "PATH": f"{sysconfig.get_path('scripts')}:{clean_environment()['PATH']}",
        "PYOCO_SERVER": f"http://127.0.0.1:{ports.http}",
        "PYOCO_NATS_URL": f"nats://127.0.0.1:{ports.nats}",
        # Not the configuration of the developer.
        "PYOCO_CONFIG": str(folder / "contexts.toml"),
    }
    async with AsyncExitStack() as background:
        for block in (each for each in blocks if each.kind == "background"):
            command = background_command(block, ports)
            await background.enter_async_context(
                ManagedProcess(f"line-{block.line}", command, folder, environment)
            )
        shell = ManagedProcess("script", ["/bin/bash", script], folder, environment)
        await background.enter_async_context(shell)
        assert await shell.wait(SCRIPT_TIMEOUT) == 0
    printed = dict(re.findall(r"=== block (\d+)\n(.*?)(?==== )", shell.log(), re.DOTALL))
    for number, block in enumerate(blocks):
        for expected in block.expected:
            assert expected in printed[str(number)], f"{document}:{block.line}"


@asynccontextmanager
async def dev_server(directory: Path, ports: Ports) -> AsyncGenerator[None]:
    command = [
        *(str(command_path("pyoco-server")), "dev", "--data-dir", str(directory / "data")),
        *("--port", str(ports.http), "--nats-port", str(ports.nats)),
    ]
    async with ManagedProcess("dev-server", command, directory) as server:
        await server.wait_for_log("is ready", 30.0)
        yield


@pytest.mark.timeout(150)
@pytest.mark.parametrize("document", NEEDS_DEV_SERVER)
async def test_the_examples_print_what_the_document_says(document: str, tmp_path: Path) -> None:
    ports = Ports()
    async with dev_server(tmp_path / "server", ports):
        await check_examples(document, tmp_path / "reader", ports)


@pytest.mark.timeout(150)
async def test_the_examples_of_the_quickstart_work(tmp_path: Path) -> None:
    await check_examples("docs/quickstart.md", tmp_path / "reader", Ports())


@pytest.mark.timeout(150)
async def test_the_tutorial_about_executions_works(tmp_path: Path) -> None:
    await check_examples("docs/executions-tutorial.md", tmp_path / "reader", Ports())


@pytest.mark.timeout(150)
async def test_the_examples_of_the_security_page_work(tmp_path: Path) -> None:
    await check_examples("docs/security.md", tmp_path / "reader", Ports())


async def test_the_http_api_page_lists_all_routes(stack: Stack) -> None:
    description = (await stack.client.http.get("/openapi.json")).json()
    served = {
        f"{method.upper()} {path}"
        for path, methods in description["paths"].items()
        for method in methods
        if method != "head"
    }
    documented = {row["route"] for row in tables_in(ROOT / "docs/http-api.md")["HTTP API"]}
    assert documented == served | {"GET /", "GET /openapi.json"}


def test_both_readmes_show_the_same_commands() -> None:
    english, japanese = (
        re.findall(r"^```bash\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S)
        for name in ("README.md", "README.ja.md")
    )
    assert english == japanese


def test_the_benchmarks_page_lists_all_benchmarks_with_their_questions() -> None:
    scripts = (ROOT / "benchmarks").glob("*.py")
    assert {
        row["benchmark"]: row["question"]
        for row in tables_in(ROOT / "docs/benchmarks.md")["Benchmarks"]
    } == {
        script.stem: ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
        for script in scripts
    }


DOCUMENTS: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "packages/*/*.md", "testkit/*.md")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_within_the_repository_have_a_target(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        linked = (path.parent / file) if file else path
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M)
            assert anchor in {
                re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
            }
