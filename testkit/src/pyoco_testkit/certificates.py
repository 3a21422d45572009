"""A certificate authority for one test, and the certificates it issues."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class CertificateFiles:
    """The files of a certificate and of its private key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority; `ca` is the file of its own certificate, for clients to trust."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self.ca = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca))

    def certificate(self, name: str = "127.0.0.1") -> CertificateFiles:
        """Return a new certificate for a host name or a user name."""
        issued = self._ca.issue_cert(name)
        stem = name.replace("@", "-at-")
        files = CertificateFiles(
            self._directory / f"{stem}.pem", self._directory / f"{stem}-key.pem"
        )
        issued.cert_chain_pems[0].write_to_path(str(files.cert))
        issued.private_key_pem.write_to_path(str(files.key))
        return files
