"""Credentials, TLS files, queue setup and signing keys are validated at start."""

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_protocol.settings import (
    BrokerSettings,
    JobSigningSettings,
    QueueSetupSettings,
    SettingsError,
    document_settings,
    load_settings,
)
from pyoco_testkit.certificates import Authority

PASSWORD = "s3cr3t-of-the-broker"
CREDS = "-----BEGIN NATS USER JWT-----\nx\n-----BEGIN USER NKEY SEED-----\ny\n"
KEY = "k" * 32


def loaded(**variables: object) -> BrokerSettings:
    environ = {f"PYOCO_{name.upper()}": str(value) for name, value in variables.items()}
    return load_settings(BrokerSettings, {"PYOCO_LOAD_DOTENV": "0", **environ})


def refused(**variables: object) -> tuple[str, str]:
    """Return the invalid variable and the fault."""
    with pytest.raises(SettingsError) as caught:
        loaded(**variables)
    assert PASSWORD not in str(caught.value)
    [problem] = caught.value.problems
    return problem.variable, problem.what


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def test_a_user_needs_a_name_and_a_password() -> None:
    assert loaded(nats_user="worker", nats_password=PASSWORD).user_name == "worker"


def test_no_secret_is_shown() -> None:
    by_name = loaded(nats_user="worker", nats_password=PASSWORD)
    by_url = loaded(nats_url=f"nats://worker:{PASSWORD}@broker:4222")
    token = loaded(nats_url=f"nats://{PASSWORD}@broker:4222")
    for settings in (by_name, by_url, token):
        for text in (repr(settings), str(settings), settings.nats_address, settings.user_name):
            assert PASSWORD not in text


@pytest.mark.parametrize(
    ("variables", "variable", "why"),
    [
        ({"nats_user": "worker"}, "PYOCO_NATS_PASSWORD", "PYOCO_NATS_USER requires it"),
        ({"nats_password": PASSWORD}, "PYOCO_NATS_USER", "PYOCO_NATS_PASSWORD requires it"),
        (
            {"nats_url": f"nats://a:{PASSWORD}@b", "nats_user": "w", "nats_password": "p"},
            "PYOCO_NATS_USER",
            "both set",
        ),
        ({"nats_inbox_prefix": "in box"}, "PYOCO_NATS_INBOX_PREFIX", "words"),
        ({"nats_inbox_prefix": "inbox.>"}, "PYOCO_NATS_INBOX_PREFIX", "words"),
    ],
)
def test_an_incomplete_or_ambiguous_login_is_refused(
    variables: dict[str, str], variable: str, why: str
) -> None:
    named, what = refused(**variables)
    assert named == variable
    assert why in what


@pytest.mark.parametrize("field", ["nats_creds", "nats_tls_ca", "nats_tls_cert", "nats_tls_key"])
def test_a_missing_file_is_refused_with_its_variable(field: str, tmp_path: Path) -> None:
    named, what = refused(**{field: tmp_path / "nowhere.pem"})
    assert named == f"PYOCO_{field.upper()}"
    assert "no such file" in what


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    named, what = refused(nats_tls_ca=tmp_path)
    assert named == "PYOCO_NATS_TLS_CA"
    assert "directory" in what


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    gateway, worker = authority.certificate("gateway@here"), authority.certificate("worker@here")
    named, what = refused(nats_tls_cert=gateway.cert, nats_tls_key=worker.key)
    assert named == "PYOCO_NATS_TLS_KEY"
    assert "not the key of the certificate" in what


def test_a_certificate_without_its_key_is_refused(authority: Authority) -> None:
    assert refused(nats_tls_cert=authority.certificate().cert)[0] == "PYOCO_NATS_TLS_KEY"
    assert refused(nats_tls_key=authority.certificate().key)[0] == "PYOCO_NATS_TLS_CERT"


def test_a_file_without_a_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a certificate")
    assert refused(nats_tls_ca=text) == (
        "PYOCO_NATS_TLS_CA",
        "contains no certificate in PEM format",
    )
    named, what = refused(nats_tls_cert=text, nats_tls_key=authority.certificate().key)
    assert named == "PYOCO_NATS_TLS_KEY"
    assert "not an unencrypted key and its certificate" in what


def test_an_encrypted_key_is_refused_without_asking_for_its_password(
    authority: Authority, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    certificate = authority.certificate()
    key = serialization.load_pem_private_key(certificate.key.read_bytes(), None)
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    load = (
        "from pyoco_protocol.settings import BrokerSettings, load_settings; "
        "load_settings(BrokerSettings)"
    )
    environ = {"PYOCO_NATS_TLS_CERT": str(certificate.cert), "PYOCO_NATS_TLS_KEY": str(encrypted)}
    done = subprocess.run(
        [sys.executable, "-c", load],
        env=environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "not an unencrypted key and its certificate" in done.stderr
    assert "Enter PEM pass phrase" not in done.stderr


def test_a_credentials_file_is_validated(tmp_path: Path) -> None:
    creds = tmp_path / "me.creds"
    creds.write_text(CREDS)
    assert loaded(nats_creds=creds).user_name == "the user of me.creds"
    assert "set only one of them" in refused(nats_creds=creds, nats_user="w", nats_password="p")[1]
    creds.write_text("not credentials")
    assert refused(nats_creds=creds) == (
        "PYOCO_NATS_CREDS",
        "is not a file with a user's JWT and seed",
    )


def test_a_ca_file_or_a_tls_url_requires_tls(authority: Authority) -> None:
    assert loaded(nats_tls_ca=authority.ca).requires_tls
    assert loaded(nats_url="tls://broker:4222").requires_tls
    assert not loaded().requires_tls


def test_certificates_are_always_verified(authority: Authority) -> None:
    for settings in (loaded(), loaded(nats_tls_ca=authority.ca)):
        context = settings.tls_context()
        assert context.check_hostname
        assert context.verify_mode is ssl.CERT_REQUIRED


def test_worker_tags_are_split_and_validated() -> None:
    setup = load_settings(QueueSetupSettings, {"PYOCO_WORKER_TAGS": "cpu, gpu,cpu"})
    assert setup.prepared_tags == ("cpu", "gpu")
    assert QueueSetupSettings().prepared_tags == ()
    with pytest.raises(SettingsError, match="PYOCO_WORKER_TAGS"):
        load_settings(QueueSetupSettings, {"PYOCO_WORKER_TAGS": "cpu,g.pu"})


def test_several_signing_keys_can_be_set() -> None:
    signing = load_settings(JobSigningSettings, {"PYOCO_JOB_SIGNING_KEY": f"{KEY}new, {KEY}old"})
    assert signing.keys == (f"{KEY}new", f"{KEY}old")
    assert JobSigningSettings().keys == ()
    assert KEY not in repr(signing)


@pytest.mark.parametrize("keys", ["short", f"{KEY},", f"{KEY},short"])
def test_a_short_signing_key_is_refused(keys: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(JobSigningSettings, {"PYOCO_JOB_SIGNING_KEY": keys})
    assert "32 characters" in str(caught.value)
    assert keys not in str(caught.value)


def test_no_secret_is_shown_in_errors() -> None:
    secrets = {"nats_url", "nats_password", "job_signing_key"}
    shown = {
        f"PYOCO_{name.upper()}"
        for group in (BrokerSettings, JobSigningSettings)
        for name, field in group.model_fields.items()
        if field.repr
    }
    assert shown.isdisjoint(f"PYOCO_{name.upper()}" for name in secrets)
    assert shown < {row.variable for row in document_settings()}
