"""The environment variables with which gateway and workers log in to a shared broker."""

from collections.abc import Iterator

from pyoco_gateway.broker.shared_config import BrokerUser, SharedBroker


def login_lines(broker: SharedBroker, url: str, signing_key: str | None) -> Iterator[str]:
    """Yield the lines of the `.env` files, for the gateway and for each worker user."""
    yield "# The gateway, and pyoco-server-admin"
    yield from _login(broker, broker.gateway, url, signing_key)
    yield f"PYOCO_WORKER_TAGS={','.join(broker.tags)}"
    for worker in broker.workers:
        yield ""
        yield f"# Workers started with --tags {','.join(worker.tags)}"
        yield from _login(broker, worker.user, url, signing_key)
        yield "PYOCO_WORKER_PREPARES_BROKER=false"


def _login(
    broker: SharedBroker, user: BrokerUser, url: str, signing_key: str | None
) -> Iterator[str]:
    yield f"PYOCO_NATS_URL={url}"
    yield f"PYOCO_NATS_USER={user.name}"
    yield f"PYOCO_NATS_PASSWORD={user.password}"
    yield f"PYOCO_NATS_INBOX_PREFIX={user.inbox_prefix}"
    if broker.tls is not None and broker.tls.ca is not None:
        yield f"PYOCO_NATS_TLS_CA={broker.tls.ca}"
    if broker.tls is not None and broker.tls.verify:
        yield f"# PYOCO_NATS_TLS_CERT and PYOCO_NATS_TLS_KEY: a certificate for {user.name}"
    if signing_key is not None:
        yield f"PYOCO_JOB_SIGNING_KEY={signing_key}"
