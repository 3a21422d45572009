"""Ports: whether one is free, and which."""

import errno
import socket

from pyoco_protocol.problems import EmbeddedBrokerError, PortBusyError


def free_port(host: str, port: int, *, flag: str) -> int:
    """Return `port` if nobody listens on it, a port that is free for 0; raise PortBusyError.

    Told apart before anything is started: what a server says when it cannot have its port is
    hidden in its log.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortBusyError(port, flag) from error
            raise EmbeddedBrokerError(f"{flag} {port}: {error.strerror}") from error
        chosen: int = probe.getsockname()[1]
        return chosen
