"""Hashes that stand for texts in the tables of an index, because they are smaller."""

import hashlib
from functools import lru_cache


# The same ids come again with each change of a run or an execution.
@lru_cache(maxsize=4_096)
def hashed(text: str, *more: str) -> int:
    """Return a 64-bit hash of a text, or of several, for which collisions are negligible."""
    if more:
        # Each part has a length prefix, so that different parts never give the same text.
        text = "".join(f"{len(part)}:{part}" for part in (text, *more))
    # A record may hold lone surrogates, which UTF-8 cannot encode.
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
