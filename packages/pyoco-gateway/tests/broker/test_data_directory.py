"""Locking and cleaning of data directories."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_gateway.broker.data_directory import locked_directory
from pyoco_protocol.problems import BrokerLockHeldError, CliUsageError, EmbeddedBrokerError

HOLD = """
import sys
from pathlib import Path
from pyoco_gateway.broker.data_directory import locked_directory
with locked_directory(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_server_names_the_process_that_holds_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        with pytest.raises(BrokerLockHeldError) as refused, locked_directory(directory):
            pass

        assert refused.value.pid == holder.pid
        assert str(holder.pid) in str(refused.value)
        assert str(directory) in str(refused.value)
        holder.kill()

    # The lock is free after its holder has ended.
    with locked_directory(directory):
        assert (directory / "lock").read_text() == f"{os.getpid()}\n"


def test_the_lock_lasts_until_all_its_holders_have_ended(tmp_path: Path) -> None:
    """The broker of a killed server ends a little later; a new one must not use its files."""
    directory = tmp_path / "data"
    with locked_directory(directory) as lock:
        heir = os.dup(lock)
    (directory / "lock").write_text(f"{os.getppid()}\n")
    try:
        with pytest.raises(BrokerLockHeldError), locked_directory(directory):
            pass
    finally:
        os.close(heir)
    with locked_directory(directory):
        pass


def test_clean_empties_a_directory_of_pyoco_server(tmp_path: Path) -> None:
    directory, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with locked_directory(directory):
        (directory / "jetstream" / "deep").mkdir(parents=True)
        (directory / "worker.log").write_text("old")
        (directory / "link").symlink_to(outside)

    with locked_directory(directory, clean=True):
        left = {path.name for path in directory.iterdir()}

    assert left == {"lock", ".pyoco-data"}
    assert (outside / "kept").exists()


def test_clean_refuses_other_directories(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    refusal = pytest.raises(CliUsageError, match="was not created by pyoco-server")
    with refusal, locked_directory(tmp_path, clean=True):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_use_does_not_mark_an_existing_directory_for_cleaning(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with locked_directory(tmp_path):
        pass

    with pytest.raises(CliUsageError), locked_directory(tmp_path, clean=True):
        pass

    assert (tmp_path / "thesis.tex").exists()


def test_clean_refuses_a_directory_in_use(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with locked_directory(directory):
        (directory / "worker.log").write_text("in use")
        with pytest.raises(BrokerLockHeldError), locked_directory(directory, clean=True):
            pass
        assert (directory / "worker.log").exists()


def test_a_directory_that_cannot_be_created_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    refusal = pytest.raises(EmbeddedBrokerError, match="--data-dir")
    with refusal, locked_directory(tmp_path / "file" / "data"):
        pass


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_directory_is_closed_to_other_users(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with locked_directory(tmp_path / "above" / "data"):
            assert mode_of(tmp_path / "above" / "data") == 0o700
            assert mode_of(tmp_path / "above" / "data" / "lock") == 0o600
    finally:
        os.umask(before)
    # The directories above it are not ours.
    assert mode_of(tmp_path / "above") == 0o777 & ~umask


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o1777])
def test_a_directory_of_pyoco_server_is_closed_to_other_users(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "data"
    with locked_directory(directory):
        pass
    directory.chmod(mode)
    with locked_directory(directory):
        assert mode_of(directory) == 0o700
    # An empty directory, such as the mount point of a volume, is taken over in the same way.
    empty = tmp_path / "empty"
    empty.mkdir()
    empty.chmod(mode)
    with locked_directory(empty):
        assert mode_of(empty) == 0o700
    assert caplog.records == []


def test_a_directory_with_other_files_is_not_changed_but_a_warning_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a directory that other users need, such as `/tmp`."""
    (tmp_path / "thesis.txt").touch()
    tmp_path.chmod(0o755)
    with locked_directory(tmp_path):
        assert mode_of(tmp_path) == 0o755
    (warning,) = caplog.records
    assert warning.getMessage() == "other users can read the data directory"
    assert getattr(warning, "path", None) == str(tmp_path)
    assert getattr(warning, "fix", None) == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    caplog.clear()
    with locked_directory(tmp_path):
        assert caplog.records == []


def test_a_directory_of_another_owner_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example a volume that belongs to root and is writable for a group."""
    directory = tmp_path / "volume"
    directory.mkdir()
    directory.chmod(0o770)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "chmod", refused)
    with locked_directory(directory):
        assert mode_of(directory) == 0o770
    (warning,) = caplog.records
    assert warning.getMessage() == "other users can read the data directory"
