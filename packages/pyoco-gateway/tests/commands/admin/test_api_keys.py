"""The command `pyoco-server-admin api-key`: real processes on a real broker."""

import json
import os
import re
import sys
import time
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

import earlier_keys
from pyoco_gateway import __version__
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, PresentedKey
from pyoco_gateway.commands.admin.api_keys import api_key
from pyoco_gateway.commands.admin.command import run
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.subjects import Names
from pyoco_testkit.documents import tables_in
from pyoco_testkit.environment import clean_environment
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import free_port

PEPPER = "a-pepper-for-tests"
COMMAND = [sys.executable, "-m", "pyoco_gateway.commands.admin", "api-key"]
COMMANDS = ("create", "list", "revoke", "rotate")
KEY_ID = "a2b3c4d5e6f7"


class AdminCommand:
    """Runs `pyoco-server-admin` commands, each as a process."""

    def __init__(self, nats_url: str, **environ: str | None) -> None:
        settings = {"PYOCO_NATS_URL": nats_url, "PYOCO_AUTH_PEPPER": PEPPER, **environ}
        given = {name: value for name, value in settings.items() if value is not None}
        self._environ = clean_environment(given)
        # Stderr of the last command, and of all commands.
        self.stderr = self.all_stderr = ""

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run `api-key` with these arguments; return its stdout."""
        done = await anyio.run_process(
            [*COMMAND, *arguments], env=self._environ, check=False, input=b""
        )
        self.stderr = done.stderr.decode()
        self.all_stderr += self.stderr
        assert done.returncode == code, self.stderr
        return done.stdout.decode()


def parts_of(printed: str) -> PresentedKey:
    key = PresentedKey.parse(printed.removesuffix("\n"))
    assert key is not None
    return key


async def stored_in(broker: Broker, bucket: str = Names().auth_bucket) -> list[ApiKeyRecord]:
    ring = KeyCache(broker, bucket)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ring.run)
        await ring.until_ready(10)
        tasks.cancel_scope.cancel()
    return ring.records()


async def test_only_the_key_is_on_stdout_and_it_matches_the_record(
    nats_server: NatsServer, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "server.env"
    file.write_text(
        f"PYOCO_NATS_URL={nats_server.url}\nPYOCO_AUTH_PEPPER={PEPPER}\n"
        "PYOCO_AUTH_KV_BUCKET=acme_keys\n"
    )
    before = time.time()
    done = await anyio.run_process(
        [*COMMAND, "create", "--tenant", "acme", "--name", "夜間 batch", "--expires", "30d"],
        env=clean_environment({"PYOCO_LOAD_DOTENV": "1", "PYOCO_ENV_FILE": str(file)}),
    )
    key, output = parts_of(done.stdout.decode()), done.stderr.decode()
    scopes = (
        "executions:read, executions:resume, executions:work, executions:write, graphs:write, "
        "ops, runs:read, runs:write, wheels:write"
    )
    for text in (key.key_id, "acme", f"scopes   {scopes}\n", "cannot be shown again"):
        assert text in output
    (record,) = await stored_in(broker, "acme_keys")
    assert Pepper(SecretStr(PEPPER)).matches(record, key.secret)
    assert (record.tenant_id, record.name) == ("acme", "夜間 batch")
    assert ", ".join(sorted(record.scopes)) == scopes
    assert record.expires_at is not None
    assert 0 <= record.expires_at - before - 30 * 86_400 < 60


async def test_no_command_leaves_a_secret_anywhere(nats_server: NatsServer) -> None:
    """Neither keys nor the pepper are in the bucket, on the broker's disk, or in a log."""
    admin = AdminCommand(nats_server.url, PYOCO_LOG_LEVEL="DEBUG")
    other = parts_of(await admin("create", "--tenant", "other", "--expires", "1s"))
    made = json.loads(
        await admin(
            *("create", "--tenant", "acme", "--scope", "ops,runs:read", "--scope", "admin"),
            *("--name", "grafana", "--json"),
        )
    )
    old = parts_of(made["key"])
    assert (made["key_id"], made["scopes"]) == (old.key_id, ["admin", "ops", "runs:read"])

    new = parts_of(await admin("rotate", "--key-id", old.key_id, "--overlap", "2h"))
    assert f"old key {old.key_id} is valid until 20" in admin.stderr
    as_json = await admin("list", "--tenant", "acme", "--json")
    before, after = json.loads(as_json)
    assert [each["key_id"] for each in (before, after)] == [old.key_id, new.key_id]
    assert [each["state"] for each in (before, after)] == ["active", "active"]
    assert before["rotated_to"] == new.key_id
    assert 7100 < before["expires_at"] - after["created_at"] <= 7200
    for field in ("tenant_id", "scopes", "name"):
        assert after[field] == before[field] == made[field]

    assert await admin("revoke", "--key-id", old.key_id) == ""
    assert f"key {old.key_id} of tenant acme is revoked" in admin.stderr
    assert f"its successor, key {new.key_id}, is not changed" in admin.stderr
    await eventually(lambda: time.time() > made["created_at"] + 1, True)

    as_table = await admin("list")
    head, *rows = as_table.splitlines()
    assert head.startswith("KEY ID ")
    assert [row.split()[:3] for row in rows] == [
        [old.key_id, "acme", "revoked"],
        [new.key_id, "acme", "active"],
        [other.key_id, "other", "expired"],
    ]
    assert f"rotated to {new.key_id}" in rows[0]

    await admin("rotate", "--key-id", old.key_id, code=1)
    assert f"API key {old.key_id} is revoked [ERR-PYOCO-0134]" in admin.stderr

    files = [path for path in nats_server.directory.rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in files)
    # The search above looked in the right place.
    assert new.key_id.encode() in kept
    shown = as_json + as_table + admin.all_stderr
    assert "broker connected" in shown
    assert "secret_hash" not in shown
    for secret in (PEPPER, other.secret, old.secret, new.secret):
        assert secret.encode() not in kept
        assert secret not in shown


