# SPDX-License-Identifier: Apache-2.0
"""The address of a stub: `unix:PATH`, or `HOST:PORT` of this machine.

The protocol has no password: a client of a stub can do with its program whatever it likes. So
soscope uses it only within this machine.
"""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address

from soscope.errors import RemoteError, UsageError

_SHAPES = "unix:PATH or HOST:PORT"
_LONGEST = 10.0  # seconds that a connection may take
_HERE = ("127.0.0.1", "::1")


class RemoteAddress:
    """One address: `path` of a unix socket, or else `hosts` to try in order, and `port`."""

    __slots__ = ("hosts", "path", "port", "text")

    def __init__(self, text: str) -> None:
        """Parse the address. Raises UsageError if it is malformed or not on this machine."""
        self.text = text
        self.path = ""
        self.hosts: tuple[str, ...] = ()
        self.port = 0
        if text.startswith("unix:"):
            self.path = text[len("unix:") :]
            if not self.path:
                raise UsageError(f"'{text}' names no socket", hint=f"it is {_SHAPES}")
            return
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"'{text}' is no address of a stub", hint=f"it is {_SHAPES}")
        self.port = int(port)
        self.hosts = _HERE if host in ("", "localhost") else (_of_this_machine(host, text),)

    def connect(self) -> socket.socket:
        """Connect. Raises RemoteError with the reason if no stub answers."""
        if self.path:
            return self._connected(socket.AF_UNIX, self.path)
        refusal: RemoteError | None = None
        for host in self.hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                connected = self._connected(family, (host, self.port))
            except RemoteError as error:
                refusal = refusal or error
                continue
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        assert refusal is not None
        raise refusal

    def _connected(
        self, family: socket.AddressFamily, where: str | tuple[str, int]
    ) -> socket.socket:
        try:
            connected = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise self._refused(error) from error
        try:
            connected.settimeout(_LONGEST)
            connected.connect(where)
        except OSError as error:
            connected.close()
            raise self._refused(error) from error
        return connected

    def _refused(self, error: OSError) -> RemoteError:
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.ECONNREFUSED:
            reason = "nobody waits there"
        elif error.errno == errno.ENOENT and not os.path.lexists(self.path):
            reason = "there is no such socket"
        elif self.path and "too long" in reason:
            reason = "the path is too long for a socket"
        return RemoteError(
            f"no stub at {self.text}: {reason}", slug="remote-gone", errno=error.errno
        )


def _of_this_machine(host: str, text: str) -> str:
    """Return an address of the loopback network. Raises UsageError for other addresses."""
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise UsageError(
            f"'{text}': '{host}' is no address of this machine",
            hint="localhost, 127.0.0.1 or [::1]; from elsewhere: ssh -L",
        ) from None
    if not address.is_loopback:
        raise UsageError(
            f"'{text}' is not on this machine, and the protocol has no password",
            hint="localhost, 127.0.0.1 or [::1]; from elsewhere: ssh -L",
        )
    return str(address)
