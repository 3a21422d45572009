import pytest

from pyoco_client.cli import main


def test_an_argument_that_is_not_utf8_is_rejected_with_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["submit", "--flow-name", "\udcff"])
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    assert "ERR-PYOCO-0018" in printed.err
    assert "'\\udcff' is not UTF-8" in printed.err
    assert "pyoco-client submit" in printed.err.partition("example:")[2].splitlines()[0]
