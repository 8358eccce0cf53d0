# SPDX-License-Identifier: Apache-2.0
"""A GDB stub: its registers, memory, files, breakpoints and stops."""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from typing import Literal, Protocol

from soscope.binfmt.elf.reader import Encoding
from soscope.binfmt.source import ByteSource
from soscope.entry.remote import packets
from soscope.entry.remote.packets import PacketStream, RemoteStop
from soscope.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# The interfaces of a stopped thread and of memory that an engine needs.


class StoppedThread(Protocol):
    """Registers of one thread. `order` is their byte order, and `registers` has their names."""

    order: str

    @property
    def registers(self) -> Mapping[str, object]:
        """The facts about each register, by name."""

    def get(self, name: str, /) -> int:
        """Return the value of a register."""

    def get_bytes(self, name: str, /) -> bytes:
        """Return the bytes of a register."""

    def upper_half(self, name: str, /) -> bytes:
        """Return the half of a register that `get` omits, little-endian, b"" if unknown."""


class WordMemory(Protocol):
    """The memory of process `pid`, with the words of `coding`."""

    coding: Encoding
    pid: int

    def read(self, addr: int, size: int, /) -> bytes:
        """Return up to `size` bytes of memory."""

    def word(self, addr: int, /) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""


# The stub itself reports what it supports (`Capabilities`). Its name does not matter.

_OFFER = (
    b"qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+;QStartNoAckMode+;xmlRegisters=i386"
)
_EVENTS = b";fork-events+;vfork-events+;exec-events+"
_ANSWER = 10.0  # seconds that an answer may take
_PIECE = 0x400  # bytes of memory in one packet
_MOST_SAID = 64
_MOST_OBJECT = 1 << 20  # bytes of one object


class Capabilities:
    """The features of a stub: the words of its answer to qSupported, by name."""

    __slots__ = ("words",)

    def __init__(self, answer: bytes) -> None:
        self.words: dict[str, str] = {}
        for word in answer.decode("ascii", "replace").split(";"):
            name, equals, value = word.partition("=")
            if equals:
                self.words[name] = value
            elif word.endswith(("+", "-")):
                self.words[word[:-1]] = word[-1]

    def has(self, name: str) -> bool:
        """Return whether it has the feature of this name."""
        return self.words.get(name, "-") != "-"

    @property
    def packet_size(self) -> int:
        """The most hexadecimal digits of a packet."""
        try:
            return max(int(self.words.get("PacketSize", "400"), 16), 64)
        except ValueError:
            return 0x400  # the default


class Turns(Protocol):
    """Makes threads enter the stub one by one, if the stub stops only the reporting one."""

    def receive(self, packets: PacketStream, timeout: float | None) -> bytes | None:
        """Return the next packet, as `PacketStream.receive` does."""

    def has_stopped(self) -> None:
        """Note that the stop of the thread in the stub has been received."""

    def end(self, packets: PacketStream) -> None:
        """Note that the program ends, whichever thread is in the stub."""

    def goes_on(self, *, is_step: bool) -> None:
        """Note that the thread in the stub is about to go on."""

    def pause(self) -> None:
        """Keep all other threads from running where they look for breakpoints."""

    def unpause(self) -> None:
        """Undo `pause`. May be called twice."""


