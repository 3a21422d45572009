import pytest

from pyoco_client.testing import LocalServer, LocalServerError
from pyoco_testkit.absent_modules import AbsentModules


def test_a_server_that_is_not_installed_is_asked_for_by_name() -> None:
    hidden = AbsentModules(["pyoco_gateway", "pyoco_worker"])
    hidden.install()
    try:
        with pytest.raises(LocalServerError, match="needs pyoco-gateway") as caught:
            LocalServer().__enter__()
    finally:
        hidden.uninstall()
    assert caught.value.hint == 'Run: pip install "pyoco-gateway[nats]"'