async def test_unusual_records_are_marked_and_revoking_needs_no_pepper(
    nats_server: NatsServer, broker: Broker
) -> None:
    printed = await AdminCommand(nats_server.url)("create", "--tenant", "acme")
    key_id = parts_of(printed).key_id
    await Bucket(broker, Names().auth_bucket).create(KEY_ID, b"damaged")
    admin = AdminCommand(nats_server.url, PYOCO_AUTH_PEPPER="short")
    _, row = (await admin("list")).splitlines()
    assert key_id in row
    assert "issued with another PYOCO_AUTH_PEPPER: refused" in row
    assert f"invalid key record; the key is refused key_id={KEY_ID}" in admin.stderr
    await admin("revoke", "--key-id", key_id)
    (record,) = await stored_in(broker)
    assert record.revoked_at is not None


async def test_keys_of_an_earlier_server_are_listed_as_such(
    nats_server: NatsServer, broker: Broker
) -> None:
    bucket = Bucket(broker, Names().auth_bucket)
    admin = AdminCommand(nats_server.url)
    ours = parts_of(await admin("create", "--tenant", "acme")).key_id
    for key, value in earlier_keys.RECORDS.items():
        await bucket.create(key, value)
    _, *rows = (await admin("list")).splitlines()
    assert [row.split()[:3] for row in rows] == [
        [earlier_keys.KEY_ID, "acme", "refused"],
        [ours, "acme", "active"],
        [earlier_keys.REVOKED_ID, "gone", "revoked"],
    ]
    assert ["issued by an earlier server" in row for row in rows] == [True, False, True]
    # They are not reported as damaged.
    assert admin.stderr == ""
    listed = json.loads(await admin("list", "--tenant", "acme", "--json"))
    assert [each["issued_by_earlier_server"] for each in listed] == [True, False]
    assert [each["state"] for each in listed] == ["refused", "active"]
    assert {*listed[0]} == {*listed[1]}
    assert "hash_b64" not in json.dumps(listed)


