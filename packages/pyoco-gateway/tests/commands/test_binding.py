"""Where a gateway may listen."""

import logging

import pytest

from pyoco_gateway.commands.binding import settings_for_host
from pyoco_gateway.settings import GatewaySettings, gateway_settings
from pyoco_protocol.problems import CliUsageError

EVERYWHERE = "0.0.0.0"  # noqa: S104 - to see it refused
# Documentation addresses: nobody's, and not this machine's.
ELSEWHERE = ["192.0.2.7", "2001:db8::7", EVERYWHERE, "::"]
PEPPER = "correct-horse-battery-staple-0123456789"


def settings_with(**environ: str) -> GatewaySettings:
    return gateway_settings({"PYOCO_LOAD_DOTENV": "0", **environ})


def bound(settings: GatewaySettings, host: str, *, insecure: bool = False) -> GatewaySettings:
    return settings_for_host(settings, host, insecure=insecure, command="pyoco-server up")


@pytest.mark.parametrize("host", ELSEWHERE)
def test_an_address_for_everybody_is_refused_without_keys(host: str) -> None:
    with pytest.raises(CliUsageError) as refused:
        bound(settings_with(), host)

    said = str(refused.value)
    assert f"--host {host}" in said
    assert "PYOCO_HTTP_AUTH_MODE=api_key" in said
    assert "--insecure" in said
    assert "pyoco-server up --host 127.0.0.1" in said


@pytest.mark.parametrize("level", ["INFO", "CRITICAL"])
def test_insecure_is_said_where_it_cannot_be_overlooked(
    level: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)

    bound(settings_with(), EVERYWHERE, insecure=True)

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("WARNING") == 2
    assert "nobody is asked for a key" in said.err
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == (level == "INFO")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_needs_neither_keys_nor_a_warning(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bound(settings_with(), host)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("host", ELSEWHERE)
def test_with_keys_any_address_will_do(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    bound(settings_with(PYOCO_HTTP_AUTH_MODE="api_key", PYOCO_AUTH_PEPPER=PEPPER), host)

    assert capsys.readouterr() == ("", "")


def test_a_gateway_may_be_called_by_the_name_it_was_told_to_listen_on() -> None:
    settings = settings_with(PYOCO_ALLOWED_HOSTS="a.example, b.example")

    assert bound(settings, "192.0.2.7", insecure=True).http.host_names == (
        "a.example",
        "b.example",
        "192.0.2.7",
    )
    assert bound(settings, EVERYWHERE, insecure=True).http.host_names == ("a.example", "b.example")
