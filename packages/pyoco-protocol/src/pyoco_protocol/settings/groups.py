"""All groups of settings, in the order of the documentation.

The field `log_level` is the variable `PYOCO_LOG_LEVEL`. A test compares `docs/settings.md` with the
fields.
"""

from typing import Final

from pyoco_protocol.settings.base import PyocoSettings
from pyoco_protocol.settings.broker import BrokerSettings, JobSigningSettings, QueueSetupSettings
from pyoco_protocol.settings.caller_limits import RateSettings, WatchSettings
from pyoco_protocol.settings.dashboard import DashboardSettings
from pyoco_protocol.settings.env_file import DotenvSettings
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

GROUPS: Final[tuple[type[PyocoSettings], ...]] = (
    BrokerSettings,
    QueueSetupSettings,
    JobSigningSettings,
    TopologySettings,
    HttpAuthSettings,
    HttpServerSettings,
    HeartbeatSettings,
    ConsumerSettings,
    DlqSettings,
    SnapshotSettings,
    WatchSettings,
    RateSettings,
    WorkerSettings,
    ChildLimitSettings,
    WheelSettings,
    DashboardSettings,
    LogSettings,
    DotenvSettings,
)