async def test_a_key_of_an_earlier_server_can_be_revoked_but_not_rotated(
    nats_server: NatsServer, broker: Broker
) -> None:
    admin, key_id = AdminCommand(nats_server.url), earlier_keys.KEY_ID
    await admin("revoke", "--key-id", key_id, code=1)
    assert f"no API key has the id {key_id} [ERR-PYOCO-0133]" in admin.stderr
    bucket = Bucket(broker, Names().auth_bucket)
    (name, value), *_ = earlier_keys.RECORDS.items()
    await bucket.create(name, value)
    await admin("rotate", "--key-id", key_id, code=1)
    assert f"API key {key_id} was issued by an earlier server" in admin.stderr
    assert "[ERR-PYOCO-0134]" in admin.stderr
    await admin("revoke", "--key-id", key_id)
    assert f"key {key_id} of tenant acme is revoked" in admin.stderr
    found = await bucket.read(name)
    assert found is not None
    assert found.data is not None
    # The earlier server reads the record too.
    changed = json.loads(found.data)
    assert time.time() - changed.pop("revoked_at") < 60
    assert {**changed, "revoked_at": None} == json.loads(value)


async def test_a_key_that_cannot_be_checked_without_its_pepper_is_marked(
    nats_server: NatsServer,
) -> None:
    peppered = parts_of(await AdminCommand(nats_server.url)("create", "--tenant", "acme")).key_id
    admin = AdminCommand(nats_server.url, PYOCO_AUTH_PEPPER=None)
    plain = parts_of(await admin("create", "--tenant", "acme")).key_id
    listed = {each["key_id"]: each for each in json.loads(await admin("list", "--json"))}
    assert (listed[plain]["hash_kind"], listed[peppered]["hash_kind"]) == ("sha256", "hmac-sha256")
    assert (listed[plain]["fits_pepper"], listed[peppered]["fits_pepper"]) == (True, False)
    marked = [row for row in (await admin("list")).splitlines() if "PYOCO_AUTH_PEPPER" in row]
    assert [row.split()[0] for row in marked] == [peppered]
    assert "issued with a PYOCO_AUTH_PEPPER, which is not set here" in marked[0]
    # With any pepper, the key without one fits.
    other = AdminCommand(nats_server.url, PYOCO_AUTH_PEPPER="another-pepper-0123456789")
    marked = [row for row in (await other("list")).splitlines() if "PYOCO_AUTH_PEPPER" in row]
    assert [row.split()[0] for row in marked] == [peppered]


async def test_a_key_that_could_not_be_printed_is_named(
    nats_server: NatsServer, broker: Broker
) -> None:
    environ = {"PYOCO_NATS_URL": nats_server.url, "PYOCO_AUTH_PEPPER": PEPPER}
    reading, writing = os.pipe()
    os.close(reading)
    done = await anyio.run_process(
        [*COMMAND, "create", "--tenant", "acme"],
        stdout=writing,
        env=clean_environment(environ),
        check=False,
    )
    os.close(writing)
    (record,) = await stored_in(broker)
    assert done.returncode == 1
    assert f"key {record.key_id} is stored, but was not shown" in done.stderr.decode()
    assert f"revoke --key-id {record.key_id}" in done.stderr.decode()


async def test_an_unreachable_broker_is_reported_within_seconds() -> None:
    port = free_port()
    admin = AdminCommand(f"nats://admin:hush-hush@127.0.0.1:{port}")
    began = time.monotonic()
    await admin("list", code=1)
    assert time.monotonic() - began < 15
    *_, what, _message, _hint = admin.stderr.splitlines()
    assert f"nats unavailable: not connected to the broker (nats://127.0.0.1:{port})" in what
    assert "[ERR-PYOCO-0003]" in what
    assert "Traceback" not in admin.stderr
    assert "hush-hush" not in admin.stderr


async def test_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    environ = {"PYOCO_NATS_URL": f"nats://127.0.0.1:{free_port()}"}
    async with ManagedProcess("admin", [*COMMAND, "list"], tmp_path, environ) as process:
        await process.wait_for_log("broker unreachable")
        process.interrupt()
        assert await process.wait() == 130
    assert "Traceback" not in process.log()


# --- usage errors and help


