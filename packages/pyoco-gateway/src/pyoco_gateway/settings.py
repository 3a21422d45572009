"""The settings of a gateway, from the environment and the flags of a command."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyoco_gateway.access.keys import Pepper
from pyoco_protocol.settings import (
    BrokerSettings,
    ConsumerSettings,
    DashboardSettings,
    HeartbeatSettings,
    HttpAuthSettings,
    HttpServerSettings,
    JobSigningSettings,
    LogSettings,
    QueueSetupSettings,
    RateSettings,
    SnapshotSettings,
    TopologySettings,
    WatchSettings,
    load_settings,
    read_environment,
    settings_notes,
    unknown_variables,
)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All settings of a gateway, by group."""

    broker: BrokerSettings
    topology: TopologySettings
    snapshots: SnapshotSettings
    heartbeats: HeartbeatSettings
    dashboard: DashboardSettings
    log: LogSettings
    watching: WatchSettings
    http: HttpServerSettings
    auth: HttpAuthSettings
    consumers: ConsumerSettings
    queues: QueueSetupSettings
    signing: JobSigningSettings
    rates: RateSettings
    # Data directory of the broker that this process starts, if it does.
    broker_store: Path | None = None

    @property
    def auth_is_on(self) -> bool:
        """Whether callers need an API key."""
        return self.auth.http_auth_mode == "api_key"


def environment_with(
    flags: Mapping[str, str | None], *, defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment with the given flags in place of its variables.

    `defaults` apply to variables that neither the environment nor the `.env` file sets.
    """
    environ = dict(os.environ)
    seen = read_environment(environ)
    own = {name: value for name, value in (defaults or {}).items() if name not in seen}
    given = {name: value for name, value in flags.items() if value is not None}
    return {**environ, **own, **given}


def gateway_settings(environ: Mapping[str, str]) -> GatewaySettings:
    """Return the settings in `environ`; raise SettingsError naming the variable to change."""
    auth = load_settings(HttpAuthSettings, environ)
    if auth.http_auth_mode == "api_key":
        # Refuses a weak pepper at start, not at the first request with a key.
        Pepper.of(auth)
    return GatewaySettings(
        broker=load_settings(BrokerSettings, environ),
        topology=load_settings(TopologySettings, environ),
        snapshots=load_settings(SnapshotSettings, environ),
        heartbeats=load_settings(HeartbeatSettings, environ),
        dashboard=load_settings(DashboardSettings, environ),
        log=load_settings(LogSettings, environ),
        watching=load_settings(WatchSettings, environ),
        http=load_settings(HttpServerSettings, environ),
        auth=auth,
        consumers=load_settings(ConsumerSettings, environ),
        queues=load_settings(QueueSetupSettings, environ),
        signing=load_settings(JobSigningSettings, environ),
        rates=load_settings(RateSettings, environ),
    )


def environment_notes(environ: Mapping[str, str]) -> list[str]:
    """Return the notes about the environment that are logged once, at start."""
    seen = read_environment(environ)
    notes = settings_notes(seen)
    for unknown in unknown_variables(seen):
        meant = f"; did you mean {unknown.nearest}?" if unknown.nearest else ""
        notes.append(f"{unknown.name} is not a setting and has no effect{meant}")
    return notes
