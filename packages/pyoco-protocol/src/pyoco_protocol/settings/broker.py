"""Connection to NATS, queue setup and signing of jobs."""

import importlib.util
import ssl
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, SecretStr, model_validator

from pyoco_protocol.settings.base import PREFIX, PyocoSettings, SettingRuleError, setting
from pyoco_protocol.settings.values import (
    Boolean,
    NatsUrls,
    PathValue,
    SubjectPrefix,
    TagNames,
    split_tags,
    split_urls,
)

_TLS_SCHEMES: Final = frozenset({"tls", "wss"})
_SEED_MARK: Final = "BEGIN USER NKEY SEED"
_MIN_SIGNING_KEY_CHARS: Final = 32


def _readable(path: Path) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(str(error.strerror or "cannot be read").lower()) from None


ReadableFile = Annotated[PathValue, AfterValidator(_readable)]


class BrokerSettings(PyocoSettings):
    """Address of NATS, credentials and TLS."""

    nats_url: NatsUrls = setting(
        "nats://127.0.0.1:4222",
        "Address of NATS; several are separated by commas. May contain user:password@. "
        "`tls://` requires TLS.",
        "nats://broker.example:4222",
        secret=True,
    )
    nats_user: str | None = setting(None, "NATS user; requires a password.", "pyoco-gateway")
    nats_password: SecretStr | None = setting(
        None, "Password of the NATS user.", "a-long-random-secret", secret=True
    )
    nats_creds: ReadableFile | None = setting(
        None,
        "File with a user's JWT and seed, instead of user and password.",
        "/etc/pyoco/me.creds",
    )
    nats_tls_ca: ReadableFile | None = setting(
        None,
        "CA certificates for the broker's certificate; default: those of the system. "
        "Setting it requires TLS.",
        "/etc/pyoco/ca.pem",
    )
    nats_tls_cert: ReadableFile | None = setting(
        None, "Client certificate, for a broker that requires one.", "/etc/pyoco/gateway.pem"
    )
    nats_tls_key: ReadableFile | None = setting(
        None, "Unencrypted key of the client certificate.", "/etc/pyoco/gateway-key.pem"
    )
    nats_inbox_prefix: SubjectPrefix = setting(
        "_INBOX",
        "Subject prefix of replies. With a separate prefix, other users of the broker cannot read "
        "them. Gateways answer a worker only if its prefix begins with `_INBOX` or is that of the "
        "gateway.",
        "_INBOX_gateway",
    )

    @property
    def nats_address(self) -> str:
        """`nats_url` without credentials, for logs and messages."""
        return ",".join(map(_without_credentials, split_urls(self.nats_url)))

    @property
    def user_name(self) -> str:
        """The NATS user, for logs and messages; never a secret."""
        if self.nats_user is not None:
            return self.nats_user
        if self.nats_creds is not None:
            return f"the user of {self.nats_creds.name}"
        parts = urlsplit(split_urls(self.nats_url)[0])
        # In a URL, a user without a password is a token.
        return (parts.username if parts.password else None) or "an anonymous user"

    @property
    def requires_tls(self) -> bool:
        """Whether a broker without TLS is refused before credentials are sent."""
        schemes = {urlsplit(url).scheme for url in split_urls(self.nats_url)}
        return bool(schemes & _TLS_SCHEMES or self.nats_tls_ca or self.nats_tls_cert)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context; raise SettingRuleError if a certificate file is invalid."""
        ca = self.nats_tls_ca
        context = ssl.create_default_context() if ca is None else self._trusting(ca)
        if self.nats_tls_cert is not None and self.nats_tls_key is not None:
            self._load_client_certificate(context, self.nats_tls_cert, self.nats_tls_key)
        return context

    @model_validator(mode="after")
    def _login_is_complete(self) -> Self:
        for one, other in (
            ("nats_user", "nats_password"),
            ("nats_password", "nats_user"),
            ("nats_tls_cert", "nats_tls_key"),
            ("nats_tls_key", "nats_tls_cert"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise self._broken(other, f"is not set, but {_variable(one)} requires it")
        in_url = any(urlsplit(url).username for url in split_urls(self.nats_url))
        if self.nats_creds is not None and (in_url or self.nats_user is not None):
            raise self._broken("nats_creds", "and a user are both set; set only one of them")
        if in_url and self.nats_user is not None:
            raise self._broken("nats_user", "and a user in PYOCO_NATS_URL are both set")
        return self

    @model_validator(mode="after")
    def _files_are_valid(self) -> Self:
        if self.nats_creds is not None:
            if importlib.util.find_spec("nkeys") is None:
                raise self._broken("nats_creds", "requires the package nkeys: it is not installed")
            if _SEED_MARK not in self.nats_creds.read_text(encoding="utf-8", errors="replace"):
                raise self._broken("nats_creds", "is not a file with a user's JWT and seed")
        if self.requires_tls:
            self.tls_context()
        return self

    def _trusting(self, ca: Path) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=ca)
        except ssl.SSLError:
            raise self._broken("nats_tls_ca", "contains no certificate in PEM format") from None

    def _load_client_certificate(self, context: ssl.SSLContext, cert: Path, key: Path) -> None:
        try:
            # Without a password, OpenSSL would ask for one on the terminal if the key is
            # encrypted; with an empty one, loading fails.
            context.load_cert_chain(cert, key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                what = "is not the key of the certificate in PYOCO_NATS_TLS_CERT"
            else:
                what = (
                    "and PYOCO_NATS_TLS_CERT are not an unencrypted key and its certificate in PEM "
                    "format"
                )
            raise self._broken("nats_tls_key", what) from None

    def _broken(self, field: str, what: str) -> SettingRuleError:
        examples = type(self).model_fields[field].examples or [""]
        return SettingRuleError(_variable(field), what, str(examples[0]))


class QueueSetupSettings(PyocoSettings):
    """Which process creates the streams, buckets and queues that workers need."""

    worker_tags: TagNames = setting(
        "",
        "Tags whose queues the gateway creates, separated by commas; for workers without the "
        "permission.",
        "cpu,gpu",
    )
    worker_prepares_broker: Boolean = setting(
        True,
        "Whether a worker creates missing streams, buckets and queues, and reads records from the "
        "broker; `false` for a worker without the permissions, which reads through a gateway.",
        "false",
    )

    @property
    def prepared_tags(self) -> tuple[str, ...]:
        """The tags in `worker_tags`."""
        return split_tags(self.worker_tags)


class JobSigningSettings(PyocoSettings):
    """Keys that sign jobs and check their signatures."""

    job_signing_key: SecretStr | None = setting(
        None,
        "Secret that signs jobs; a worker with this setting runs only jobs signed with one of "
        "these keys. Several are "
        "separated by commas: the first signs, all are accepted.",
        "a-long-random-secret-of-32-characters",
        secret=True,
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, the signing key first; empty if jobs are not signed."""
        if self.job_signing_key is None:
            return ()
        return tuple(key.strip() for key in self.job_signing_key.get_secret_value().split(","))

    @model_validator(mode="after")
    def _keys_are_long_enough(self) -> Self:
        if any(len(key) < _MIN_SIGNING_KEY_CHARS for key in self.keys):
            raise SettingRuleError(
                "PYOCO_JOB_SIGNING_KEY",
                f"has a key of less than {_MIN_SIGNING_KEY_CHARS} characters, which is too weak",
                "the-output-of-openssl-rand-hex-32",
            )
        return self


def _variable(field: str) -> str:
    return PREFIX + field.upper()


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
