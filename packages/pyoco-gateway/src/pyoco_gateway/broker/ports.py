"""Finds free ports."""

import errno
import socket

from pyoco_protocol.problems import EmbeddedBrokerError, PortBusyError


def free_port(host: str, port: int, *, flag: str) -> int:
    """Return `port` if it is free, or a free port for 0; raise PortBusyError otherwise.

    Checked before the server starts, because its own error message would only be in its log.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortBusyError(port, flag) from error
            raise EmbeddedBrokerError(f"{flag} {port}: {error.strerror}") from error
        chosen: int = probe.getsockname()[1]
        return chosen
