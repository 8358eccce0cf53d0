# SPDX-License-Identifier: Apache-2.0
"""The GDB remote protocol: addresses of stubs, packets, stop replies, registers."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from contextlib import suppress
from ipaddress import ip_address
from xml.parsers import expat

from soscope.errors import RemoteError, UsageError
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The address of a stub: `unix:PATH`, or `HOST:PORT` of this machine.
#
# The protocol has no password: a client of a stub can do with its program whatever it likes. So
# soscope uses it only within this machine.

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
            reason = "no program listens there"
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


# The target description: the registers of a stub, and their offsets in what `g` returns.
#
# It is read from the XML of `target.xml` and of the files that it includes, in order. A register
# has the number in the description, or the one after the last. `g` returns them in the order of
# numbers.

_MOST_FILES = 32
_MOST_REGISTERS = 4096


class RemoteRegister(Record):
    """One register: its `number`, `size` in bytes, `offset` in the bytes of `g`, and `kind`.

    `kind` is its type in the description: "ieee_double", "int", ….
    """

    name: str
    number: int
    size: int
    kind: str
    offset: int = 0


def read(
    fetch: Callable[[str], str | None], plain: tuple[str, ...] = (), size: int = 4
) -> dict[str, RemoteRegister]:
    """Return the registers by name. `fetch` returns a file of the description, or None.

    `plain` are the registers if the stub describes none, each of `size` bytes. Raises RemoteError
    if there is no description and no `plain`, or if the description is malformed.
    """
    reader = _DescriptionReader(fetch)
    reader.take("target.xml")
    if not reader.registers:
        reader.registers = {
            name: RemoteRegister(name, number, size, "int") for number, name in enumerate(plain)
        }
    if not reader.registers:
        raise RemoteError("the stub does not say which registers it has")
    offset = 0
    for register in sorted(reader.registers.values(), key=lambda each: each.number):
        register.offset = offset
        offset += register.size
    return reader.registers


class _DescriptionReader:
    def __init__(self, fetch: Callable[[str], str | None]) -> None:
        self.registers: dict[str, RemoteRegister] = {}
        self._fetch = fetch
        self._seen: set[str] = set()
        self._next = 0

    def take(self, name: str) -> None:
        if name in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add(name)
        text = self._fetch(name)
        if text is None:
            return
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise RemoteError(f"the stub's {name} is no XML: {error}") from error

    def _refuse(self, *_: object) -> None:
        raise RemoteError("the stub's description has entities of its own")

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if element.endswith("include") and "href" in attributes:
            self.take(attributes["href"])
        elif element == "reg" and len(self.registers) < _MOST_REGISTERS:
            try:
                number = int(attributes.get("regnum", self._next))
                size = (int(attributes["bitsize"]) + 7) // 8
            except (KeyError, ValueError) as error:
                raise RemoteError("a register of the stub has no size") from error
            name = attributes.get("name", "")
            self.registers[name] = RemoteRegister(name, number, size, attributes.get("type", "int"))
            self._next = number + 1


# The packets of the GDB remote protocol over a stream socket.
#
#     $data#checksum      escapes: 0x7d, then the byte ^ 0x20; runs: byte, `*`, count + 29
#
# Each packet is acknowledged by `+`, until both sides have agreed to omit that. soscope sends its
# acknowledgement with the next packet, because the stub waits for that packet anyway.
#
# Packets may be sent before the answers to earlier ones have come, and acknowledgements before the
# packets that they are for. Some stubs take acknowledgements directly from the socket, behind the
# data that they have read. These find them in the right place if they read a fixed number of bytes
# and each such piece is filled up.

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
                raise RemoteError("a packet of the stub repeats no byte")
            data += bytes((data[-1],)) * count
            at += 1
        else:
            data.append(byte)
        at += 1
        if len(data) > _MOST:
            raise RemoteError(f"a packet of the stub has more than {_MOST >> 20} MiB")
    return bytes(data)


# The stop replies of the remote protocol: why a program has stopped or ended.

SIGNAL, EXITED, KILLED = "signal", "exited", "killed"

# The protocol's signal numbers are GDB's, <gdb/signals.def>. These differ from Linux's.
_TO_LINUX = {
    7: 7,  # SIGEMT, which Linux does not have
    10: 7,
    12: 31,
    16: 23,
    17: 19,
    18: 20,
    19: 18,
    20: 17,
    23: 29,
    29: 30,
    30: 10,
    31: 12,
    32: 30,
}
_FIRST_REALTIME, _LAST_REALTIME = 45, 75  # SIG33 to SIG63


class RemoteStop(Record):
    """One stop. `kind` is SIGNAL, EXITED or KILLED.

    `number` is the protocol's signal number or the exit status. `thread` is the thread's name
    from the stub, "" if there was none. `facts` has the other fields of the packet.
    """

    kind: str
    number: int
    thread: str
    facts: dict[str, str]

    @property
    def tid(self) -> int:
        """The thread's number, 0 if it is not known."""
        return tid_of(self.thread)


def tid_of(thread: str) -> int:
    """Return the number in a thread's name, 0 if it is not known."""
    try:
        return int(thread.rpartition(".")[2].lstrip("p") or "0", 16)
    except ValueError:
        return 0  # stubs choose thread names freely


def process_of(thread: str) -> int:
    """Return the number of the process in a thread's name, 0 if names have no process."""
    process, dot, _ = thread.partition(".")
    try:
        return int(process.lstrip("p"), 16) if dot else 0
    except ValueError:
        return 0  # the same as above


def parse(packet: bytes) -> RemoteStop:
    """Return the stop that a packet reports. Raises RemoteError if it is no stop reply."""
    text = packet.decode("ascii", "replace")
    kind = {"T": SIGNAL, "S": SIGNAL, "W": EXITED, "X": KILLED}.get(text[:1])
    try:
        if kind is None:
            raise ValueError
        if kind == SIGNAL:
            number, rest = int(text[1:3], 16), text[3:]
        else:
            value, _, rest = text[1:].partition(";")
            number = int(value, 16)
    except ValueError:
        raise RemoteError(f"the stub said '{text[:40]}' in place of a stop reply") from None
    facts = {
        name: value for name, _, value in (each.partition(":") for each in rest.split(";") if each)
    }
    return RemoteStop(kind, number, facts.get("thread", ""), facts)


def linux_signal(number: int) -> int:
    """Return Linux's number of the protocol's signal `number`."""
    if _FIRST_REALTIME <= number <= _LAST_REALTIME:
        return number - _FIRST_REALTIME + 33
    return _TO_LINUX.get(number, number)
