"""Where NATS is, who we are there, and how far each side may trust the other."""

import importlib.util
import ssl
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, SecretStr, model_validator

from pyoco_protocol.settings.base import PREFIX, PyocoSettings, RuleBrokenError, setting
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
    """Where NATS is, and who we are there."""

    nats_url: NatsUrls = setting(
        "nats://127.0.0.1:4222",
        "Address of NATS; several are separated by commas. May hold user:password@. "
        "`tls://` insists on TLS.",
        "nats://broker.example:4222",
        secret=True,
    )
    nats_user: str | None = setting(None, "User at NATS; goes with a password.", "pyoco-gateway")
    nats_password: SecretStr | None = setting(
        None, "Password of that user.", "a-long-random-secret", secret=True
    )
    nats_creds: ReadableFile | None = setting(
        None,
        "File with a user's JWT and seed, in place of user and password.",
        "/etc/pyoco/me.creds",
    )
    nats_tls_ca: ReadableFile | None = setting(
        None,
        "Certificates of those who may vouch for the broker; without it, those of the system. "
        "Naming it insists on TLS.",
        "/etc/pyoco/ca.pem",
    )
    nats_tls_cert: ReadableFile | None = setting(
        None, "Our own certificate, for a broker that asks for one.", "/etc/pyoco/gateway.pem"
    )
    nats_tls_key: ReadableFile | None = setting(
        None, "Key of that certificate, not encrypted.", "/etc/pyoco/gateway-key.pem"
    )
    nats_inbox_prefix: SubjectPrefix = setting(
        "_INBOX",
        "Where answers to us arrive; one of our own keeps other users of the broker from reading "
        "them.",
        "_INBOX_gateway",
    )

    @property
    def nats_address(self) -> str:
        """`nats_url` without credentials, for logs and messages."""
        return ",".join(map(_without_credentials, split_urls(self.nats_url)))

    @property
    def user_name(self) -> str:
        """Who we are at the broker, for logs and messages; never a secret."""
        if self.nats_user is not None:
            return self.nats_user
        if self.nats_creds is not None:
            return f"the user of {self.nats_creds.name}"
        parts = urlsplit(split_urls(self.nats_url)[0])
        # A name alone, without a password, is a token.
        return (parts.username if parts.password else None) or "nobody in particular"

    @property
    def requires_tls(self) -> bool:
        """Whether a broker that does not speak TLS is refused, before it learns who we are."""
        schemes = {urlsplit(url).scheme for url in split_urls(self.nats_url)}
        return bool(schemes & _TLS_SCHEMES or self.nats_tls_ca or self.nats_tls_cert)

    def tls_context(self) -> ssl.SSLContext:
        """Return whom we trust and what we show; raise RuleBrokenError where a file is no use."""
        ca = self.nats_tls_ca
        context = ssl.create_default_context() if ca is None else self._trusting(ca)
        if self.nats_tls_cert is not None and self.nats_tls_key is not None:
            self._show(context, self.nats_tls_cert, self.nats_tls_key)
        return context

    @model_validator(mode="after")
    def _login_is_whole(self) -> Self:
        for one, other in (
            ("nats_user", "nats_password"),
            ("nats_password", "nats_user"),
            ("nats_tls_cert", "nats_tls_key"),
            ("nats_tls_key", "nats_tls_cert"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise self._broken(other, f"is not set and {_variable(one)} is; both go together")
        in_url = any(urlsplit(url).username for url in split_urls(self.nats_url))
        if self.nats_creds is not None and (in_url or self.nats_user is not None):
            raise self._broken("nats_creds", "and a user are both given; which one are we?")
        if in_url and self.nats_user is not None:
            raise self._broken("nats_user", "and a user in PYOCO_NATS_URL are both given")
        return self

    @model_validator(mode="after")
    def _files_can_be_used(self) -> Self:
        if self.nats_creds is not None:
            if importlib.util.find_spec("nkeys") is None:
                raise self._broken("nats_creds", "needs the package nkeys, which is not installed")
            if _SEED_MARK not in self.nats_creds.read_text(encoding="utf-8", errors="replace"):
                raise self._broken("nats_creds", "is no file with a user's JWT and seed")
        if self.requires_tls:
            self.tls_context()
        return self

    def _trusting(self, ca: Path) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=ca)
        except ssl.SSLError:
            raise self._broken("nats_tls_ca", "holds no certificate in PEM format") from None

    def _show(self, context: ssl.SSLContext, cert: Path, key: Path) -> None:
        try:
            # With a password to try, an encrypted key fails; without, it would ask the terminal.
            context.load_cert_chain(cert, key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                what = "is not the key of the certificate in PYOCO_NATS_TLS_CERT"
            else:
                what = "and PYOCO_NATS_TLS_CERT are no certificate and open key in PEM format"
            raise self._broken("nats_tls_key", what) from None

    def _broken(self, field: str, what: str) -> RuleBrokenError:
        examples = type(self).model_fields[field].examples or [""]
        return RuleBrokenError(_variable(field), what, str(examples[0]))


class QueueSetupSettings(PyocoSettings):
    """Who makes ready what workers need on the broker."""

    worker_tags: TagNames = setting(
        "",
        "Tags whose queues the gateway makes ready, separated by commas; for workers that may not.",
        "cpu,gpu",
    )
    worker_prepares_broker: Boolean = setting(
        True,
        "Whether a worker makes streams, buckets and queues that are missing; `false` for one "
        "that may not.",
        "false",
    )

    @property
    def prepared_tags(self) -> tuple[str, ...]:
        """The tags in `worker_tags`."""
        return split_tags(self.worker_tags)


class JobSigningSettings(PyocoSettings):
    """How a worker knows that a job comes from the gateway."""

    job_signing_key: SecretStr | None = setting(
        None,
        "Secret that gateways sign jobs with; a worker that has it runs no other job. Several are "
        "separated by commas: the first signs, each is accepted.",
        "a-long-random-secret-of-32-characters",
        secret=True,
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, the one that signs first; empty where jobs are not signed."""
        if self.job_signing_key is None:
            return ()
        return tuple(key.strip() for key in self.job_signing_key.get_secret_value().split(","))

    @model_validator(mode="after")
    def _keys_are_long_enough(self) -> Self:
        if any(len(key) < _MIN_SIGNING_KEY_CHARS for key in self.keys):
            raise RuleBrokenError(
                "PYOCO_JOB_SIGNING_KEY",
                f"has a key of less than {_MIN_SIGNING_KEY_CHARS} characters, which can be guessed",
                "the-output-of-openssl-rand-hex-32",
            )
        return self


def _variable(field: str) -> str:
    return PREFIX + field.upper()


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
