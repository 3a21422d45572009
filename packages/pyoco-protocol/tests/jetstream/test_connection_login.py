"""A refused login or TLS handshake is reported repeatedly, with a reason an operator can act on."""

import base64
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import nkeys  # type: ignore[import-untyped] # it has no types
import pytest
from anyio.abc import SocketStream

from pyoco_protocol.jetstream import connection
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.certificates import Authority, CertificateFiles
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import free_port

PASSWORD = "s3cr3t-of-the-broker"
USERS = f'authorization {{ users: [{{ user: "worker", password: "{PASSWORD}" }}] }}'
REFUSED = "broker refuses the connection, retrying"


def settings_for(server: NatsServer, *, scheme: str = "nats", **values: object) -> BrokerSettings:
    return BrokerSettings.model_validate(
        {"nats_url": f"{scheme}://127.0.0.1:{server.port}", **values}
    )


def tls(files: CertificateFiles, authority: Authority, *, verify: bool = False) -> str:
    return (
        f"tls {{ cert_file: {json.dumps(str(files.cert))}, key_file: {json.dumps(str(files.key))}, "
        f"ca_file: {json.dumps(str(authority.ca))}, verify: {json.dumps(verify)} }}"
    )


def troubles(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == REFUSED]


@asynccontextmanager
async def refused_connection(settings: BrokerSettings) -> AsyncGenerator[Callable[[], str | None]]:
    """Yield a function that returns the error of a connection that never comes up."""

    def reason(broker: Broker) -> str | None:
        try:
            broker.require_up()
        except BrokerUnavailableError as error:
            return f"{error.entry.err_id}: {error}"
        return None

    async with open_broker(settings, name="tests") as broker:
        yield lambda: reason(broker)
        assert not broker.is_up


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        yield server


async def test_a_valid_user_and_password_connect(guarded: NatsServer) -> None:
    settings = settings_for(guarded, nats_user="worker", nats_password=PASSWORD)
    async with open_broker(settings, name="tests") as broker:
        with anyio.fail_after(10):
            await broker.wait_until_up()
        assert "api" in await ask(broker.client, "$JS.API.INFO")


async def test_a_wrong_password_is_reported_without_the_password(
    guarded: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(guarded, nats_user="worker", nats_password="wr0ng-s3cr3t")
    async with refused_connection(settings) as reason:
        expected = "ERR-PYOCO-0142: the broker refused the credentials of worker: "
        await eventually(lambda: (reason() or "").startswith(expected), True)
    [record] = troubles(caplog)
    assert record.levelno == logging.ERROR
    assert record.__dict__["err_id"] == "ERR-PYOCO-0142"
    assert "worker" in record.__dict__["reason"]
    assert "wr0ng-s3cr3t" not in caplog.text
    assert not any("wr0ng-s3cr3t" in str(record.__dict__) for record in caplog.records)


async def test_a_refused_login_is_logged_again_while_it_lasts(
    guarded: NatsServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_REMIND_SEC", 0.3)
    settings = settings_for(guarded, nats_user="worker", nats_password="wrong")
    async with refused_connection(settings):
        await eventually(lambda: len(troubles(caplog)) >= 3, True)


async def test_a_connection_without_credentials_is_refused(guarded: NatsServer) -> None:
    async with refused_connection(settings_for(guarded)) as reason:
        await eventually(lambda: "refused the credentials" in (reason() or ""), True)


async def test_answers_arrive_at_the_configured_inbox_prefix(nats_server: NatsServer) -> None:
    settings = settings_for(nats_server, nats_inbox_prefix="_INBOX_worker.cpu")
    async with open_broker(settings, name="tests") as broker:
        await broker.wait_until_up()
        assert broker.client.new_inbox().startswith("_INBOX_worker.cpu.")
        assert "api" in await ask(broker.client, "$JS.API.INFO")


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_a_broker_with_a_trusted_certificate_is_used_over_tls(
    tmp_path: Path, authority: Authority, scheme: str
) -> None:
    config = tls(authority.certificate(), authority)
    async with NatsServer(tmp_path / "nats", config=config) as server:
        settings = settings_for(server, scheme=scheme, nats_tls_ca=authority.ca)
        async with open_broker(settings, name="tests") as broker:
            with anyio.fail_after(10):
                await broker.wait_until_up()
            await server.restart()
            await eventually(lambda: broker.connections, 2)
            with anyio.fail_after(10):
                await broker.wait_until_up()
            assert "api" in await ask(broker.client, "$JS.API.INFO")


@pytest.mark.parametrize("by_name", [True, False], ids=["named", "system"])
async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture, by_name: bool
) -> None:
    config = tls(authority.certificate(), authority)
    # The system's CA certificates do not include it either.
    trusted = {"nats_tls_ca": Authority(tmp_path / "other").ca} if by_name else {}
    expected = "no trusted connection to the broker: its certificate is not trusted"
    async with (
        NatsServer(tmp_path / "nats", config=config) as server,
        refused_connection(settings_for(server, scheme="nats", **trusted)) as reason,
    ):
        await eventually(lambda: expected in (reason() or ""), True)
    assert {record.__dict__["err_id"] for record in troubles(caplog)} == {"ERR-PYOCO-0143"}


async def test_a_certificate_of_another_host_is_not_trusted(
    tmp_path: Path, authority: Authority
) -> None:
    config = tls(authority.certificate("broker.example"), authority)
    async with (
        NatsServer(tmp_path / "nats", config=config) as server,
        refused_connection(settings_for(server, nats_tls_ca=authority.ca)) as reason,
    ):
        await eventually(lambda: "127.0.0.1" in (reason() or ""), True)


async def test_a_broker_without_tls_never_receives_the_password_when_tls_is_required(
    tmp_path: Path, authority: Authority
) -> None:
    received = bytearray()

    async def plain_server(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b'INFO {"auth_required":true,"max_payload":1048576}\r\n')
            try:
                async for data in stream:
                    received.extend(data)
            except anyio.BrokenResourceError:
                return

    port = free_port()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    settings = BrokerSettings.model_validate(
        {
            "nats_url": f"tls://127.0.0.1:{port}",
            "nats_user": "worker",
            "nats_password": PASSWORD,
        }
    )
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, plain_server)
        async with refused_connection(settings) as reason:
            await eventually(lambda: "does not offer TLS" in (reason() or ""), True)
        tasks.cancel_scope.cancel()
    assert received == b""


