# SPDX-License-Identifier: Apache-2.0
"""A stub that runs a program for us: its registers, memory, breakpoints and stops.

What it can do it says itself (`Capabilities`); nobody asks what it is called.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from typing import Literal, Protocol

from soscope.entry.remote import description, stops
from soscope.entry.remote.packets import PacketStream
from soscope.entry.remote.stops import RemoteStop
from soscope.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_OFFER = (
    b"qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+;QStartNoAckMode+;xmlRegisters=i386"
)
_EVENTS = b";fork-events+;vfork-events+;exec-events+"
_ANSWER = 10.0  # seconds that an answer may take
_PIECE = 0x400  # bytes of memory in one packet
_MOST_SAID = 64
_MOST_OBJECT = 1 << 20  # bytes of one object


class Capabilities:
    """What a stub offers: the words of its answer to qSupported, by name."""

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
        """Return whether it offers what has this name."""
        return self.words.get(name, "-") != "-"

    @property
    def packet_size(self) -> int:
        """The most hexadecimal digits of a packet."""
        try:
            return max(int(self.words.get("PacketSize", "400"), 16), 64)
        except ValueError:
            return 0x400  # as where it says none


class Turns(Protocol):
    """Who lets threads into the stub one by one, where it holds only the one that has stopped."""

    def receive(self, packets: PacketStream, timeout: float | None) -> bytes | None:
        """Return the next packet, as `PacketStream.receive` does."""

    def has_stopped(self) -> None:
        """Hear that the thread in the stub is heard."""

    def end(self, packets: PacketStream) -> None:
        """Hear that the program ends, whoever is in the stub."""

    def goes_on(self, *, is_step: bool) -> None:
        """Hear that it is about to go on."""

    def pause(self) -> None:
        """Have no other thread run where it looks for breakpoints."""

    def unpause(self) -> None:
        """Undo `pause`. May be called twice."""


class RemoteStub:
    """One connection. `registers` are those of the target description, by name.

    Registers are of the thread that has stopped last; they are fetched once for each stop.
    Where it is known how the stub reads (`PacketStream.piece`), nothing waits for an answer that
    could come later: what is changed goes with the word to go on, and so does the question for
    the registers of the next stop. What it refuses is found out at that stop.
    `turns` are taken by the program's threads, None: it has one, or the stub holds all.
    `upper` says what it does not tell of registers, None: it tells all.
    `waiting` are threads that stay where they are when others go on; `only` is the process
    that goes on at all, 0: all do.
    `noted` hears of each packet that sets or removes a breakpoint: of one that sets it before that
    is done, of one that removes it afterwards.
    Raises RemoteError everywhere where the stub is gone or does not answer as it should.
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
        """Shake hands; `order` is the byte order of registers, "<" or ">".

        `events`: forks and execs are to be told, if the stub can. `plain` are the registers of a
        stub that describes none, in order, of a word of 32 bits each.
        """
        self._plain = plain
        self._packets = PacketStream(connected, piece)
        self._sets_alone = False  # it has set a register alone
        self._later: list[bytes] = []  # to be sent with the word to go on
        self._unanswered: deque[bytes] = deque()  # sent before that word
        self._said: dict[bytes, RemoteStop] = {}  # most stops are like one before
        self._is_asked = False  # for all registers, at the next stop
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
        self.goes = 0  # how often the program was let go on
        try:
            self._begin(_OFFER + _EVENTS * events)
        except BaseException:
            if self.thread:
                self.let_go()  # some stubs end programs when connections do
            self.close()
            raise

    def _begin(self, offer: bytes) -> None:
        """Hear what it can, which thread stands where, and which registers that has."""
        self.can = Capabilities(self.ask(offer))
        if self.can.has("QStartNoAckMode") and self.ask(b"QStartNoAckMode") == b"OK":
            self._packets.acknowledge_no_more()
        first = stops.parse(self.ask(b"?"))
        if first.kind != stops.SIGNAL:
            raise RemoteError("the stub runs no program")
        self.thread = first.thread
        # a stub may describe the registers of a thread that was chosen alone
        self.ask(b"Hg" + (self.thread.encode() or b"0"))
        self.registers = description.read(self._description, self._plain)

    def use_order(self, order: str) -> None:
        """Take the byte order of registers, "<" or ">", where it was not known before."""
        self.order = order
        self._order: Literal["little", "big"] = "little" if order == "<" else "big"

    @property
    def is_over(self) -> bool:
        """Return whether the connection is closed."""
        return self._packets.is_over

    def connection(self) -> socket.socket:
        """Return the connection, for another process that has it as well."""
        return socket.socket(fileno=self.fileno())

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._packets.fileno()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self._packets.close()

    # ---- questions ----

    def ask(self, question: bytes) -> bytes:
        """Return the answer to a packet, b"" where the stub does not know it."""
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
        """Look whether a thread tells of the program's end while another one is in the stub."""
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
        """Return what qXfer reads of an object, None where the stub has none."""
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
        """Return a register of the thread that has stopped."""
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
        """Return a register as it is."""
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
        """Return what the stub does not tell of a register, b"" where nobody does."""
        return b"" if self.upper is None else self.upper(name)

    def _take_registers(self) -> None:
        self._is_asked = False
        self._all = _from_hex(self._answer())

    def put(self, name: str, value: int) -> None:
        """Set a register, when the thread goes on."""
        self._known(name)
        self._changed[name] = value

    def _known(self, name: str) -> description.RemoteRegister:
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
        """Set registers with all others, where a stub has no other way."""
        whole = bytearray(_from_hex(self.ask(b"g")))
        for name, value in changed.items():
            register = self._known(name)
            data = value.to_bytes(register.size, self._order)
            whole[register.offset : register.offset + register.size] = data
        if self.ask(b"G" + bytes(whole).hex().encode()) != b"OK":
            raise RemoteError(f"the stub did not set registers {', '.join(changed)}")

    def forget_registers(self) -> None:
        """Leave those unset that are to be set: the thread is not there any more."""
        self._changed.clear()
        self._all = None

    def set_now(self, values: dict[str, int]) -> None:
        """Set registers while the thread stands still."""
        for name, value in values.items():
            self.put(name, value)
        self._write_registers()
        self._all = None

    # ---- memory ----

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer where there is no memory."""
        data = b""
        while len(data) < size:
            want = min(size - len(data), _PIECE, self.can.packet_size // 2 - 8)
            piece = _from_hex(self.ask(b"m%x,%x" % (addr + len(data), want)))
            data += piece
            if len(piece) < want:
                break
        return data

    def write(self, addr: int, data: bytes) -> bool:
        """Write into memory; return whether the stub has done it."""
        return self.ask(b"M%x,%x:%s" % (addr, len(data), data.hex().encode())) == b"OK"

    # ---- breakpoints, and going on ----

    def insert(self, addr: int, size: int) -> None:
        """Have threads stop at an instruction of `size` bytes."""
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
        """Run one instruction of the thread that has stopped."""
        self._go(b"vCont;s:" + self.thread.encode(), is_step=True)
        stop = self.wait(_ANSWER)
        if stop is None:
            raise RemoteError("the stub did not stop behind one instruction")
        return stop

    def resume(self, signal: int = 0) -> None:
        """Let all go on but those that wait, with the protocol's signal `signal`."""
        actions = [b"C%02x:%s" % (signal, self.thread.encode())] if signal else []
        if self.waiting or self.only:
            actions += [b"c:" + name.encode() for name in self._moving()]
        else:
            actions.append(b"c")
        self._go(b";".join([b"vCont", *actions]))

    def resume_alone(self, signal: int = 0) -> None:
        """Let the thread that has stopped go on with such a signal, and no other one."""
        how = b"C%02x" % signal if signal else b"c"
        self._go(b"vCont;%s:%s" % (how, self.thread.encode()) if self.thread else b"vCont;" + how)

    def _moving(self) -> list[str]:
        """Return the names of all threads that are to go on, those of a process together."""
        processes: dict[str, list[str]] = {}
        for name in self.threads():
            if self.only and stops.process_of(name) != self.only:
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
        """Return the next stop; None where there is none in time, or the stub is gone."""
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
                continue  # output of the program, from a stub that has its terminal
            stop = self._said.get(packet)
            if stop is None:
                stop = stops.parse(packet)
                if len(self._said) < _MOST_SAID:
                    self._said[packet] = stop
            if stop.kind != stops.SIGNAL:  # it ends when it has been heard
                self._packets.acknowledge()
                self._is_asked = False
            self.thread = stop.thread or self.thread
            if self.turns is not None:
                self.turns.has_stopped()
            return stop

    @property
    def pid(self) -> int:
        """The number of the process, 0 where the stub names threads alone."""
        return stops.process_of(self.thread)

    @property
    def tid(self) -> int:
        """The number of the thread that has stopped last, 0 where it is not known."""
        return stops.tid_of(self.thread)

    def detach(self) -> None:
        """Let the program go on by itself, and close the connection."""
        self._write_registers()
        if self._later:
            self._send_later()
        # Who waits for an acknowledgement finds the connection closed. Otherwise an emulator would
        # find that at the program's next signal, and end by the SIGPIPE of telling us of it.
        self.ask(b"D;%x" % self.pid if self.pid else b"D")
        self.close()

    def leave(self, orders: list[bytes]) -> None:
        """Send packets for when the program stops next, then have it let go; hear no answer."""
        self._packets.leave([*orders, b"D;%x" % self.pid if self.pid else b"D"])
        self.close()

    def interrupt(self) -> None:
        """Have a program that runs stop soon, where the stub holds all threads."""
        self._packets.interrupt()

    def choose(self, thread: str) -> None:
        """Ask about this thread, or process, from here on. Raises RemoteError."""
        self._write_registers()
        self._all = None
        self._lone.clear()
        self._do(b"Hg" + thread.encode())
        self.thread = thread

    def release(self, pid: int) -> None:
        """Let a further process go on by itself, and hear no more of it. Raises RemoteError."""
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
        """Detach, whatever state it is in, and whatever the stub says to that."""
        with suppress(RemoteError):  # it is gone, or was never a stub
            self.detach()
        self.close()


def _check(packet: bytes, answer: bytes) -> None:
    """Raise RemoteError where the stub has not done what it had to."""
    if answer == b"OK" or packet[:1] == b"z":
        return
    if packet[:1] == b"Z":
        where = packet.split(b",")[1].decode()
        raise RemoteError(f"the stub sets no breakpoint at 0x{where}")
    wanted = packet[:40].decode("utf-8", "replace")
    raise RemoteError(f"the stub did not do '{wanted}'")


def _from_hex(answer: bytes) -> bytes:
    """Return the bytes of an answer in hexadecimal digits, none where it is an error."""
    if len(answer) % 2:
        return b""  # E01
    try:
        return bytes.fromhex(answer.decode("ascii").replace("x", "0"))
    except ValueError:
        return b""  # neither digits nor an error's number: an answer that says nothing
