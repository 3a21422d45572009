"""The configuration that `pyoco-server-admin nats-config` writes, and what it prints."""

import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_gateway.commands.admin.command import run
from pyoco_testkit.certificates import Authority
from pyoco_testkit.nats_server import nats_server_binary

CONFIG = Path("nats-server.conf")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command: its exit code, and what it said on both streams."""

    def called(*arguments: object) -> tuple[int, str, str]:
        code = run(["nats-config", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return called


def checked(path: Path = CONFIG) -> str:
    """Return the configuration, once nats-server has found it to be one."""
    done = subprocess.run(
        [nats_server_binary(), "-t", "-c", path], capture_output=True, text=True, check=False
    )
    assert "is valid" in done.stderr + done.stdout, done.stderr
    return path.read_text(encoding="utf-8")


def passwords_in(text: str) -> list[str]:
    return re.findall(r"PYOCO_NATS_PASSWORD=(\S+)", text)


def test_it_is_a_configuration_that_nats_server_takes(command: Command) -> None:
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
def test_whatever_is_asked_for_it_is_valid(command: Command, arguments: tuple[str, ...]) -> None:
    assert command(*arguments)[0] == 0
    checked()


def test_everybody_has_a_password_that_nobody_guesses(command: Command) -> None:
    _, printed, _ = command("--worker-tag", "cpu", "--worker-tag", "gpu")
    passwords = passwords_in(printed)
    assert len(set(passwords)) == 3
    assert all(len(password) >= 43 for password in passwords)
    config = checked()
    assert all(password in config for password in passwords)


def test_nobody_else_can_read_it(command: Command) -> None:
    command()
    assert stat.S_IMODE(CONFIG.stat().st_mode) == 0o600
    CONFIG.chmod(0o644)
    command("--force")
    assert stat.S_IMODE(CONFIG.stat().st_mode) == 0o600


def test_what_is_there_is_not_overwritten_unless_that_is_wanted(command: Command) -> None:
    CONFIG.write_text("mine")
    code, printed, complaint = command()
    assert (code, printed) == (1, "")
    assert "--force" in complaint
    assert CONFIG.read_text() == "mine"
    assert command("--force")[0] == 0
    checked()
    assert [path.name for path in Path().iterdir()] == [CONFIG.name]


def test_a_place_that_cannot_be_written_is_told(command: Command) -> None:
    code, _, complaint = command("--output", "nowhere/nats.conf")
    assert code == 1
    assert "cannot be written" in complaint


def test_tls_is_spoken_with_these_files(command: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    shown = authority.certificate()
    files = ("--tls-cert", shown.cert, "--tls-key", shown.key, "--tls-ca", authority.ca)
    code, printed, complaint = command(*files, "--tls-verify", "--listen", "0.0.0.0:4222")
    assert code == 0
    assert "verify: true" in checked()
    assert "PYOCO_NATS_URL=tls://localhost:4222" in printed
    assert f"PYOCO_NATS_TLS_CA={authority.ca}" in printed
    assert "# PYOCO_NATS_TLS_CERT and PYOCO_NATS_TLS_KEY: a certificate for" in printed
    assert "in the clear" not in complaint


def test_passwords_in_the_clear_are_warned_of(command: Command) -> None:
    assert "in the clear" in command("--listen", "0.0.0.0:4222")[2]
    assert "in the clear" not in command("--force")[2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--worker-tag", "c.pu"), "is no tag"),
        (("--worker-tag", "cpu", "--worker-tag", "cpu"), "two users 'cpu'"),
        (("--worker", "big"), "a name and its tags"),
        (("--worker", "big=cpu,,gpu"), "is no tag"),
        (("--listen", "4222"), "an address and a port"),
        (("--listen", "host:4222\nx"), "an address and a port"),
        (("--tls-verify",), "needs --tls-ca"),
        (("--monitor-port", "0"), "--monitor-port"),
    ],
)
def test_a_slip_is_told_and_nothing_is_written(
    command: Command, arguments: tuple[str, ...], why: str
) -> None:
    code, printed, complaint = command(*arguments)
    assert (code, printed) == (1, "")
    assert why in complaint
    assert not CONFIG.exists()


def test_half_of_tls_is_refused(command: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    assert "go together" in command("--tls-cert", authority.certificate().cert)[2]
    assert "needs --tls-cert" in command("--tls-ca", authority.ca)[2]


def test_the_page_of_the_server_is_for_its_own_host_alone(command: Command) -> None:
    command("--monitor-port", "8222")
    assert 'http: "127.0.0.1:8222"' in checked()


def test_streams_and_buckets_are_called_as_the_settings_say(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_WORK_STREAM", "ACME_WORK")
    monkeypatch.setenv("PYOCO_RUNS_KV_BUCKET", "acme_runs")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "usual")
    _, printed, _ = command()
    config = checked()
    assert '"$KV.acme_runs.*"' in config
    assert '"$JS.API.CONSUMER.MSG.NEXT.ACME_WORK.pyoco_workers_usual"' in config
    assert "PYOCO_WORK." not in config
    assert "PYOCO_WORKER_TAGS=usual" in printed


def test_one_signing_key_is_made_for_all(command: Command) -> None:
    _, printed, _ = command("--sign-jobs", "--worker-tag", "cpu")
    keys = re.findall(r"PYOCO_JOB_SIGNING_KEY=(\S+)", printed)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert keys[0] not in checked()
