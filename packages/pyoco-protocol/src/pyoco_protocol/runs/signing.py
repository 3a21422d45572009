"""How a worker knows that a job comes from a gateway, and is as it was when it left it.

A signature covers the subject and the whole body, and with it the id of the run. It says nothing
of how often a job is delivered: an old job that comes again finds its run over, and is dropped.
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
    """Signs jobs with the first of its keys."""

    keys: Sequence[str]

    def headers(self, subject: str, job: bytes, *, now: float) -> dict[str, str]:
        """Return what travels beside a job; nothing where there is no key."""
        if not self.keys:
            return {}
        key, issued_at = self.keys[0], f"{now:.3f}"
        mac = _mac(key, subject, issued_at, job)
        return {SIGNATURE_HEADER: " ".join((_VERSION, key_id(key), issued_at, mac))}

    def seal(self, job: bytes) -> str | None:
        """Return what rests with a run that was taken in; nothing where there is no key.

        Workers write the records of runs. By this a gateway knows that the job it makes from one
        is the job that was accepted, before it signs it.
        """
        return f"{key_id(self.keys[0])} {_seal(self.keys[0], job)}" if self.keys else None

    def require_seal(self, job: bytes, given: str | None) -> None:
        """Raise JobSignatureError unless one of the keys has sealed this job, or there is none."""
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
    """Knows jobs that were signed with one of its keys; without keys, it trusts them all."""

    keys: Sequence[str]

    def verify(self, subject: str, headers: Mapping[str, str], job: bytes) -> None:
        """Raise JobSignatureError unless the job was signed for this subject, as it is."""
        if not self.keys:
            return
        text = headers.get(SIGNATURE_HEADER)
        if text is None:
            raise JobSignatureError("is missing")
        version, named, issued_at, given = _parts(text)
        if version != _VERSION:
            raise JobSignatureError("is of a kind that is not known here")
        key = next((key for key in self.keys if key_id(key) == named), None)
        if key is None:
            raise JobSignatureError("is of a key that is not known here")
        if not hmac.compare_digest(
            _mac(key, subject, issued_at, job).encode(), given.encode(errors="replace")
        ):
            raise JobSignatureError("does not belong to this job on this subject")


def key_id(key: str) -> str:
    """Return by what a key is named where it was used; the key cannot be found from it."""
    return hmac.digest(key.encode(), b"pyoco job signing key", hashlib.sha256).hex()[:_KEY_ID_CHARS]


def _parts(text: str) -> tuple[str, str, str, str]:
    match text.split(" "):
        case [version, named, issued_at, given]:
            return version, named, issued_at, given
    raise JobSignatureError("cannot be read")


def _seal(key: str, job: bytes) -> str:
    # Not to be taken for the signature of a job, which begins otherwise.
    return hmac.digest(key.encode(), b"pyoco run v1\n" + job, hashlib.sha256).hex()


def _mac(key: str, subject: str, issued_at: str, job: bytes) -> str:
    # A subject holds no white space, so that what is signed can be read in one way only.
    said = f"pyoco job {_VERSION}\n{subject}\n{issued_at}\n".encode(errors="replace") + job
    return hmac.digest(key.encode(), said, hashlib.sha256).hex()
