"""Lists, reads and removes dead letters."""

import re
from dataclasses import dataclass, replace
from typing import Final

import anyio

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.dead_letters.index import DeadLetterIndex, LetterFilter
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.jetstream.dead_letter_reader import DeadLetterReader, StoredLetter
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, DeadLetterNotFoundError

# How long a request waits until all letters stored before it are in the index. A gateway that has
# just started may have many to read.
_CATCH_UP_SEC: Final = 5.0
# Maximum number of reads for one page; letters that no longer exist take reads too.
_MAX_READS: Final = 1000
# The largest integer of SQLite, far above any stream sequence.
_MAX_SEQ: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, and the start of the next page; None on the last page."""

    letters: tuple[StoredLetter, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Finds dead letters in the index and reads them from the stream leader."""

    reader: DeadLetterReader
    index: DeadLetterIndex

    async def page(
        self, letter_filter: LetterFilter, caller: Caller, *, before: int | None, limit: int
    ) -> LetterPage:
        """Return the caller's matching letters, newest first.

        A page may be short or empty without being the last one, if many letters were removed.
        """
        await self.catch_up()
        letter_filter = _of_tenant(letter_filter, caller)
        found: list[StoredLetter] = []
        for _ in range(_MAX_READS // limit):
            missing = limit - len(found)
            seqs = self.index.newest(letter_filter, before=before, limit=missing + 1)
            found += await self._read_all(seqs[:missing])
            if len(seqs) <= missing:
                return LetterPage(tuple(found), None)
            before = seqs[missing - 1]
            if len(found) == limit:
                break
        return LetterPage(tuple(found), before)

    async def matching(
        self, letter_filter: LetterFilter, caller: Caller, *, limit: int
    ) -> list[int]:
        """Return the sequences of the caller's matching letters, oldest first."""
        await self.catch_up()
        return self.index.oldest(_of_tenant(letter_filter, caller), after=0, limit=limit)

    async def read(self, seq: str, caller: Caller) -> StoredLetter:
        """Return a letter; raise DeadLetterNotFoundError if the caller has no such letter."""
        number = _parse_seq(seq)
        found = None if number is None else await self.reader.read(number)
        if found is None or not caller.owns(found.letter.tenant_id):
            raise DeadLetterNotFoundError(shortened(seq))
        return found

    async def remove(self, seq: str, caller: Caller) -> None:
        """Remove a letter; raise DeadLetterNotFoundError if it no longer exists."""
        if caller.tenant_id is not None:
            await self.read(seq, caller)
        number = _parse_seq(seq)
        if number is None or not await self.reader.remove(number):
            raise DeadLetterNotFoundError(shortened(seq))
        self.index.drop(number)

    async def catch_up(self) -> None:
        """Wait until the index holds all letters stored so far."""
        extent = await self.reader.extent()
        self.index.forget_before(extent.first_seq)
        if not self.index.has_seen(extent.last_seq):
            # The last letter may have been removed; then the watch never delivers it.
            newest = await self.reader.newest_seq()
            if not await self.index.wait_for(newest, timeout_sec=_CATCH_UP_SEC):
                raise BrokerUnavailableError("the dead letters are still being read")

    async def _read_all(self, seqs: list[int]) -> list[StoredLetter]:
        found: dict[int, StoredLetter] = {}
        errors: list[BrokerUnavailableError | RefusedError] = []

        async def read(seq: int) -> None:
            try:
                letter = await self.reader.read(seq)
            except (BrokerUnavailableError, RefusedError) as error:
                errors.append(error)
                tasks.cancel_scope.cancel()
                return
            if letter is None:
                self.index.drop(seq)
            else:
                found[seq] = letter

        async with anyio.create_task_group() as tasks:
            for seq in seqs:
                tasks.start_soon(read, seq)
        if errors:
            raise errors[0]
        return [found[seq] for seq in seqs if seq in found]


def _of_tenant(letter_filter: LetterFilter, caller: Caller) -> LetterFilter:
    return replace(letter_filter, tenant_id=caller.tenant_id)


def _parse_seq(seq: str) -> int | None:
    """Return a sequence as a number; None if it is not one."""
    # Each number has one spelling: no sign and no leading zero.
    if re.fullmatch(r"[1-9][0-9]{0,18}", seq) is None:
        return None
    return number if (number := int(seq)) <= _MAX_SEQ else None
