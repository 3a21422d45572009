from pyoco_worker.child.error_text import error_text


def test_an_exception_without_text_is_described_by_its_class() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(UnprintableError()).startswith("UnprintableError")
    assert error_text(ValueError("\ud800")) == "ValueError: \\ud800"
    assert len(error_text(ValueError("x" * 100_000))) < 5_000
