"""Signatures that prove to a worker that a gateway published a job, unchanged.

A signature covers the subject and the whole body, which includes the run id. It does not prevent
replays: a worker drops an old job that is delivered again, because its run is terminal.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.problems import JobSignatureError

SIGNATURE_HEADER: Final = "x-pyoco-signature"
_VERSION: Final = "v1"
_KEY_ID_CHARS: Final = 12


@dataclass(frozen=True, slots=True, repr=False)
class JobSigner:
    """Signs jobs with its first key."""

    keys: Sequence[str]

    def headers(self, subject: str, job: bytes, *, now: float) -> dict[str, str]:
        """Return the signature header of a job; empty without keys."""
        if not self.keys:
            return {}
        key, issued_at = self.keys[0], f"{now:.3f}"
        mac = _mac(key, subject, issued_at, job)
        return {SIGNATURE_HEADER: " ".join((_VERSION, key_id(key), issued_at, mac))}

    def seal(self, job: bytes) -> str | None:
        """Return the seal to store in the record of an accepted run; None without keys.

        Workers can write run records. Before a gateway signs a job that it rebuilt from a record,
        it checks the seal to be sure that the job is the accepted one.
        """
        return f"{key_id(self.keys[0])} {_seal(self.keys[0], job)}" if self.keys else None

    def require_seal(self, job: bytes, given: str | None) -> None:
        """Raise JobSignatureError if keys are set and none of them made this seal for the job."""
        if not self.keys:
            return
        if given is None:
            raise JobSignatureError("is missing in the record of the run")
        sealed = given.encode(errors="replace")
        if not any(
            hmac.compare_digest(f"{key_id(key)} {_seal(key, job)}".encode(), sealed)
            for key in self.keys
        ):
            raise JobSignatureError("in the record of the run does not belong to this job")


@dataclass(frozen=True, slots=True, repr=False)
class JobVerifier:
    """Accepts jobs signed with one of its keys; without keys, accepts every job."""

    keys: Sequence[str]

    def verify(self, subject: str, headers: Mapping[str, str], job: bytes) -> None:
        """Raise JobSignatureError unless the signature matches this job and subject."""
        if not self.keys:
            return
        text = headers.get(SIGNATURE_HEADER)
        if text is None:
            raise JobSignatureError("is missing")
        version, named, issued_at, given = _parts(text)
        if version != _VERSION:
            raise JobSignatureError("has an unknown version")
        key = next((key for key in self.keys if key_id(key) == named), None)
        if key is None:
            raise JobSignatureError("was made with an unknown key")
        if not hmac.compare_digest(
            _mac(key, subject, issued_at, job).encode(), given.encode(errors="replace")
        ):
            raise JobSignatureError("does not belong to this job on this subject")


def key_id(key: str) -> str:
    """Return the public id of a key; it does not reveal the key."""
    return hmac.digest(key.encode(), b"pyoco job signing key", hashlib.sha256).hex()[:_KEY_ID_CHARS]


def _parts(text: str) -> tuple[str, str, str, str]:
    match text.split(" "):
        case [version, named, issued_at, given]:
            return version, named, issued_at, given
    raise JobSignatureError("cannot be read")


def _seal(key: str, job: bytes) -> str:
    # The prefix differs from that of a signature, so neither can be used as the other.
    return hmac.digest(key.encode(), b"pyoco run v1\n" + job, hashlib.sha256).hex()


def _mac(key: str, subject: str, issued_at: str, job: bytes) -> str:
    # A subject has no white space, so the signed text has only one reading.
    signed = f"pyoco job {_VERSION}\n{subject}\n{issued_at}\n".encode(errors="replace") + job
    return hmac.digest(key.encode(), signed, hashlib.sha256).hex()