class RemoteStub:
    """One connection. `registers` come from the target description, by name.

    Register values belong to the thread that has stopped last, and are fetched once for each
    stop. If the stub's way of reading is known (`PacketStream.piece`), soscope does not wait for
    answers that may come later. Changes are sent together with the packet that resumes the
    program, and so is the request for the registers of the next stop. A refused change is noticed
    at that stop.

    `turns` orders the program's threads, and is None if there is only one thread or if the stub
    stops all. `upper` returns the parts of registers that the stub does not report, and is None
    if it reports all. `waiting` are threads that stay stopped when others go on. `only` is the
    only process that goes on, 0 for all. `noted` gets each packet that sets or removes a
    breakpoint: before a breakpoint is set, and after one is removed.

    All methods raise RemoteError if the stub is gone or does not answer as it should.
    """

    def __init__(
        self,
        connected: socket.socket,
        order: str,
        piece: int = 0,
        *,
        events: bool = False,
        plain: tuple[str, ...] = (),
    ) -> None:
        """Do the handshake. `order` is the byte order of registers, "<" or ">".

        With `events`, forks and execs are to be reported, if the stub can. `plain` are the
        registers of a stub that describes none, in order, each a word of 32 bits.
        """
        self._plain = plain
        self._packets = PacketStream(connected, piece)
        self._sets_alone = False  # P packets work
        self._later: list[bytes] = []  # packets to be sent with the resuming one
        self._unanswered: deque[bytes] = deque()  # sent before the resuming one
        self._said: dict[bytes, RemoteStop] = {}  # most stops equal an earlier one
        self._is_asked = False  # registers were requested for the next stop
        self.use_order(order)
        self._all: bytes | None = None
        self._changed: dict[str, int] = {}
        self._lone: dict[str, bytes] = {}
        self.thread = ""
        self.turns: Turns | None = None
        self.upper: Callable[[str], bytes] | None = None
        self.noted: Callable[[bytes], object] | None = None
        self.only = 0
        self.waiting: set[str] = set()
        self.goes = 0  # number of times that the program was resumed
        try:
            self._begin(_OFFER + _EVENTS * events)
        except BaseException:
            if self.thread:
                self.let_go()  # some stubs kill programs at the end of a connection
            self.close()
            raise

    def _begin(self, offer: bytes) -> None:
        """Read the stub's features, its stopped thread, and that thread's registers."""
        self.can = Capabilities(self.ask(offer))
        if self.can.has("QStartNoAckMode") and self.ask(b"QStartNoAckMode") == b"OK":
            self._packets.acknowledge_no_more()
        first = packets.parse(self.ask(b"?"))
        if first.kind != packets.SIGNAL:
            raise RemoteError("the stub runs no program")
        self.thread = first.thread
        # A stub may describe the registers only for a chosen thread.
        self.ask(b"Hg" + (self.thread.encode() or b"0"))
        self.registers = packets.read(self._description, self._plain)

    def use_order(self, order: str) -> None:
        """Set the byte order of registers, "<" or ">", if it was not known before."""
        self.order = order
        self._order: Literal["little", "big"] = "little" if order == "<" else "big"

    @property
    def is_over(self) -> bool:
        """Return whether the connection is closed."""
        return self._packets.is_over

    def connection(self) -> socket.socket:
        """Return the connection, for another process that also has it."""
        return socket.socket(fileno=self.fileno())

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._packets.fileno()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self._packets.close()

    # ---- requests ----

    def ask(self, question: bytes) -> bytes:
        """Return the answer to a packet, b"" if the stub does not know the packet."""
        if self._is_asked:
            self._take_registers()
        if self._later:
            self._send_later()
        return self._ask(question)

    def _ask(self, question: bytes) -> bytes:
        self._packets.send(question)
        return self._answer()

    def _answer(self) -> bytes:
        answer = self._receive(_ANSWER)
        if answer is None:
            if self._packets.is_over:
                raise RemoteError("the stub has closed the connection", slug="remote-gone")
            raise RemoteError(f"the stub did not answer within {_ANSWER:.0f} seconds")
        self._look_for_end(answer)
        return answer

    def _look_for_end(self, packet: bytes) -> None:
        """Check whether a thread reports the program's end while another one is in the stub."""
        if self.turns is not None and packet[:1] == b"W":
            self.turns.end(self._packets)
            if self.is_over:
                raise RemoteError("the program has ended", slug="remote-gone")

    def _receive(self, timeout: float | None) -> bytes | None:
        if self.turns is not None:
            return self.turns.receive(self._packets, timeout)
        return self._packets.receive(timeout)

    def _send_later(self) -> None:
        later, self._later = self._later, []
        self._pause_for(later)
        for packet in later:
            _check(packet, self._ask(packet))
        self._unpause()

    def _pause_for(self, packets: list[bytes]) -> None:
        if self.turns is not None and any(packet[:1] in (b"Z", b"z") for packet in packets):
            self.turns.pause()

    def _unpause(self) -> None:
        if self.turns is not None:
            self.turns.unpause()

    def object(self, name: str, annex: str = "") -> bytes | None:
        """Return an object read by qXfer, None if the stub does not have it."""
        data = bytearray()
        size = self.can.packet_size - 16
        while len(data) < _MOST_OBJECT:
            request = f"qXfer:{name}:read:{annex}:{len(data):x},{size:x}"
            answer = self.ask(request.encode())
            if answer[:1] not in (b"l", b"m"):
                return None
            data += answer[1:]
            if answer[:1] == b"l" or len(answer) == 1:
                return bytes(data)
        raise RemoteError(f"the stub's {name} has no end")

    def _description(self, name: str) -> str | None:
        data = self.object("features", name)
        return None if data is None else data.decode("utf-8", "replace")

    # ---- registers ----

    def get(self, name: str) -> int:
        """Return a register of the stopped thread."""
        if name in self._changed:
            return self._changed[name]
        if self._is_asked:
            self._take_registers()
        register = self.registers.get(name)
        if self._all is not None and register is not None:
            value = self._all[register.offset : register.offset + register.size]
            if len(value) == register.size:
                return int.from_bytes(value, self._order)
        return int.from_bytes(self.get_bytes(name), self._order)

    def get_bytes(self, name: str) -> bytes:
        """Return the bytes of a register."""
        register = self._known(name)
        if self._is_asked:
            self._take_registers()
        if self._all is None:
            self._all = _from_hex(self.ask(b"g"))
        value = self._all[register.offset : register.offset + register.size]
        if len(value) == register.size:
            return value
        value = self._lone.get(name, b"")
        if not value:
            value = self._lone[name] = _from_hex(self.ask(b"p%x" % register.number))
        if len(value) < register.size:
            raise RemoteError(f"the stub did not say what register {name} holds")
        return value

    def upper_half(self, name: str) -> bytes:
        """Return the part of a register that the stub does not report, b"" if it is not known."""
        return b"" if self.upper is None else self.upper(name)

    def _take_registers(self) -> None:
        self._is_asked = False
        self._all = _from_hex(self._answer())

    def put(self, name: str, value: int) -> None:
        """Set a register. It is sent when the thread goes on."""
        self._known(name)
        self._changed[name] = value

    def _known(self, name: str) -> packets.RemoteRegister:
        register = self.registers.get(name)
        if register is None:
            raise RemoteError(f"the stub has no register {name}")
        return register

    def _write_registers(self) -> None:
        changed, self._changed = self._changed, {}
        for name, value in changed.items():
            register = self._known(name)
            data = value.to_bytes(register.size, self._order)
            packet = b"P%x=%s" % (register.number, data.hex().encode())
            if self._packets.piece and self._sets_alone:
                self._later.append(packet)
            elif self.ask(packet) == b"OK":
                self._sets_alone = True
            else:
                self._write_all(changed)
                return

    def _write_all(self, changed: dict[str, int]) -> None:
        """Set registers together with all others, for a stub without P packets."""
        whole = bytearray(_from_hex(self.ask(b"g")))
        for name, value in changed.items():
            register = self._known(name)
            data = value.to_bytes(register.size, self._order)
            whole[register.offset : register.offset + register.size] = data
        if self.ask(b"G" + bytes(whole).hex().encode()) != b"OK":
            raise RemoteError(f"the stub did not set registers {', '.join(changed)}")

    def forget_registers(self) -> None:
        """Drop register changes that were not sent, because the thread is gone."""
        self._changed.clear()
        self._all = None

    def set_now(self, values: dict[str, int]) -> None:
        """Set registers at once, while the thread is stopped."""
        for name, value in values.items():
            self.put(name, value)
        self._write_registers()
        self._all = None

    # ---- memory ----

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes, fewer if memory ends."""
        data = b""
        while len(data) < size:
            want = min(size - len(data), _PIECE, self.can.packet_size // 2 - 8)
            piece = _from_hex(self.ask(b"m%x,%x" % (addr + len(data), want)))
            data += piece
            if len(piece) < want:
                break
        return data

    def write(self, addr: int, data: bytes) -> bool:
        """Write into memory. Return whether the stub has done it."""
        return self.ask(b"M%x,%x:%s" % (addr, len(data), data.hex().encode())) == b"OK"

    # ---- breakpoints and resuming ----

    def insert(self, addr: int, size: int) -> None:
        """Set a breakpoint at an instruction of `size` bytes."""
        packet = b"Z0,%x,%x" % (addr, size)
        if self.noted is not None:
            self.noted(packet)
        self._change(packet)

    def remove(self, addr: int, size: int) -> None:
        """Undo `insert`."""
        packet = b"z0,%x,%x" % (addr, size)
        self._change(packet)
        if self.noted is not None:
            self.noted(packet)

    def _change(self, packet: bytes) -> None:
        if self._packets.piece:
            self._later.append(packet)
        else:
            _check(packet, self.ask(packet))

    def step(self) -> RemoteStop:
        """Run one instruction of the stopped thread."""
        self._go(b"vCont;s:" + self.thread.encode(), is_step=True)
        stop = self.wait(_ANSWER)
        if stop is None:
            raise RemoteError("the stub did not stop behind one instruction")
        return stop

    def resume(self, signal: int = 0) -> None:
        """Resume all threads except waiting ones, with the protocol's signal `signal`."""
        actions = [b"C%02x:%s" % (signal, self.thread.encode())] if signal else []
        if self.waiting or self.only:
            actions += [b"c:" + name.encode() for name in self._moving()]
        else:
            actions.append(b"c")
        self._go(b";".join([b"vCont", *actions]))

    def resume_alone(self, signal: int = 0) -> None:
        """Resume only the stopped thread, with the protocol's signal `signal`."""
        how = b"C%02x" % signal if signal else b"c"
        self._go(b"vCont;%s:%s" % (how, self.thread.encode()) if self.thread else b"vCont;" + how)

    def _moving(self) -> list[str]:
        """Return the names of all threads to be resumed, with one name for a whole process."""
        processes: dict[str, list[str]] = {}
        for name in self.threads():
            if self.only and packets.process_of(name) != self.only:
                continue
            processes.setdefault(name.partition(".")[0], []).append(name)
        moving = []
        for process, names in processes.items():
            if self.waiting.isdisjoint(names):
                moving.append(f"{process}.-1")
            else:
                moving += [name for name in names if name not in self.waiting]
        return moving

    def _go(self, how: bytes, *, is_step: bool = False) -> None:
        if self._is_asked:
            self._take_registers()
        self._write_registers()
        self.goes += 1
        self._all = None
        self._lone.clear()
        if self.turns is not None:
            self._pause_for(self._later)
            self.turns.goes_on(is_step=is_step)
        if not self._packets.piece:
            self._packets.send(how)
            return
        later, self._later = self._later, []
        self._unanswered.extend(later)
        self._packets.send_ahead([*later, how], [b"g"])
        self._is_asked = True

    def wait(self, timeout: float | None) -> RemoteStop | None:
        """Return the next stop, None if none comes in time or the stub is gone."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            packet = self._receive(left)
            if packet is None:
                return None
            self._look_for_end(packet)
            if self._unanswered:
                _check(self._unanswered.popleft(), packet)
                if not self._unanswered:
                    self._unpause()
                continue
            if packet[:1] == b"O" and packet != b"OK":
                continue  # program output, from a stub that has its terminal
            stop = self._said.get(packet)
            if stop is None:
                stop = packets.parse(packet)
                if len(self._said) < _MOST_SAID:
                    self._said[packet] = stop
            if stop.kind != packets.SIGNAL:  # the program ends after the acknowledgement
                self._packets.acknowledge()
                self._is_asked = False
            self.thread = stop.thread or self.thread
            if self.turns is not None:
                self.turns.has_stopped()
            return stop

    @property
    def pid(self) -> int:
        """The number of the process, 0 if the stub only names threads."""
        return packets.process_of(self.thread)

    @property
    def tid(self) -> int:
        """The number of the thread that has stopped last, 0 if it is not known."""
        return packets.tid_of(self.thread)

    def detach(self) -> None:
        """Detach from the program, and close the connection."""
        self._write_registers()
        if self._later:
            self._send_later()
        # A stub that waits for an acknowledgement finds the connection closed. Otherwise an
        # emulator would find that at the program's next signal, and be killed by SIGPIPE when it
        # reports the signal.
        self.ask(b"D;%x" % self.pid if self.pid else b"D")
        self.close()

    def leave(self, orders: list[bytes]) -> None:
        """Send packets for the program's next stop, and then a detach. No answer is read."""
        self._packets.leave([*orders, b"D;%x" % self.pid if self.pid else b"D"])
        self.close()

    def interrupt(self) -> None:
        """Make a running program stop soon, if the stub stops all threads."""
        self._packets.interrupt()

    def choose(self, thread: str) -> None:
        """Select this thread or process for further requests. Raises RemoteError."""
        self._write_registers()
        self._all = None
        self._lone.clear()
        self._do(b"Hg" + thread.encode())
        self.thread = thread

    def release(self, pid: int) -> None:
        """Detach from one of several processes. Raises RemoteError."""
        self._do(b"D;%x" % pid)

    def threads(self) -> list[str]:
        """Return the names of all threads."""
        names: list[str] = []
        answer = self.ask(b"qfThreadInfo")
        while answer[:1] == b"m":
            names += answer[1:].decode("ascii", "replace").split(",")
            answer = self.ask(b"qsThreadInfo")
        return names

    def _do(self, packet: bytes) -> None:
        _check(packet, self.ask(packet))

    def let_go(self) -> None:
        """Detach in any state, whatever the stub answers."""
        with suppress(RemoteError):  # the stub is gone, or was never a stub
            self.detach()
        self.close()


