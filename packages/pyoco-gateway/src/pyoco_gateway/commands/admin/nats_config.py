"""`pyoco-server-admin nats-config`: configures a broker with separate gateway and worker users."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pyoco_protocol.ids import is_tag
from pyoco_protocol.problems import CliUsageError

if TYPE_CHECKING:
    from pyoco_gateway.broker.shared_config import BrokerUser, SharedBroker, TlsFiles, WorkerUser

EXAMPLES: Final[Mapping[str, str]] = {
    "nats-config": "pyoco-server-admin nats-config --worker-tag cpu --worker-tag gpu",
}
_PASSWORD_BYTES: Final = 32
_ANY_HOST: Final = frozenset({"0.0.0.0", "::", "[::]", ""})  # noqa: S104 - compared, not bound
_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("nats-config")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("nats-server.conf"),
    show_default=True,
    help="Configuration file to write.",
)
@click.option(
    "--logins",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the login settings of gateway and workers.  [stdout]",
)
@click.option("--force", is_flag=True, help="Replace the files; all passwords change.")
@click.option(
    "--listen",
    default="127.0.0.1:4222",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on.",
)
@click.option("--url", help="URL that gateway and workers connect to.  [from --listen]")
@click.option(
    "--store-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("jetstream"),
    show_default=True,
    help="Data directory of the server.",
)
@click.option("--server-name", help="Name of the server; unique in a cluster.")
@click.option(
    "--worker-tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Add a user for workers of this tag. May be repeated.  [PYOCO_DEFAULT_TAG]",
)
@click.option(
    "--worker",
    "named",
    multiple=True,
    metavar="NAME=TAG,TAG",
    help="Add a user for workers with several tags. May be repeated.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate of the server.")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate.")
@click.option("--tls-ca", type=_FILE, help="CA certificates that both sides trust.")
@click.option(
    "--tls-verify", is_flag=True, help="Require certificates from gateway and workers too."
)
@click.option(
    "--monitor-port",
    type=click.IntRange(1, 65535),
    help="Port of the monitoring pages, on 127.0.0.1.  [off]",
)
@click.option("--sign-jobs", is_flag=True, help="Also create a key for signing jobs.")
def nats_config(
    *,
    output: Path,
    logins: Path | None,
    force: bool,
    listen: str,
    url: str | None,
    store_dir: Path,
    server_name: str | None,
    tags: tuple[str, ...],
    named: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    tls_verify: bool,
    monitor_port: int | None,
    sign_jobs: bool,
) -> None:
    """Write a nats-server configuration, and the login settings of gateway and workers.

    Each user gets only the permissions it needs: a worker receives jobs of its own tags, reads the
    records of their runs through a gateway, and can neither forge jobs nor read API keys. The
    names of streams and buckets come from the settings of this command (PYOCO_WORK_STREAM and
    others).

    Both contain passwords. Only the owner can read the written files. Without --logins the login
    settings are printed to stdout; they cannot be printed again.

    \b
    pyoco-server-admin nats-config --worker-tag cpu --worker-tag gpu --logins logins.txt
    pyoco-server-admin nats-config --listen 0.0.0.0:4222 --url tls://broker.example:4222 \\
        --tls-cert broker.pem --tls-key broker-key.pem --tls-ca ca.pem --worker big=cpu,gpu
    """
    from pyoco_gateway.broker.shared_config import SharedBroker, shared_broker_config
    from pyoco_gateway.commands.admin.login_lines import login_lines
    from pyoco_gateway.settings import environment_with
    from pyoco_protocol.settings import TopologySettings, load_settings
    from pyoco_protocol.topology import names_from

    topology = load_settings(TopologySettings, environment_with({}))
    tls = _tls_files(tls_cert, tls_key, tls_ca, verify=tls_verify)
    broker = SharedBroker(
        listen=_address(listen),
        store=store_dir.resolve(),
        server_name=server_name,
        gateway=_user("gateway"),
        workers=_workers(tags or (() if named else (topology.default_tag,)), named),
        names=names_from(topology),
        tls=tls,
        monitor_port=monitor_port,
    )
    address = url or _url(listen, is_tls=tls is not None)
    signing_key = secrets.token_urlsafe(_PASSWORD_BYTES) if sign_jobs else None
    lines = "\n".join(login_lines(broker, address, signing_key))
    _write(output, shared_broker_config(broker), logins, f"{lines}\n", force=force)
    click.echo(f"wrote {output}; check it with: nats-server -t -c {output}", err=True)
    if logins is None:
        click.echo(lines)
    else:
        click.echo(f"wrote {logins}; distribute its parts, then delete it", err=True)
    _warn(broker)


def _refused(what: str) -> CliUsageError:
    return CliUsageError(what, EXAMPLES["nats-config"])


def _address(listen: str) -> str:
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}", listen):
        raise _refused(f"--listen {listen!r} must be an address and a port, such as 0.0.0.0:4222")
    return listen


def _url(listen: str, *, is_tls: bool) -> str:
    host, _, port = listen.rpartition(":")
    return f"{'tls' if is_tls else 'nats'}://{'localhost' if host in _ANY_HOST else host}:{port}"


def _user(name: str) -> "BrokerUser":
    from pyoco_gateway.broker.shared_config import BrokerUser

    return BrokerUser(
        name=f"pyoco-{name}",
        # Random and long, so a password hash in the configuration would add nothing.
        password=secrets.token_urlsafe(_PASSWORD_BYTES),
        inbox_prefix=f"_INBOX_{name}",
    )


def _workers(tags: tuple[str, ...], named: tuple[str, ...]) -> "tuple[WorkerUser, ...]":
    from pyoco_gateway.broker.shared_config import WorkerUser

    wanted: list[tuple[str, tuple[str, ...]]] = [(tag, (tag,)) for tag in tags]
    for text in named:
        name, _, listed = text.partition("=")
        own = tuple(dict.fromkeys(part.strip() for part in listed.split(",")))
        if not is_tag(name) or not listed:
            raise _refused(f"--worker {text!r} must be a name and its tags, such as big=cpu,gpu")
        wanted.append((name, own))
    for name, own in wanted:
        if wrong := [tag for tag in own if not is_tag(tag)]:
            raise _refused(f"{wrong[0]!r} is not a tag: use letters, digits, '_' and '-' only")
        if [each for each, _ in wanted].count(name) > 1:
            raise _refused(f"two users are named {name!r}; use --worker NAME=… for another name")
    return tuple(WorkerUser(_user(f"worker-{name}"), own) for name, own in wanted)


def _tls_files(
    cert: Path | None, key: Path | None, ca: Path | None, *, verify: bool
) -> "TlsFiles | None":
    from pyoco_gateway.broker.shared_config import TlsFiles

    if (cert is None) != (key is None):
        raise _refused("--tls-cert and --tls-key must be given together")
    if verify and ca is None:
        raise _refused("--tls-verify needs --tls-ca, which signs the certificates of clients")
    if cert is None or key is None:
        if ca is not None:
            raise _refused("--tls-ca needs --tls-cert and --tls-key")
        return None
    return TlsFiles(cert.resolve(), key.resolve(), ca.resolve() if ca else None, verify)


def _write(output: Path, config: str, logins: Path | None, lines: str, *, force: bool) -> None:
    from pyoco_gateway.commands.admin.secret_files import write_secret_files

    if logins is not None and logins.resolve() == output.resolve():
        raise _refused("--logins and --output must be different files")
    texts = {output: config} if logins is None else {output: config, logins: lines}
    try:
        write_secret_files(texts, force=force)
    except FileExistsError as error:
        raise _refused(f"{error.filename} already exists; --force replaces it") from error
    except OSError as error:
        path = error.filename or output
        raise _refused(f"{path} cannot be written: {error.strerror}") from error


def _warn(broker: "SharedBroker") -> None:
    from pyoco_gateway.http.server import is_loopback

    host = broker.listen.rpartition(":")[0].strip("[]")
    if broker.tls is None and not is_loopback(host):
        click.echo(
            f"warning: {broker.listen} can be reached from other machines; without --tls-cert, "
            "passwords and jobs are sent unencrypted",
            err=True,
        )
