"""Looks dead letters up, and removes one."""

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

# A letter that was stored before it is asked for is found. A gateway that has just been started
# may have many to read first.
_CATCH_UP_SEC: Final = 5.0
# How many letters that are gone may be met before an answer is due.
_MAX_READS: Final = 1000
# What the index can hold, and far beyond what a stream ever counts to.
_MAX_SEQ: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, and where to go on; None at the end."""

    letters: tuple[StoredLetter, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters: found by what is known of all, read one by one from the leader."""

    shelf: DeadLetterReader
    index: DeadLetterIndex

    async def page(
        self, wanted: LetterFilter, caller: Caller, *, before: int | None, limit: int
    ) -> LetterPage:
        """Return the caller's letters that match, the newest first.

        A page may be short, or even empty, with more behind it: where many are gone.
        """
        await self.catch_up()
        wanted = _own(wanted, caller)
        found: list[StoredLetter] = []
        for _ in range(_MAX_READS // limit):
            missing = limit - len(found)
            seqs = self.index.newest(wanted, before=before, limit=missing + 1)
            found += await self._read_all(seqs[:missing])
            if len(seqs) <= missing:
                return LetterPage(tuple(found), None)
            before = seqs[missing - 1]
            if len(found) == limit:
                break
        return LetterPage(tuple(found), before)

    async def matching(self, wanted: LetterFilter, caller: Caller, *, limit: int) -> list[int]:
        """Return the sequences of the caller's letters that match, the oldest first."""
        await self.catch_up()
        return self.index.oldest(_own(wanted, caller), after=0, limit=limit)

    async def read(self, seq: str, caller: Caller) -> StoredLetter:
        """Return a letter; raise DeadLetterNotFoundError where the caller has none there."""
        number = _number(seq)
        found = None if number is None else await self.shelf.read(number)
        if found is None or not caller.owns(found.letter.tenant_id):
            raise DeadLetterNotFoundError(shortened(seq))
        return found

    async def remove(self, seq: str, caller: Caller) -> None:
        """Take a letter out; raise DeadLetterNotFoundError where it was gone already."""
        if caller.tenant_id is not None:
            await self.read(seq, caller)
        number = _number(seq)
        if number is None or not await self.shelf.remove(number):
            raise DeadLetterNotFoundError(shortened(seq))
        self.index.drop(number)

    async def catch_up(self) -> None:
        """Bring the index to where the stream is now."""
        extent = await self.shelf.extent()
        self.index.forget_before(extent.first_seq)
        if not self.index.has_heard_of(extent.last_seq):
            # The last one may be gone; nobody will ever tell of it then.
            newest = await self.shelf.newest_seq()
            if not await self.index.hear_of(newest, timeout_sec=_CATCH_UP_SEC):
                raise BrokerUnavailableError("the dead letters are still being read")

    async def _read_all(self, seqs: list[int]) -> list[StoredLetter]:
        found: dict[int, StoredLetter] = {}
        troubles: list[BrokerUnavailableError | RefusedError] = []

        async def read(seq: int) -> None:
            try:
                letter = await self.shelf.read(seq)
            except (BrokerUnavailableError, RefusedError) as error:
                troubles.append(error)
                tasks.cancel_scope.cancel()
                return
            if letter is None:
                self.index.drop(seq)
            else:
                found[seq] = letter

        async with anyio.create_task_group() as tasks:
            for seq in seqs:
                tasks.start_soon(read, seq)
        if troubles:
            # Many may fail at once; one is enough to know.
            raise troubles[0]
        return [found[seq] for seq in seqs if seq in found]


def _own(wanted: LetterFilter, caller: Caller) -> LetterFilter:
    return replace(wanted, tenant_id=caller.tenant_id)


def _number(seq: str) -> int | None:
    """Return the sequence a caller means; None for what cannot be one."""
    # One spelling for each: no sign, no zero in front, and short enough to be read at once.
    if re.fullmatch(r"[1-9][0-9]{0,18}", seq) is None:
        return None
    return number if (number := int(seq)) <= _MAX_SEQ else None
