"""Something to wait for that can be set again and again, by whoever has news."""

import anyio


class Wakeup:
    """Wakes the one who waits; set while nobody waits, the next wait ends at once."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake."""
        self._event.set()

    async def wait(self) -> None:
        """Return when it is set, or was since the last wait."""
        await self._event.wait()
        self._event = anyio.Event()
