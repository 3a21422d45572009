"""What our nats-server is told."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LOG_FILE_BYTES: Final = 16 * 1024 * 1024
_LOG_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Where a broker keeps what, under one data directory."""

    directory: Path

    @property
    def config(self) -> Path:
        """What it is told."""
        return self.directory / "nats-server.conf"

    @property
    def store(self) -> Path:
        """What JetStream keeps."""
        return self.directory / "jetstream"

    @property
    def pid(self) -> Path:
        """Its process id, written by itself."""
        return self.directory / "nats-server.pid"

    @property
    def log(self) -> Path:
        """Its own log."""
        return self.directory / "nats-server.log"

    @property
    def output(self) -> Path:
        """What it says before its log is open, such as what is wrong with the configuration."""
        return self.directory / "nats-server.out"


def broker_config(files: BrokerFiles, port: int) -> str:
    """Return the configuration of a broker that only this machine can reach.

    Every acknowledged message is on disk before it is acknowledged: with the server's default
    of two minutes a power cut takes back what was promised.
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
    """Return a value as a string of the server's configuration format."""
    # A quoted string of this format is one of JSON, except that non-ASCII stays as it is.
    return json.dumps(str(value), ensure_ascii=False)
