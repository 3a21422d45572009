"""The configuration of a nats-server that gateway and workers share, each with its own user.

Each worker user has its own NATS account, which imports only the subjects it needs from the
gateway's account. Permissions alone are not enough: a client chooses the subject of a JetStream
reply, and the server does not check whether the client may publish there. In its own account, a
worker can only reach its own subjects that way.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyoco_gateway.broker.config_file import LOOPBACK, quoted
from pyoco_protocol.broker_rights import (
    Rights,
    gateway_rights,
    pulls,
    worker_rights,
    worker_services,
)
from pyoco_protocol.subjects import Names, cancel_hints

_ACCOUNT: Final = "PYOCO"
# A pull request stays open for up to ten minutes, and a job may arrive at its end.
_PULL_SEC: Final = 660
_ANSWER_SEC: Final = 60


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user of the broker."""

    name: str
    password: str
    inbox_prefix: str


@dataclass(frozen=True, slots=True)
class WorkerUser:
    """The user of all workers with these tags."""

    user: BrokerUser
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """TLS files of the server; with `verify`, clients need a certificate too."""

    cert: Path
    key: Path
    ca: Path | None
    verify: bool


@dataclass(frozen=True, slots=True)
class SharedBroker:
    """The contents of the configuration."""

    listen: str
    store: Path
    server_name: str | None
    gateway: BrokerUser
    workers: tuple[WorkerUser, ...]
    names: Names
    tls: TlsFiles | None = None
    monitor_port: int | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all workers, each once."""
        return tuple(dict.fromkeys(tag for worker in self.workers for tag in worker.tags))


def shared_broker_config(broker: SharedBroker) -> str:
    """Return the configuration; only the users in it can log in."""
    return "\n".join(
        [
            "# Contains passwords: only nats-server may read this file.",
            *([f"server_name: {quoted(broker.server_name)}"] if broker.server_name else ()),
            f"listen: {quoted(broker.listen)}",
            *_monitoring(broker.monitor_port),
            "jetstream {",
            f"  store_dir: {quoted(broker.store)}",
            "  # Sync to disk before each acknowledgement.",
            "  sync_interval: always",
            "}",
            *(() if broker.tls is None else _tls(broker.tls)),
            "accounts {",
            *_gateway_account(broker),
            *(line for worker in broker.workers for line in _worker_account(worker, broker.names)),
            "}",
            "",
        ]
    )


def _monitoring(port: int | None) -> Iterator[str]:
    # Loopback only: the pages need no password and show connections and stored data.
    if port is not None:
        yield f"http: {quoted(f'{LOOPBACK}:{port}')}"


def _tls(files: TlsFiles) -> Iterator[str]:
    yield "tls {"
    yield f"  cert_file: {quoted(files.cert)}"
    yield f"  key_file: {quoted(files.key)}"
    if files.ca is not None:
        yield f"  ca_file: {quoted(files.ca)}"
    if files.verify:
        yield "  verify: true"
    yield "  timeout: 5"
    yield "}"


def _gateway_account(broker: SharedBroker) -> Iterator[str]:
    pulled = frozenset(pulls(broker.tags, broker.names))
    yield f"  {_ACCOUNT} {{"
    yield "    jetstream: enabled"
    yield "    users: ["
    yield from _user(broker.gateway, gateway_rights(broker.names))
    yield "    ]"
    yield "    exports: ["
    for subject, accounts in _exports(broker).items():
        many = f", response_type: Stream, response_threshold: '{_PULL_SEC}s'"
        kind = f"service: {quoted(subject)}{many if subject in pulled else ''}"
        yield f"      {{ {kind}, accounts: {accounts} }}"
    for tag in broker.tags:
        carriers = _listed(each.user.name for each in broker.workers if tag in each.tags)
        yield f"      {{ stream: {quoted(cancel_hints(tag))}, accounts: {carriers} }}"
    yield "    ]"
    yield "  }"


def _exports(broker: SharedBroker) -> dict[str, str]:
    """Return the accounts that may import each subject, as a list in configuration format."""
    accounts: dict[str, list[str]] = {}
    for worker in broker.workers:
        for subject in worker_services(worker.tags, broker.names):
            accounts.setdefault(subject, []).append(worker.user.name)
    return {subject: _listed(names) for subject, names in accounts.items()}


def _worker_account(worker: WorkerUser, names: Names) -> Iterator[str]:
    yield f"  {quoted(worker.user.name)} {{"
    yield "    imports: ["
    for subject in worker_services(worker.tags, names):
        yield f"      {{ service: {{ account: {_ACCOUNT}, subject: {quoted(subject)} }} }}"
    for tag in worker.tags:
        hints = quoted(cancel_hints(tag))
        yield f"      {{ stream: {{ account: {_ACCOUNT}, subject: {hints} }} }}"
    yield "    ]"
    yield "    users: ["
    yield from _user(worker.user, worker_rights(worker.tags, names))
    yield "    ]"
    yield "  }"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def _user(user: BrokerUser, rights: Rights) -> Iterator[str]:
    inbox = f"{user.inbox_prefix}.>"
    yield "      {"
    yield f"        user: {quoted(user.name)}, password: {quoted(user.password)}"
    yield "        permissions {"
    yield from _list("publish", [*rights.publish, inbox])
    yield from _list("subscribe", [*rights.subscribe, inbox])
    if rights.may_answer:
        yield f"          allow_responses: {{ max: 1, expires: '{_ANSWER_SEC}s' }}"
    yield "        }"
    yield "      }"


def _list(what: str, subjects: Sequence[str]) -> Iterable[str]:
    yield f"          {what}: ["
    yield from (f"            {quoted(subject)}" for subject in subjects)
    yield "          ]"
