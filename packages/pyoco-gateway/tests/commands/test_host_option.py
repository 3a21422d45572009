"""The option `--host`."""

import logging

import pytest

from pyoco_gateway.commands.host_option import settings_for_host
from pyoco_gateway.settings import GatewaySettings, gateway_settings
from pyoco_protocol.problems import CliUsageError

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - to see it refused
# Addresses reserved for documentation.
REACHABLE = ["192.0.2.7", "2001:db8::7", ALL_ADDRESSES, "::"]
PEPPER = "correct-horse-battery-staple-0123456789"


def settings_with(**environ: str) -> GatewaySettings:
    return gateway_settings({"PYOCO_LOAD_DOTENV": "0", **environ})


def bound(settings: GatewaySettings, host: str, *, insecure: bool = False) -> GatewaySettings:
    return settings_for_host(settings, host, insecure=insecure, command="pyoco-server up")


@pytest.mark.parametrize("host", REACHABLE)
def test_a_reachable_address_is_refused_without_authentication(host: str) -> None:
    with pytest.raises(CliUsageError) as refused:
        bound(settings_with(), host)

    output = str(refused.value)
    assert f"--host {host}" in output
    assert "PYOCO_HTTP_AUTH_MODE=api_key" in output
    assert "--insecure" in output
    assert "pyoco-server up --host 127.0.0.1" in output


@pytest.mark.parametrize("level", ["INFO", "CRITICAL"])
def test_insecure_prints_a_warning_to_stderr_and_the_log(
    level: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)

    bound(settings_with(), ALL_ADDRESSES, insecure=True)

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("WARNING") == 2
    assert "authentication is off" in output.err
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == (level == "INFO")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_needs_no_authentication_and_prints_no_warning(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bound(settings_with(), host)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("host", REACHABLE)
def test_with_authentication_any_address_is_allowed(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bound(settings_with(PYOCO_HTTP_AUTH_MODE="api_key", PYOCO_AUTH_PEPPER=PEPPER), host)

    assert capsys.readouterr() == ("", "")


def test_the_host_option_is_an_accepted_host_name() -> None:
    settings = settings_with(PYOCO_ALLOWED_HOSTS="a.example, b.example")

    assert bound(settings, "192.0.2.7", insecure=True).http.host_names == (
        "a.example",
        "b.example",
        "192.0.2.7",
    )
    assert bound(settings, ALL_ADDRESSES, insecure=True).http.host_names == (
        "a.example",
        "b.example",
    )


def test_the_host_option_is_not_a_trusted_origin() -> None:
    trusted = "http://127.0.0.1:3000"
    for environ in ({}, {"PYOCO_TRUSTED_ORIGINS": trusted}):
        settings = settings_with(**environ)
        for host in ("127.0.0.1", "localhost"):
            assert bound(settings, host).http.origins == settings.http.origins
