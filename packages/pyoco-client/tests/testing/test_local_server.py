import pytest

from pyoco_client.testing import LocalServer, LocalServerError
from pyoco_testkit.absent_modules import AbsentModules


def test_a_missing_package_is_named() -> None:
    hidden = AbsentModules(["pyoco_gateway", "pyoco_worker"])
    hidden.install()
    try:
        with pytest.raises(LocalServerError, match="needs pyoco-gateway") as caught:
            LocalServer().__enter__()
    finally:
        hidden.uninstall()
    assert caught.value.hint == 'Run: pip install "pyoco-gateway[nats]"'
