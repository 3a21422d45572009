"""The configuration file of the embedded nats-server."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LOG_FILE_BYTES: Final = 16 * 1024 * 1024
_LOG_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """The files of a broker in its data directory."""

    directory: Path

    @property
    def config(self) -> Path:
        """Configuration file."""
        return self.directory / "nats-server.conf"

    @property
    def store(self) -> Path:
        """JetStream data."""
        return self.directory / "jetstream"

    @property
    def pid(self) -> Path:
        """Process id, written by nats-server."""
        return self.directory / "nats-server.pid"

    @property
    def log(self) -> Path:
        """Log of nats-server."""
        return self.directory / "nats-server.log"

    @property
    def output(self) -> Path:
        """Output before the log is open, such as configuration errors."""
        return self.directory / "nats-server.out"


def broker_config(files: BrokerFiles, port: int) -> str:
    """Return the configuration of a broker that only this machine can reach.

    Messages are synced to disk before they are acknowledged. With the server's default interval
    of two minutes, a power failure would lose acknowledged messages.
    """
    return "\n".join(
        [
            f"server_name: {quoted(f'pyoco-embedded-{port}')}",
            f"listen: {quoted(f'{LOOPBACK}:{port}')}",
            f"pid_file: {quoted(files.pid)}",
            f"log_file: {quoted(files.log)}",
            f"logfile_size_limit: {_LOG_FILE_BYTES}",
            f"logfile_max_num: {_LOG_FILES}",
            "jetstream {",
            f"  store_dir: {quoted(files.store)}",
            "  sync_interval: always",
            "}",
            "",
        ]
    )


def quoted(value: object) -> str:
    """Return a value as a string in nats-server's configuration format."""
    # These strings are JSON strings without escapes for non-ASCII characters.
    return json.dumps(str(value), ensure_ascii=False)
