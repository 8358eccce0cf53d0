# SPDX-License-Identifier: Apache-2.0
"""The packets of the GDB remote protocol over a stream socket.

    $data#checksum      escapes: 0x7d, then the byte ^ 0x20; runs: byte, `*`, count + 29

Each packet is acknowledged by `+`, until both sides have agreed to omit that. soscope sends its
acknowledgement with the next packet, because the stub waits for that packet anyway.

Packets may be sent before the answers to earlier ones have come, and acknowledgements before the
packets that they are for. Some stubs take acknowledgements directly from the socket, behind the
data that they have read. These find them in the right place if they read a fixed number of bytes
and each such piece is filled up.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress

from soscope.errors import RemoteError

_MOST = 1 << 20  # bytes of one packet
_READ = 1 << 16
_TURN = struct.pack("@ll", 0, 20_000)  # struct timeval: granularity of a wait
_ESCAPE, _FLIP = 0x7D, 0x20
_RUN, _RUN_BASE = 0x2A, 29
_SPECIAL = b"#$}*"
_SPARE = b"+" * 64
_AGAIN = 3  # requests to repeat a damaged packet


class PacketStream:
    """Sends and receives packets. `is_over` is set if the other side has closed the connection.

    `piece` is the number of bytes that the other side reads at once, 0 if it is not known.
    """

    __slots__ = (
        "_acknowledged",
        "_acknowledges",
        "_buffer",
        "_owed",
        "_socket",
        "_stray",
        "is_over",
        "piece",
    )

    def __init__(self, connected: socket.socket, piece: int = 0) -> None:
        self._socket = connected
        # One system call waits and reads. With select(2) before it, there would be two for each
        # stop.
        connected.setblocking(True)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TURN)
        self.piece = piece
        self._acknowledged = 0  # acknowledged packets that are still to come
        self._buffer = bytearray()
        self._acknowledges = True
        self._owed = b""  # acknowledgements
        self._stray = 0  # bytes outside of packets since the last packet
        self.is_over = False

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self.is_over = True
        self._socket.close()

    def acknowledge_no_more(self) -> None:
        """Omit acknowledgements from here on, as agreed."""
        self.acknowledge()
        self._acknowledges = False

    def acknowledge(self) -> None:
        """Acknowledge received packets, if no packet of soscope follows."""
        if self._owed:
            with suppress(RemoteError):  # a closed side needs none
                self._send(b"")

    def confirm(self) -> None:
        """Acknowledge a packet that was not understood."""
        self._owed = b"+"
        self.acknowledge()

    def interrupt(self) -> None:
        """Request a stop of the program by a byte outside of packets. Raises RemoteError."""
        self._send(b"\x03")

    def leave(self, packets: list[bytes]) -> None:
        """Send packets that are read at the program's next stop. Raises RemoteError.

        A stub that waits for its program takes a byte whenever some come, to see whether it
        should stop the program. Acknowledgements are sent as these bytes.
        """
        self._send(_SPARE + b"".join(map(_framed, packets)))

    def send(self, data: bytes) -> None:
        """Send a packet. Raises RemoteError if the connection is closed."""
        self._send(_framed(data))

    def send_ahead(self, *groups: list[bytes]) -> None:
        """Send packets before the answers to earlier ones have come. Each packet has one answer.

        If a packet lets the program run, all bytes read together with it are taken before that.
        So packets for later must be in another group. This needs a `piece`. Raises RemoteError if
        the connection is closed.
        """
        data = b""
        for group in groups:
            part, count = b"", 0
            for packet in map(_framed, group):
                if part and len(part) + len(packet) > self.piece:
                    data += self._filled(part, count)
                    part, count = b"", 0
                part += packet
                count += 1
            data += self._filled(part, count)
        self._send(data)

    def _filled(self, part: bytes, count: int) -> bytes:
        """Return packets that are read in whole pieces, and acknowledgements of their answers."""
        self._acknowledged += count
        return part.ljust(-(-len(part) // self.piece) * self.piece, b"+") + b"+" * count

    def receive(self, timeout: float | None) -> bytes | None:
        """Return the next packet, None if none comes in time or the connection is closed.

        Raises RemoteError for malformed packets.
        """
        refused = 0
        while True:
            packet = self._take()
            if packet is not None:
                data, is_right = packet
                if is_right:
                    if self._acknowledged:
                        self._acknowledged -= 1
                    elif self._acknowledges:
                        self._owed = b"+"
                    return data
                if self._acknowledged:
                    raise RemoteError("a packet of the stub has a wrong checksum")
                refused += 1
                if refused > _AGAIN:
                    raise RemoteError("the stub's packets have wrong checksums")
                self._send(b"-")
                continue
            if not self._fill(timeout):
                return None

    @property
    def has_more(self) -> bool:
        """Return whether a part of the next packet has been read already."""
        return b"$" in self._buffer

    def _send(self, data: bytes) -> None:
        data, self._owed = self._owed + data, b""
        try:
            self._socket.sendall(data)
        except OSError as error:
            self.is_over = True
            raise RemoteError(
                "the stub has closed the connection", slug="remote-gone", errno=error.errno
            ) from error

    def _fill(self, timeout: float | None) -> bool:
        """Read some bytes. Return False if none come in time, or none will come any more."""
        if self.is_over:
            return False
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                data = self._socket.recv(_READ, socket.MSG_DONTWAIT if timeout == 0 else 0)
            except BlockingIOError:
                if end is not None and time.monotonic() >= end:
                    return False
                continue
            except OSError:
                data = b""
            break
        if not data:
            self.is_over = True
            return False
        self._buffer += data
        if len(self._buffer) > 2 * _MOST:
            raise RemoteError(f"the stub sent more than {_MOST >> 20} MiB without end")
        return True

    def _take(self) -> tuple[bytes, bool] | None:
        """Take a packet from the buffer, and whether its checksum is right.

        Return None if the packet is incomplete.
        """
        buffer = self._buffer
        if not buffer:
            return None
        start = buffer.find(b"$")
        if start < 0:
            self._stray += len(buffer)
            buffer.clear()  # acknowledgements, notifications
            if self._stray > _MOST:
                raise RemoteError(f"the stub sent more than {_MOST >> 20} MiB and no packet")
            return None
        end = buffer.find(b"#", start)
        if end < 0 or len(buffer) < end + 3:
            return None
        content = bytes(buffer[start + 1 : end])
        told = bytes(buffer[end + 1 : end + 3])
        del buffer[: end + 3]
        self._stray = 0
        try:
            is_right = int(told, 16) == sum(content) & 0xFF
        except ValueError:
            is_right = False
        return _decoded(content) if is_right else b"", is_right


def _framed(data: bytes) -> bytes:
    if any(map(data.__contains__, _SPECIAL)):
        data = b"".join(
            bytes((_ESCAPE, byte ^ _FLIP)) if byte in _SPECIAL else bytes((byte,)) for byte in data
        )
    return b"$%s#%02x" % (data, sum(data) & 0xFF)


def _decoded(content: bytes) -> bytes:
    """Undo escapes and runs. Raises RemoteError for an invalid or endless run."""
    if _ESCAPE not in content and _RUN not in content:
        return content
    data = bytearray()
    at = 0
    while at < len(content):
        byte = content[at]
        if byte == _ESCAPE and at + 1 < len(content):
            data.append(content[at + 1] ^ _FLIP)
            at += 1
        elif byte == _RUN and at + 1 < len(content):
            count = content[at + 1] - _RUN_BASE
            if not data or count < 0:
                raise RemoteError("a packet of the stub has a run of nothing")
            data += bytes((data[-1],)) * count
            at += 1
        else:
            data.append(byte)
        at += 1
        if len(data) > _MOST:
            raise RemoteError(f"a packet of the stub has more than {_MOST >> 20} MiB")
    return bytes(data)
