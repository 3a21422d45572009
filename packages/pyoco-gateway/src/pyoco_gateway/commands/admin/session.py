"""The broker connection of one admin command, with a timeout."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio

from pyoco_gateway.broker.preparation import Preparation
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import (
    BrokerLoginError,
    BrokerPermissionError,
    BrokerTlsError,
    BrokerUnavailableError,
)
from pyoco_protocol.settings import BrokerSettings, TopologySettings, load_settings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import key_topology

TIMEOUT_SEC: Final = 5.0


@asynccontextmanager
async def key_session(environ: Mapping[str, str]) -> AsyncIterator[tuple[Broker, Names]]:
    """Yield a broker with the bucket of keys; raise BrokerUnavailableError after the timeout."""
    settings = load_settings(BrokerSettings, environ)
    topology = key_topology(load_settings(TopologySettings, environ))
    async with open_broker(
        settings, name="pyoco-server-admin", prepare=Preparation(topology)
    ) as broker:
        with anyio.move_on_after(TIMEOUT_SEC):
            await broker.wait_until_up()
        try:
            broker.require_up()
            yield broker, topology.names
        except RefusedError as refusal:
            raise BrokerUnavailableError(f"{refusal} ({settings.nats_address})") from refusal
        except (BrokerLoginError, BrokerPermissionError, BrokerTlsError):
            # The messages of these already name the setting to change.
            raise
        except BrokerUnavailableError as error:
            raise BrokerUnavailableError(f"{error.cause} ({settings.nats_address})") from error
