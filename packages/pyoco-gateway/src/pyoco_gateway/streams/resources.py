"""The open files and the memory that many event streams take from the process."""

import resource
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from pyoco_gateway.streams.limits import StreamLimits
from pyoco_protocol.process_memory import release_free_memory

# Other requests, the broker, files.
_OTHER_DESCRIPTORS: Final = 1024
_CHECK_SEC: Final = 2.0
# A smaller number of streams leaves too little free memory to give back.
_MIN_STREAMS: Final = 50


def allow_open_files(max_streams: int) -> None:
    """Raise this process's limit of open files so that `max_streams` streams fit.

    Each stream takes one file descriptor, and a common default limit is 1024.
    """
    wanted = max_streams + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


@dataclass(frozen=True, slots=True)
class StreamMemory:
    """Returns freed memory to the operating system after many streams have ended.

    The allocator keeps the memory of the snapshots that the streams have sent.
    """

    limits: StreamLimits

    async def run(self) -> None:
        """Check the number of open streams until cancelled."""
        while True:
            await anyio.sleep(_CHECK_SEC)
            if self.limits.most >= _MIN_STREAMS and self.limits.open <= self.limits.most // 2:
                self.limits.most = self.limits.open
                await anyio.to_thread.run_sync(release_free_memory)
