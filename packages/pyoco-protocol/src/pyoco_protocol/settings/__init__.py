"""Settings from environment variables, validated when a process starts."""

from pyoco_protocol.problems import SettingsError
from pyoco_protocol.settings.base import PyocoSettings
from pyoco_protocol.settings.broker import BrokerSettings, JobSigningSettings, QueueSetupSettings
from pyoco_protocol.settings.caller_limits import RateSettings, WatchSettings
from pyoco_protocol.settings.dashboard import DashboardSettings
from pyoco_protocol.settings.env_file import DotenvSettings
from pyoco_protocol.settings.environment import (
    SettingDoc,
    UnknownVariable,
    command_language,
    document_settings,
    load_settings,
    read_environment,
    settings_notes,
    unknown_variables,
)
from pyoco_protocol.settings.groups import GROUPS
from pyoco_protocol.settings.http_auth import HttpAuthSettings
from pyoco_protocol.settings.http_server import HttpServerSettings
from pyoco_protocol.settings.process_log import LogSettings
from pyoco_protocol.settings.runs import (
    ConsumerSettings,
    DlqSettings,
    HeartbeatSettings,
    SnapshotSettings,
)
from pyoco_protocol.settings.topology import TopologySettings
from pyoco_protocol.settings.worker import ChildLimitSettings, WheelSettings, WorkerSettings

__all__ = [
    "GROUPS",
    "BrokerSettings",
    "ChildLimitSettings",
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
    "command_language",
    "document_settings",
    "load_settings",
    "read_environment",
    "settings_notes",
    "unknown_variables",
]
