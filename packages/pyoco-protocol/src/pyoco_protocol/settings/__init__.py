"""What a process takes from its environment, checked before anything starts."""

from pyoco_protocol.problems import SettingsError
from pyoco_protocol.settings.base import PyocoSettings
from pyoco_protocol.settings.broker import (
    BrokerSettings,
    JobSigningSettings,
    QueueSetupSettings,
)
from pyoco_protocol.settings.environment import (
    SettingDoc,
    UnknownVariable,
    document_settings,
    load_settings,
    read_environment,
    settings_notes,
    unknown_variables,
)
from pyoco_protocol.settings.groups import (
    GROUPS,
    ConsumerSettings,
    DashboardSettings,
    DlqSettings,
    DotenvSettings,
    HeartbeatSettings,
    HttpAuthSettings,
    LogSettings,
    SnapshotSettings,
    TopologySettings,
    WatchSettings,
    WheelSettings,
    WorkerSettings,
)
from pyoco_protocol.settings.http_server import HttpServerSettings
from pyoco_protocol.settings.rates import RateSettings

__all__ = [
    "GROUPS",
    "BrokerSettings",
    "ConsumerSettings",
    "DashboardSettings",
    "DlqSettings",
    "DotenvSettings",
    "HeartbeatSettings",
    "HttpAuthSettings",
    "HttpServerSettings",
    "JobSigningSettings",
    "LogSettings",
    "PyocoSettings",
    "QueueSetupSettings",
    "RateSettings",
    "SettingDoc",
    "SettingsError",
    "SnapshotSettings",
    "TopologySettings",
    "UnknownVariable",
    "WatchSettings",
    "WheelSettings",
    "WorkerSettings",
    "document_settings",
    "load_settings",
    "read_environment",
    "settings_notes",
    "unknown_variables",
]