def _check(packet: bytes, answer: bytes) -> None:
    """Raise RemoteError if the stub has not done what it was told."""
    if answer == b"OK" or packet[:1] == b"z":
        return
    if packet[:1] == b"Z":
        where = packet.split(b",")[1].decode()
        raise RemoteError(f"the stub sets no breakpoint at 0x{where}")
    wanted = packet[:40].decode("utf-8", "replace")
    raise RemoteError(f"the stub did not do '{wanted}'")


def _from_hex(answer: bytes) -> bytes:
    """Return the bytes of an answer in hexadecimal digits, b"" if it is an error."""
    if len(answer) % 2:
        return b""  # E01
    try:
        return bytes.fromhex(answer.decode("ascii").replace("x", "0"))
    except ValueError:
        return b""  # neither digits nor an error number


# Read files by a stub's vFile packets, for stubs that run on another system.

_HEAD = 32  # bytes of a packet beside its content
_MOST = 1 << 28  # bytes of one file


class RemoteFiles:
    """The files of the system that a stub runs on, as seen by the process `pid`."""

    __slots__ = ("_is_chosen", "_pid", "_stub")

    def __init__(self, stub: RemoteStub, pid: int) -> None:
        self._stub = stub
        self._pid = pid
        self._is_chosen = False

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None if there is no such file or the stub opens no files.

        Raises RemoteError if the stub is gone.
        """
        if not self._is_chosen:
            self._is_chosen = True
            # A stub that does not know this packet has only one view of files.
            self._ask(b"setfs:%x" % self._pid)
        name = path.encode("utf-8", "surrogateescape").hex().encode()
        opened = self._ask(b"open:%s,0,0" % name)
        if opened is None:
            return None
        descriptor, data = opened[0], bytearray()
        if descriptor < 0:
            return None
        size = max(self._stub.can.packet_size // 2 - _HEAD, 64)
        while len(data) < _MOST:
            told = self._ask(b"pread:%x,%x,%x" % (descriptor, size, len(data)))
            if told is None or told[0] < 0:
                break
            if not told[0]:
                self._ask(b"close:%x" % descriptor)
                return bytes(data)
            data += told[1]
        self._ask(b"close:%x" % descriptor)
        return None

    def _ask(self, what: bytes) -> tuple[int, bytes] | None:
        """Return the result and the data behind it, None if the stub does not know the packet."""
        answer = self._stub.ask(b"vFile:" + what)
        if answer[:1] != b"F":
            return None
        head, _, attached = answer[1:].partition(b";")
        number = head.partition(b",")[0]
        try:
            value = -int(number[1:], 16) if number[:1] == b"-" else int(number, 16)
        except ValueError:
            return None  # not an answer of the protocol
        return value, attached


# The memory of a stopped program, read by a stub's `m` packets and cached in pieces.
#
# Changes that the program makes while it runs are not seen, so `forget` must be called after it has
# run.

_LARGEST, _SMALLEST = 4096, 16  # bytes of a piece; no page is smaller than the largest
_LONGEST = 0x4000  # bytes of one packet
_HEAD_MEMORY = 16  # bytes of a packet beside its content
_MOST_KEPT = 1 << 14  # pieces


class StubMemory(ByteSource):
    """Reads the memory of a program that a stub holds."""

    __slots__ = ("_most", "_pieces", "_size", "_stub", "_top")

    def __init__(self, stub: RemoteStub, bits: int) -> None:
        """`bits` is the size of an address."""
        super().__init__("the program's memory")
        self._stub = stub
        self._top = 1 << bits
        room = (stub.can.packet_size - _HEAD_MEMORY) // 2
        self._size = _LARGEST
        while self._size > room and self._size > _SMALLEST:
            self._size //= 2
        self._most = max(min(room, _LONGEST) // self._size, 1)  # pieces in one packet
        self._pieces: dict[int, bytes] = {}  # b"" if no memory is mapped

    def forget(self) -> None:
        """Clear the cache, because the program has run."""
        self._pieces.clear()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`, fewer at the end of memory.

        Raises RemoteError if the stub is gone.
        """
        if offset < 0 or size <= 0:
            return b""
        end = min(offset + size, self._top)
        data = bytearray()
        while offset < end:
            start = offset - offset % self._size
            piece = self._pieces.get(start)
            if piece is None:
                piece = self._fetch(start, end)
            part = piece[offset - start : end - start]
            data += part
            offset += len(part)
            if not part or len(piece) < self._size:
                break
        return bytes(data)

    def _fetch(self, start: int, end: int) -> bytes:
        """Read the piece at `start`, and with it further ones up to `end` that are not cached."""
        size = self._size
        if len(self._pieces) >= _MOST_KEPT:
            self._pieces.clear()
        count = 1
        while count < self._most and start + count * size < end:
            if start + count * size in self._pieces:
                break
            count += 1
        data = self._ask(start, count * size)
        if len(data) < count * size and count > 1:
            # Some stubs return nothing if the end of the requested range is not mapped.
            data = self._ask(start, size)
            count = 1
        for at in range(count):
            self._pieces[start + at * size] = data[at * size : (at + 1) * size]
        return self._pieces[start]

    def _ask(self, addr: int, size: int) -> bytes:
        answer = self._stub.ask(b"m%x,%x" % (addr, size))
        try:
            return bytes.fromhex(answer.decode("ascii"))
        except ValueError:
            return b""  # an error number: not mapped
