"""The configuration file and the output of `pyoco-server-admin nats-config`."""

import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_gateway.commands.admin.command import run
from pyoco_testkit.certificates import Authority
from pyoco_testkit.nats_server import nats_server_binary

ROOT = Path(__file__).parents[5]
CONFIG = Path("nats-server.conf")
LOGINS = Path("logins.txt")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command and returns exit code, stdout and stderr."""

    def called(*arguments: object) -> tuple[int, str, str]:
        code = run(["nats-config", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return called


def checked(path: Path = CONFIG) -> str:
    """Return the configuration after nats-server has checked it."""
    done = subprocess.run(
        [nats_server_binary(), "-t", "-c", path], capture_output=True, text=True, check=False
    )
    assert "is valid" in done.stderr + done.stdout, done.stderr
    return path.read_text(encoding="utf-8")


def passwords_in(text: str) -> list[str]:
    return re.findall(r"PYOCO_NATS_PASSWORD=(\S+)", text)


def test_nats_server_accepts_the_configuration(command: Command) -> None:
    code, printed, _ = command("--worker-tag", "cpu", "--worker-tag", "gpu")
    config = checked()
    assert code == 0
    assert "sync_interval: always" in config
    assert "no_auth_user" not in config
    assert "http" not in config
    assert "PYOCO_WORKER_TAGS=cpu,gpu" in printed
    assert printed.count("PYOCO_WORKER_PREPARES_BROKER=false") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--worker-tag", "unknown"),
        ("--worker", "big=cpu,gpu", "--worker-tag", "cpu"),
        ("--worker-tag", "a-b", "--worker-tag", "A_B", "--monitor-port", "8222"),
        ("--listen", "[::1]:4222", "--server-name", "one", "--sign-jobs"),
        (
            "--worker-tag",
            "true",
            "--worker-tag",
            "1k",
            "--store-dir",
            'a "b" $c',
        ),
    ],
)
def test_nats_server_accepts_the_configuration_with_all_options(
    command: Command, arguments: tuple[str, ...]
) -> None:
    assert command(*arguments)[0] == 0
    checked()


def test_every_user_has_its_own_random_password(command: Command) -> None:
    _, printed, _ = command("--worker-tag", "cpu", "--worker-tag", "gpu")
    passwords = passwords_in(printed)
    assert len(set(passwords)) == 3
    assert all(len(password) >= 43 for password in passwords)
    config = checked()
    assert all(password in config for password in passwords)


def test_only_the_owner_can_read_the_file(command: Command) -> None:
    command()
    assert stat.S_IMODE(CONFIG.stat().st_mode) == 0o600
    CONFIG.chmod(0o644)
    command("--force")
    assert stat.S_IMODE(CONFIG.stat().st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_logins_are_written_to_a_file_that_only_its_owner_can_read(
    command: Command, umask: int
) -> None:
    before = os.umask(umask)
    try:
        code, printed, remarks = command("--worker-tag", "cpu", "--logins", LOGINS, "--sign-jobs")
    finally:
        os.umask(before)
    assert (code, printed) == (0, ""), remarks
    assert stat.S_IMODE(LOGINS.stat().st_mode) == 0o600
    logins = LOGINS.read_text(encoding="utf-8")
    config = checked()
    assert len(passwords_in(logins)) == 2
    for secret in (*passwords_in(logins), *re.findall(r"SIGNING_KEY=(\S+)", logins)):
        assert secret not in remarks
    assert all(password in config for password in passwords_in(logins))
    assert f"wrote {LOGINS}" in remarks


def test_existing_logins_are_replaced_only_with_force_and_nothing_is_written_before(
    command: Command,
) -> None:
    LOGINS.write_text("mine")
    LOGINS.chmod(0o644)
    code, _, remarks = command("--logins", LOGINS)
    assert code == 1
    assert f"{LOGINS} already exists; --force replaces it" in remarks
    # Passwords of a configuration without logins would be lost.
    assert not CONFIG.exists()
    assert LOGINS.read_text() == "mine"
    assert command("--logins", LOGINS, "--force")[0] == 0
    assert stat.S_IMODE(LOGINS.stat().st_mode) == 0o600
    assert passwords_in(LOGINS.read_text())
    assert {path.name for path in Path().iterdir()} == {CONFIG.name, LOGINS.name}


def test_logins_that_cannot_be_written_leave_no_configuration(command: Command) -> None:
    code, _, remarks = command("--logins", "missing/logins.txt")
    assert code == 1
    assert "missing/logins.txt cannot be written" in remarks
    assert not CONFIG.exists()
    assert command("--logins", CONFIG)[0] == 1
    assert not CONFIG.exists()


def test_the_documentation_redirects_no_secret_into_a_file() -> None:
    """A shell creates a file with the permissions of its umask, which others can read."""
    pages = [page for page in ROOT.glob("**/*.md") if not {".venv", ".nox"} & set(page.parts)]
    assert any("nats-config" in page.read_text(encoding="utf-8") for page in pages)
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("\n", " ")
        # Secrets are printed to stdout only.
        redirected = re.findall(r"pyoco-server-admin[^`|;&)]*?(?<!2)>{1,2} *\w\S*", text)
        assert redirected == [], page


def test_an_existing_file_is_replaced_only_with_force(command: Command) -> None:
    CONFIG.write_text("mine")
    code, printed, complaint = command()
    assert (code, printed) == (1, "")
    assert "--force" in complaint
    assert CONFIG.read_text() == "mine"
    assert command("--force")[0] == 0
    checked()
    assert [path.name for path in Path().iterdir()] == [CONFIG.name]


def test_a_path_that_cannot_be_written_is_reported(command: Command) -> None:
    code, _, complaint = command("--output", "nowhere/nats.conf")
    assert code == 1
    assert "cannot be written" in complaint


def test_the_tls_files_are_in_the_configuration(command: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    shown = authority.certificate()
    files = ("--tls-cert", shown.cert, "--tls-key", shown.key, "--tls-ca", authority.ca)
    code, printed, complaint = command(*files, "--tls-verify", "--listen", "0.0.0.0:4222")
    assert code == 0
    assert "verify: true" in checked()
    assert "PYOCO_NATS_URL=tls://localhost:4222" in printed
    assert f"PYOCO_NATS_TLS_CA={authority.ca}" in printed
    assert "# PYOCO_NATS_TLS_CERT and PYOCO_NATS_TLS_KEY: a certificate for" in printed
    assert "sent unencrypted" not in complaint


def test_a_reachable_address_without_tls_prints_a_warning(command: Command) -> None:
    assert "sent unencrypted" in command("--listen", "0.0.0.0:4222")[2]
    assert "sent unencrypted" not in command("--force")[2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--worker-tag", "c.pu"), "is not a tag"),
        (("--worker-tag", "cpu", "--worker-tag", "cpu"), "two users are named 'cpu'"),
        (("--worker", "big"), "a name and its tags"),
        (("--worker", "big=cpu,,gpu"), "is not a tag"),
        (("--listen", "4222"), "an address and a port"),
        (("--listen", "host:4222\nx"), "an address and a port"),
        (("--tls-verify",), "needs --tls-ca"),
        (("--monitor-port", "0"), "--monitor-port"),
    ],
)
def test_a_usage_error_writes_nothing(
    command: Command, arguments: tuple[str, ...], why: str
) -> None:
    code, printed, complaint = command(*arguments)
    assert (code, printed) == (1, "")
    assert why in complaint
    assert not CONFIG.exists()


def test_incomplete_tls_options_are_refused(command: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    assert "must be given together" in command("--tls-cert", authority.certificate().cert)[2]
    assert "needs --tls-cert" in command("--tls-ca", authority.ca)[2]


def test_monitoring_listens_on_loopback_only(command: Command) -> None:
    command("--monitor-port", "8222")
    assert 'http: "127.0.0.1:8222"' in checked()


def test_stream_and_bucket_names_come_from_the_settings(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_WORK_STREAM", "ACME_WORK")
    monkeypatch.setenv("PYOCO_RUNS_KV_BUCKET", "acme_runs")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "usual")
    monkeypatch.setenv("PYOCO_EXECUTION_STREAM", "ACME_LOG")
    monkeypatch.setenv("PYOCO_EXECUTION_SUBJECT_PREFIX", "acme.commits")
    monkeypatch.setenv("PYOCO_GRAPH_SUBJECT_PREFIX", "acme.versions")
    _, printed, _ = command()
    config = checked()
    assert '"$KV.acme_runs.*"' in config
    assert '"$JS.API.CONSUMER.MSG.NEXT.ACME_WORK.pyoco_workers_usual"' in config
    assert "PYOCO_WORK." not in config
    for granted in ("$JS.API.STREAM.PURGE.ACME_LOG", "acme.commits.*", "acme.versions.*.*"):
        assert f'"{granted}"' in config
    assert "PYOCO_EXECUTIONS" not in config
    assert "PYOCO_WORKER_TAGS=usual" in printed


def test_only_the_gateway_gets_permissions_for_executions(command: Command) -> None:
    command("--worker-tag", "cpu")
    gateway, _, worker = checked().partition('"pyoco-worker-cpu" {')
    assert worker
    for subject in ("pyoco.exec.*", "$JS.API.STREAM.PURGE.PYOCO_EXECUTIONS", "pyoco.graph.*.*"):
        # Once: as a permission of the gateway's user, and not as an export to workers.
        assert gateway.count(f'"{subject}"') == 1
    for word in ("pyoco.exec", "PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "pyoco.graph"):
        assert word not in worker


def test_gateway_and_workers_get_the_same_signing_key(command: Command) -> None:
    _, printed, _ = command("--sign-jobs", "--worker-tag", "cpu")
    keys = re.findall(r"PYOCO_JOB_SIGNING_KEY=(\S+)", printed)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert keys[0] not in checked()