async def test_leaving_while_a_refused_connection_is_closed_leaves_no_socket_open() -> None:
    closed = anyio.Event()

    async def plain_server(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b"INFO {}\r\n")
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.receive()
        closed.set()

    port = free_port()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    settings = BrokerSettings.model_validate({"nats_url": f"tls://127.0.0.1:{port}"})
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, plain_server)
        async with open_broker(settings, name="tests") as broker:
            # The library has begun to close the connection when the trouble is known.
            while broker.trouble is None:
                await anyio.lowlevel.checkpoint()
        with anyio.fail_after(10):
            await closed.wait()
        tasks.cancel_scope.cancel()


async def test_a_client_certificate_is_sent_to_a_broker_that_requires_one(
    tmp_path: Path, authority: Authority
) -> None:
    config = tls(authority.certificate(), authority, verify=True)
    certificate = authority.certificate("gateway@here")
    async with NatsServer(tmp_path / "nats", config=config) as server:
        settings = settings_for(
            server,
            nats_tls_ca=authority.ca,
            nats_tls_cert=certificate.cert,
            nats_tls_key=certificate.key,
        )
        async with open_broker(settings, name="tests") as broker:
            with anyio.fail_after(10):
                await broker.wait_until_up()
        async with refused_connection(settings_for(server, nats_tls_ca=authority.ca)) as reason:
            await eventually(lambda: "ERR-PYOCO-0143" in (reason() or ""), True)


def token(claims: dict[str, object], signer: nkeys.KeyPair) -> str:
    """Return a signed JWT as the NATS tools make it."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    body = {"iat": 1, "jti": "x", "iss": signer.public_key.decode(), **claims}
    head = encoded(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    signed = f"{head}.{encoded(json.dumps(body).encode())}"
    return f"{signed}.{encoded(signer.sign(signed.encode()))}"


def key_pair(kind: int) -> nkeys.KeyPair:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


async def test_a_credentials_file_connects(tmp_path: Path) -> None:
    operator, account, user = map(
        key_pair, (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    )
    name = account.public_key.decode()
    no_limits = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1}
    of_operator = token(
        {
            "sub": operator.public_key.decode(),
            "nats": {"type": "operator", "version": 2, "system_account": name},
        },
        operator,
    )
    of_account = token(
        {"sub": name, "nats": {"type": "account", "version": 2, "limits": no_limits}}, operator
    )
    of_user = token(
        {"sub": user.public_key.decode(), "nats": {"type": "user", "version": 2, "subs": -1}},
        account,
    )
    creds = tmp_path / "me.creds"
    creds.write_text(
        f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    config = (
        f"operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {name}: {of_account} }}"
    )
    async with NatsServer(tmp_path / "nats", config=config) as server:
        settings = settings_for(server, nats_creds=creds)
        async with open_broker(settings, name="tests") as broker:
            with anyio.fail_after(10):
                await broker.wait_until_up()
        async with refused_connection(settings_for(server)) as reason:
            await eventually(lambda: "refused the credentials" in (reason() or ""), True)
