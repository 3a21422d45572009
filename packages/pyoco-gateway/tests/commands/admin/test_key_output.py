"""Output of keys in unusual cases."""

import sys
import time

import pytest
from pydantic import SecretStr

from pyoco_gateway.access.key_store import Issued
from pyoco_gateway.access.keys import Pepper, issue_key
from pyoco_gateway.commands.admin.key_output import hand_over, show_rotated
from pyoco_protocol.problems import CliUsageError


def issued(pepper: str = "pepper-of-the-tests-0123456789") -> Issued:
    return Issued(*issue_key(Pepper(SecretStr(pepper)), tenant_id="acme", now=time.time()))


def test_without_stdout_the_error_names_the_stored_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = issued()
    # The shell's `>&-`.
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(CliUsageError, match=f"key {made.record.key_id} is stored"):
        hand_over(made, now=time.time(), as_json=False)


def test_rotating_with_another_pepper_prints_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    show_rotated(issued().record, issued())
    assert "warning" not in capsys.readouterr().err
    show_rotated(issued("pepper-of-before-0123456789").record, issued())
    assert "issued with another PYOCO_AUTH_PEPPER" in capsys.readouterr().err
