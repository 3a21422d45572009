"""A resettable event for one waiting task."""

import anyio


class Wakeup:
    """Wakes one waiting task; if none is waiting, the next wait returns at once."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake the task."""
        self._event.set()

    async def wait(self) -> None:
        """Return once `set` has been called since the last wait."""
        await self._event.wait()
        self._event = anyio.Event()
