"""A limited number of members that work at the same time: tasks, or threads."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from threading import Semaphore
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup


class AsyncCrew:
    """Members are tasks of an event loop; leaving the context waits for all of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._room: anyio.Semaphore
        self._group: TaskGroup
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        # Imported here because the client without `async` does not need it.
        import anyio

        self._room = anyio.Semaphore(self._size)
        self._group = await self._exits.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc_info: Any) -> bool | None:
        return await self._exits.__aexit__(*exc_info)

    async def reserve(self) -> None:
        """Wait until there is room for another member, and reserve it."""
        await self._room.acquire()

    def try_reserve(self) -> bool:
        """Reserve room for another member; return False if there is none now."""
        if self._room.value == 0:
            return False
        self._room.acquire_nowait()
        return True

    def release(self) -> None:
        """Give back room that was reserved."""
        self._room.release()

    async def begin(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Let a member do `work` in the reserved room; errors of `work` end the crew."""

        async def member() -> None:
            try:
                await work(*args)
            finally:
                self.release()

        self._group.start_soon(member)


class Crew:
    """Members are threads; leaving the context waits for all of them."""

    def __init__(self, size: int) -> None:
        self._room = Semaphore(size)
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="pyoco-task")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def reserve(self) -> None:
        """Wait until there is room for another member, and reserve it."""
        self._room.acquire()

    def try_reserve(self) -> bool:
        """Reserve room for another member; return False if there is none now."""
        return self._room.acquire(blocking=False)

    def release(self) -> None:
        """Give back room that was reserved."""
        self._room.release()

    def begin(self, work: Callable[..., None], *args: Any) -> None:
        """Let a member do `work` in the reserved room."""

        def member() -> None:
            try:
                work(*args)
            finally:
                self.release()

        self._pool.submit(member)
