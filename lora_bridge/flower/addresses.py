"""Where a SuperLink is, and whether one may talk to it there.

Parcels hold what clients have learned from their data. They leave this machine only encrypted.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from pathlib import Path

from linsys.validate import InputError

__all__ = ["check", "file_of", "reach", "split", "unused"]


def split(address: str) -> tuple[str, int]:
    """Host and port.

    >>> split("[::1]:8000")
    ('::1', 8000)

    Raises:
        InputError: something else than ``host:port``.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"`superlink` must be host:port; found {address!r}")
    return host, int(port)


def check(address: str, encrypted: bool) -> tuple[str, int]:
    """Host and port, if they may be used with or without encryption.

    >>> check("127.0.0.1:8000", encrypted=False)
    ('127.0.0.1', 8000)

    Raises:
        InputError: plain text to another place than this machine.
    """
    host, port = split(address)
    if not encrypted and not _loopback(host):
        raise InputError(
            f"`superlink` must be on this machine's loopback, or certificates be given for TLS; "
            f"found {address} in plain text"
        )
    return host, port


def reach(address: str, certificates: Path | None = None, timeout: float = 5.0) -> None:
    """Connect once, encrypted where there are certificates.

    Raises:
        InputError: nobody answers, or with a certificate that these do not vouch for; no file of
            certificates, or none given where there is encryption.
    """
    host, port = check(address, certificates is not None)
    if certificates is not None:
        file_of("authority", certificates)
    try:
        with socket.create_connection((host, port), timeout) as plain:
            if certificates is not None:
                context = ssl.create_default_context(cafile=str(certificates))
                context.wrap_socket(plain, server_hostname=host).close()
                return
            encrypted = _speaks_tls(plain)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason
        raise InputError(
            f"`superlink` must be one that {certificates} vouches for; found {address}: {reason}"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"`superlink` must be reachable; found no SuperLink at {address}: {reason}"
        ) from None
    if encrypted:
        raise InputError(
            f"`authority` must be given for a SuperLink that encrypts; found none for {address}"
        )


def unused(name: str, host: str, port: int) -> None:
    """Make sure that one can listen at a port of this machine.

    Raises:
        InputError: somebody else listens there, or it is another machine's.
    """
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(place[:2], family=family).close()
    except OSError as error:
        number = error.errno or 0  # of the system, or less than 0: an unknown name
        reason = os.strerror(number) if number > 0 else error.strerror
        raise InputError(
            f"`{name}` must be a free port of this machine; found {host}:{port}: {reason}"
        ) from None


def file_of(name: str, path: Path) -> Path:
    """The path, if there is a file.

    Raises:
        InputError: none.
    """
    if not path.is_file():
        raise InputError(f"`{name}` must be there; found no file {path}")
    return path


def _speaks_tls(plain: socket.socket) -> bool:
    """Whether the other side completes TLS's handshake, which one in plain text does not."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(plain).close()
    except OSError:
        return False
    return True


def _loopback(host: str) -> bool:
    """Whether all that a name stands for is this machine's loopback."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
