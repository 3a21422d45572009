"""What is told of keys, where telling it is not easy."""

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


def test_a_key_that_nobody_can_be_told_is_named_so_that_it_can_be_revoked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = issued()
    # As after `>&-`.
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(CliUsageError, match=f"key {made.record.key_id} is stored"):
        hand_over(made, now=time.time(), as_json=False)


def test_who_rotates_under_another_pepper_is_warned(capsys: pytest.CaptureFixture[str]) -> None:
    show_rotated(issued().record, issued())
    assert "warning" not in capsys.readouterr().err
    show_rotated(issued("pepper-of-before-0123456789").record, issued())
    assert "made with another PYOCO_AUTH_PEPPER" in capsys.readouterr().err
