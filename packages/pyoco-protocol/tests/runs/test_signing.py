"""A signature is valid for one job on one subject with one key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.problems import JobSignatureError
from pyoco_protocol.runs.signing import SIGNATURE_HEADER, JobSigner, JobVerifier, key_id

KEY = "a-key-that-is-long-enough-for-hmac"
OTHER = "another-key-that-is-long-enough-too"
SUBJECT = "pyoco.work.cpu"
JOB = b'{"run_id": "7d0c1a9e"}'
NOW = 1_794_960_817.5


def signed(job: bytes = JOB, subject: str = SUBJECT, *keys: str) -> dict[str, str]:
    return JobSigner(keys or (KEY,)).headers(subject, job, now=NOW)


@given(st.binary(), st.from_regex(r"[a-z.]{1,20}", fullmatch=True))
def test_a_signed_job_is_accepted(job: bytes, subject: str) -> None:
    JobVerifier((KEY,)).verify(subject, signed(job, subject), job)


@given(st.data(), st.binary(min_size=1))
def test_a_changed_job_is_refused(data: st.DataObject, job: bytes) -> None:
    at = data.draw(st.integers(0, len(job) - 1))
    changed = bytearray(job)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(JobSignatureError, match="does not belong"):
        JobVerifier((KEY,)).verify(SUBJECT, signed(job), bytes(changed))


@given(st.text(), st.integers(0, 200))
def test_a_changed_signature_is_refused(inserted: str, at: int) -> None:
    whole = signed()[SIGNATURE_HEADER]
    changed = whole[: at % len(whole)] + inserted
    if changed != whole:
        with pytest.raises(JobSignatureError):
            JobVerifier((KEY,)).verify(SUBJECT, {SIGNATURE_HEADER: changed}, JOB)


def test_a_job_signed_for_another_subject_is_refused() -> None:
    with pytest.raises(JobSignatureError, match="on this subject"):
        JobVerifier((KEY,)).verify("pyoco.work.gpu", signed(), JOB)


def test_the_time_of_signing_cannot_be_changed() -> None:
    headers = {SIGNATURE_HEADER: signed()[SIGNATURE_HEADER].replace("960817", "960818")}
    with pytest.raises(JobSignatureError, match="does not belong"):
        JobVerifier((KEY,)).verify(SUBJECT, headers, JOB)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "is missing"),
        ({"X-Pyoco-Signature": "v1 a b c"}, "is missing"),
        ({SIGNATURE_HEADER: ""}, "cannot be read"),
        ({SIGNATURE_HEADER: "v1 a b c d"}, "cannot be read"),
        ({SIGNATURE_HEADER: f"v2 {key_id(KEY)} 1 x"}, "has an unknown version"),
        ({SIGNATURE_HEADER: f"v1 {key_id(OTHER)} 1 x"}, "was made with an unknown key"),
        ({SIGNATURE_HEADER: f"v1 {key_id(KEY)} \ud800 \ud800"}, "does not belong"),
    ],
)
def test_a_job_without_a_valid_signature_is_refused(headers: dict[str, str], why: str) -> None:
    with pytest.raises(JobSignatureError, match=why) as refused:
        JobVerifier((KEY,)).verify(SUBJECT, headers, JOB)
    assert refused.value.entry.err_id == "ERR-PYOCO-0141"


def test_keys_can_be_changed_without_a_gap() -> None:
    both = JobVerifier((OTHER, KEY))
    both.verify(SUBJECT, signed(), JOB)
    both.verify(SUBJECT, signed(JOB, SUBJECT, OTHER, KEY), JOB)
    with pytest.raises(JobSignatureError):
        JobVerifier((KEY,)).verify(SUBJECT, signed(JOB, SUBJECT, OTHER, KEY), JOB)


def test_without_keys_nothing_is_signed_and_every_job_is_accepted() -> None:
    assert JobSigner(()).headers(SUBJECT, JOB, now=NOW) == {}
    JobVerifier(()).verify(SUBJECT, {}, JOB)
    JobVerifier(()).verify(SUBJECT, signed(), JOB)


def test_keys_are_never_in_a_repr() -> None:
    for each in (JobSigner((KEY,)), JobVerifier((KEY,)), signed()):
        assert KEY not in repr(each)


def test_a_seal_is_valid_for_one_job_and_is_not_a_signature() -> None:
    signer = JobSigner((KEY,))
    seal = signer.seal(JOB)

    JobSigner((OTHER, KEY)).require_seal(JOB, seal)
    for keys, job, shown in (
        ((KEY,), JOB + b" ", seal),
        ((OTHER,), JOB, seal),
        ((KEY,), JOB, None),
        ((KEY,), JOB, "é"),
        ((KEY,), JOB, " ".join(signed()[SIGNATURE_HEADER].split(" ")[1::2])),
    ):
        with pytest.raises(JobSignatureError):
            JobSigner(keys).require_seal(job, shown)


def test_without_keys_nothing_is_sealed_and_no_seal_is_required() -> None:
    assert JobSigner(()).seal(JOB) is None
    JobSigner(()).require_seal(JOB, None)
