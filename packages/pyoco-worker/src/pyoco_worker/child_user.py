"""The user that flows run as, if it is not the user of the worker."""

import os
import pwd
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.problems import CliUsageError

_EXAMPLE: Final = "pyoco-worker --child-user pyoco-flows"


@dataclass(frozen=True, slots=True)
class ChildUser:
    """A user of the machine, with the groups that its processes get."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the user to programs."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    def as_argument(self) -> str:
        """Return the numbers for the command line of a child."""
        return ",".join(map(str, (self.uid, self.gid, *self.groups)))


def find_child_user(name: str) -> ChildUser:
    """Return the user of this name; raise CliUsageError if the worker cannot use it."""
    if os.geteuid() != 0:
        raise CliUsageError(
            f"--child-user: only root can start processes of another user ({name}); "
            "run the worker as root, or omit the option",
            _EXAMPLE,
        )
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise CliUsageError(
            f"--child-user: this machine has no user {name!r}; create it, for example with "
            f"useradd --system {name}",
            _EXAMPLE,
        ) from None
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return ChildUser(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir)
