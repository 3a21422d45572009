"""What a process takes from its environment, checked before anything starts."""

from pyoco_protocol.problems import SettingsError
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
    BrokerSettings,
    ConsumerSettings,
    DashboardSettings,
    DlqSettings,
    DotenvSettings,
    HeartbeatSettings,
    HttpAuthSettings,
    LogSettings,
    PyocoSettings,
    SnapshotSettings,
    TopologySettings,
    WheelSettings,
    WorkerSettings,
)

__all__ = [
    "GROUPS",
    "BrokerSettings",
    "ConsumerSettings",
    "DashboardSettings",
    "DlqSettings",
    "DotenvSettings",
    "HeartbeatSettings",
    "HttpAuthSettings",
    "LogSettings",
    "PyocoSettings",
    "SettingDoc",
    "SettingsError",
    "SnapshotSettings",
    "TopologySettings",
    "UnknownVariable",
    "WheelSettings",
    "WorkerSettings",
    "document_settings",
    "load_settings",
    "read_environment",
    "settings_notes",
    "unknown_variables",
]
