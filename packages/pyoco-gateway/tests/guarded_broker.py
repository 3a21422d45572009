"""A broker with the configuration that `pyoco-server-admin nats-config` writes."""

from pathlib import Path

from click.testing import CliRunner

from pyoco_gateway.commands.admin.nats_config import nats_config


def guarded_broker(directory: Path, *arguments: str) -> tuple[Path, dict[str, dict[str, str]]]:
    """Return a configuration, and the login variables of each user: `gateway`, `worker-cpu`, …"""
    config = directory / "nats-server.conf"
    options = ["--output", str(config), "--store-dir", str(directory / "store"), *arguments]
    printed = CliRunner().invoke(nats_config, options, catch_exceptions=False).stdout
    logins = {}
    for part in printed.split("\n\n"):
        lines = [line for line in part.splitlines() if line and not line.startswith("#")]
        login = dict(line.split("=", 1) for line in lines)
        # The test server listens on a free port, not on the configured one.
        del login["PYOCO_NATS_URL"]
        logins[login["PYOCO_NATS_USER"].removeprefix("pyoco-")] = login
    return config, logins


def without_executions(config: str) -> str:
    """Return the configuration of a release before executions."""
    added = ("PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "pyoco_exec_checkpoints", "pyoco.exec", "pyoco.gr")
    lines = config.splitlines(keepends=True)
    return "".join(line for line in lines if not any(word in line for word in added))