@pytest.fixture
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = clean_environment()
    for name in [name for name in os.environ if name not in kept]:  # noqa: TID251 - to empty it
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "Missing command"),
        (["api-key"], "Missing command"),
        (["api-key", "create"], "Missing option '--tenant'"),
        (["api-key", "create", "--tenant", ""], "--tenant must be 1 to 64 letters"),
        (["api-key", "create", "--tenant", "a.b"], "--tenant must be 1 to 64 letters"),
        (["api-key", "create", "--tenant", "a", "--scope", "root"], "--scope must be one of runs:"),
        (["api-key", "create", "--tenant", "a", "--scope", ""], "--scope must be one of runs:"),
        (
            ["api-key", "create", "--tenant", "a", "--expires", "soon"],
            "--expires must be a duration",
        ),
        (
            ["api-key", "create", "--tenant", "a", "--expires", "0s"],
            "--expires must be in the future",
        ),
        (["api-key", "create", "--tenant", "a", "--name", "a\nb"], "--name must be 1 to 256"),
        (["api-key", "list", "--all"], "No such option"),
        (["api-key", "revoke"], "Missing option '--key-id'"),
        (["api-key", "revoke", "--key-id", "A2B3"], "--key-id must be a key id"),
        (["api-key", "rotate", "--key-id", KEY_ID, "--overlap", "1"], "--overlap must be a number"),
    ],
)
@pytest.mark.usefixtures("_own_environment")
def test_a_wrong_argument_exits_with_1_and_an_example(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    output = capsys.readouterr()
    assert output.out == ""
    first, example, *_ = output.err.splitlines()
    assert first.startswith(f"pyoco-server-admin: {what}")
    assert "[ERR-PYOCO-0018]" in first
    command = arguments[1] if arguments[1:] else "create"
    assert example.startswith(f"  example: pyoco-server-admin api-key {command}")


@pytest.mark.parametrize(
    "arguments", [["--key-id", "{key}"], ["--key-id", KEY_ID, "{key}"], ["--{key}"]]
)
@pytest.mark.parametrize("start", [f"pyoco_{KEY_ID}_", f"pyoco_{24 * '0'}."])
@pytest.mark.usefixtures("_own_environment")
def test_a_whole_key_instead_of_a_key_id_is_refused_and_not_printed(
    start: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    secret = 43 * "s"
    given = [each.format(key=f"{start}{secret}") for each in arguments]
    assert run(["api-key", "revoke", *given]) == 1
    output = capsys.readouterr()
    assert secret not in output.out + output.err


@pytest.mark.parametrize("arguments", [["create", "--tenant", "a"], ["rotate", "--key-id", KEY_ID]])
@pytest.mark.usefixtures("_own_environment")
def test_no_key_is_created_with_a_weak_pepper(
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pepper = "fifteen-letters"
    monkeypatch.setenv("PYOCO_AUTH_PEPPER", pepper)
    assert run(["api-key", *arguments]) == 1
    output = capsys.readouterr().err
    assert "PYOCO_AUTH_PEPPER: is " in output
    assert "openssl rand -hex 32" in output
    assert pepper not in output


def test_no_secret_can_be_given_as_an_argument() -> None:
    """All users of a machine can read the arguments of processes."""
    options = {
        option
        for command in api_key.commands.values()
        for parameter in command.params
        for option in parameter.opts
    }
    known = {"--tenant", "--scope", "--expires", "--name", "--json", "--key-id", "--overlap"}
    assert options == known


@pytest.mark.usefixtures("_own_environment")
def test_every_command_and_option_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    top = capsys.readouterr().out
    for text in ("api-key", "PYOCO_NATS_URL", "130"):
        assert text in top
    assert run(["api-key", "-h"]) == 0
    group = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", group, re.MULTILINE)
        assert run(["api-key", command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"pyoco-server-admin api-key {command}" in shown
        parameters = api_key.commands[command].params
        assert all(option in shown for each in parameters for option in each.opts)
        # Every option has a help text.
        assert all(getattr(each, "help", None) for each in parameters)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"pyoco-server-admin, version {__version__}\n"


def test_the_readme_names_every_command_and_its_options() -> None:
    readme = Path(__file__).parents[3] / "README.md"
    documented = {
        row["command"]: re.findall(r"--[a-z-]+", row["options"])
        for row in tables_in(readme)["Keys"]
    }
    known = {
        name: [option for parameter in command.params for option in parameter.opts]
        for name, command in api_key.commands.items()
    }
    assert documented == known
