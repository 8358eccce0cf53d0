# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: rings that keep the newest calls, and the stack of a crash."""

from __future__ import annotations

import os
import time
from collections import deque
from struct import unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import FrameTable, Registers, Row, caller
from soscope.binfmt.source import FileSource, open_regular
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError
from soscope.live.names.locate import Locator
from soscope.live.names.staticnames import ImageNames
from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.model.record import Record
from soscope.proc import maps, status
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import signal
from soscope.recording.clock import SPACING, Sampler
from soscope.recording.drain import Drainer
from soscope.recording.sink import Sink, Stop, Told
from soscope.recording.snapshot import copy_of
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.recording.writer import Writer


# The place where a command died: its stack at the fatal signal that it does not handle.

# Signals that a thread causes itself, so that its stack shows the reason.
_OWN = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
)


class CrashSink(Sink):
    """Looks at the thread of the command that gets a fatal signal, while the thread is stopped."""

    __slots__ = ("_number", "_pid", "_snapshot")

    def __init__(self) -> None:
        self._pid = 0  # the command's process
        self._number = 0
        self._snapshot: Snapshot | None = None

    def event(self, event: Told) -> None:
        """Take a snapshot of the thread if this signal will end the command."""
        if isinstance(event, ProcessStart):
            self._pid = self._pid or event.pid
        elif isinstance(event, Signal) and event.pid == self._pid and event.signal in _OWN:
            self._look(event.tid, event.signal)

    def _look(self, tid: int, number: int) -> None:
        try:
            caught = int(status.read_status(tid)["SigCgt"], 16)
            if caught >> number - 1 & 1:
                return  # the command handles it; if its handler fails, a later signal ends it

            self._snapshot, self._number = Snapshot(tid), number
        except (SoscopeError, OSError, KeyError, AttributeError):
            self._snapshot = None  # the thread is gone, or its machine is not supported

    def stack(self, number: int | None) -> list[str]:
        """Return the stack of the command when signal `number` ended it, [] if it is unknown."""
        if self._snapshot is None or number != self._number:
            return []

        return walk(self._snapshot)


# The flight recorder: rings keep the newest calls, and an event writes them to a recording.
#
# The rings are not drained before the event. A recording is made of a copy of the rings, which go
# on. So if two events happen within the recorded time, some calls are in two recordings.

SIGNAL = signal.SIGUSR1  # sent to soscope: write the rings now

_PAIRS = 128  # clock pairs that are kept for the recorded time
_MOST_EVENTS = 1 << 12

Pair = tuple[int, int, int]


class FlightSettings(Record):
    """The time to keep, and the events that write it. Times are nanoseconds.

    `last_ns` is the length of time to record. `on_crash` writes when a signal has killed a
    process. `on_symbol` are filter expressions of functions, a call of which writes. Without
    both, a recording is written at the end. SIGNAL always writes one.
    """

    last_ns: int
    on_crash: bool
    on_symbol: list[str]


class Flight(Record):
    """A recording written to `path` because of `why`, with the `held_ns` before that event.

    `held_ns` is None if the recording has the whole time that the user asked for.
    """

    path: str
    why: str
    held_ns: int | None


class FlightRecorder:
    """Keeps what a recording of the rings needs beside them, and writes the recordings.

    `make_writer(number)` makes the file of recording 1, 2 and so on. `describe(sink)` writes the
    facts about functions. `written(flight)` is called after each recording. `flights` counts the
    recordings, and `skipped` the calls of symbols that came too soon after the previous one.
    """

    def __init__(
        self,
        settings: FlightSettings,
        make_writer: Callable[[int], Writer],
        describe: Callable[[Sink], object],
        written: Callable[[Flight], object],
    ) -> None:
        self.flights = self.skipped = 0
        self.errors: list[str] = []
        self._settings = settings
        self._make_writer = make_writer
        self._describe = describe
        self._written = written
        self._sampler = Sampler()
        self._first: list[Pair] = [self._sampler.sample()]
        self._pairs: deque[Pair] = deque(maxlen=_PAIRS)
        self._events: list[Told] = []
        self._calls: dict[ControlBlock, int] = {}  # call counts of the symbols at the last look
        self._symbol_at = 0  # monotonic ns before which calls of symbols are skipped
        self._wanted = ""
        self._symbols = f"--on-symbol {', '.join(settings.on_symbol)}"

    signal = SIGNAL

    def remarks(self) -> list[str]:
        """Return the remarks for the end of the session."""
        lines = list(dict.fromkeys(self.errors))
        if not self.flights and not lines:
            asked = self._settings
            whens = ["--on-crash"] * asked.on_crash
            whens += [f"--on-symbol {word}" for word in asked.on_symbol]
            lines.append(f"nothing was written: neither {', '.join(whens)} nor SIGUSR1 happened")
        if self.skipped:
            lines.append(
                f"--on-symbol: {self.skipped:,} more calls came less than --last behind one"
                " that was written at"
            )
        return lines

    @property
    def at_end(self) -> bool:
        """Return whether the recording is written at the end of the session."""
        return not (self._settings.on_crash or self._settings.on_symbol)

    def ask(self) -> None:
        """Request a recording at the next `look`, because SIGUSR1 has come."""
        self._wanted = "SIGUSR1"

    def event(self, event: Told) -> None:
        """Take an event of a process."""
        self._events.append(event)
        if len(self._events) > _MOST_EVENTS:
            self._forget()

    def _forget(self) -> None:
        """Drop events of processes that ended before the recorded time."""
        since = time.time_ns() - self._settings.last_ns
        over = {
            event.pid
            for event in self._events
            if isinstance(event, ProcessExit) and event.time_ns < since
        }
        self._events = [
            event
            for event in self._events
            if event.pid not in over and not (isinstance(event, Signal) and event.time_ns < since)
        ]

    def look(self, drainers: Sequence[tuple[Drainer, ControlBlock]]) -> None:
        """Write a recording if one is requested. Call this often."""
        self._keep_pair()
        until = 0
        for _, block in drainers:
            calls, tsc = calls_of_symbols(block)
            if calls > self._calls.get(block, 0):
                self._calls[block] = calls
                if time.monotonic_ns() < self._symbol_at:
                    self.skipped += 1
                elif not self._wanted:
                    self._wanted, until = self._symbols, tsc
                    self._symbol_at = time.monotonic_ns() + self._settings.last_ns
        if self._wanted:
            why, self._wanted = self._wanted, ""
            self.write(why, drainers, until=until)

    def _keep_pair(self) -> None:
        pair = self._sampler.sample()
        if len(self._first) < 2:
            if pair[2] - self._first[0][2] >= SPACING:
                self._first.append(pair)
            return
        before = self._pairs[-1] if self._pairs else self._first[-1]
        if pair[2] - before[2] >= max(SPACING, self._settings.last_ns // (_PAIRS // 2)):
            self._pairs.append(pair)

    def killed(
        self, pid: int, number: int | None, drainers: Sequence[tuple[Drainer, ControlBlock]]
    ) -> None:
        """Handle the end of a process by signal `number`, or None if its end is not known."""
        if self._settings.on_crash:
            how = _name_of(number) if number else "the end"
            self.write(f"{how} of process {pid}", drainers)

    def write(
        self,
        why: str,
        drainers: Sequence[tuple[Drainer, ControlBlock]],
        *,
        until: int = 0,
    ) -> None:
        """Write a recording of the rings' contents, up to the tsc `until` if it is not 0."""
        now = self._sampler.sample()
        try:
            writer = self._make_writer(self.flights + 1)
        except SoscopeError as error:
            self.errors.append(error.message)
            return
        self.flights += 1
        since = self._tell(writer, drainers, now, until)
        writer.end(complete=True, why="flight")
        self._written(Flight(writer.path, why, self._held(since, now)))

    def _tell(
        self,
        sink: Sink,
        drainers: Sequence[tuple[Drainer, ControlBlock]],
        now: Pair,
        until: int,
    ) -> int:
        """Pass everything to `sink`. Return the tsc at which the recording gets complete, or 0."""
        for pair in (*self._first, now)[:2]:  # two pairs suffice to compute times
            sink.clock(*pair)
        self._describe(sink)
        for event in self._events:
            if isinstance(event, ProcessStart):
                sink.event(event)
        since = 0
        for drainer, block in drainers:
            since = max(since, self._tell_program(sink, drainer, block))
        for event in self._events:
            if not isinstance(event, ProcessStart):
                sink.event(event)
        if until:
            sink.stop(Stop(now[1], until))
        for pair in (*self._pairs, now):
            sink.clock(*pair)
        return since

    def _tell_program(self, sink: Sink, drainer: Drainer, block: ControlBlock) -> int:
        try:
            copy = copy_of(block)
        except SoscopeError as error:
            self.errors.append(error.message)
            return 0
        try:
            mine = Drainer(copy, drainer.program, sink, self._sampler, drainer.path)
            mine.pids, mine.inner_pids = set(drainer.pids), drainer.inner_pids
            mine.finish()
            mine.close()
            return copy.overwritten
        finally:
            copy.close()

    def _held(self, since: int, now: Pair) -> int | None:
        """Return the time in ns that the rings held, or None if it is all that was asked for."""
        if not since:
            return None
        first = self._first[0]
        rate = (now[2] - first[2]) / max(now[0] - first[0], 1)
        held = max(int((now[0] - since) * rate), 0)
        return held if held < self._settings.last_ns else None


def calls_of_symbols(block: ControlBlock) -> tuple[int, int]:
    """Return how many calls of the `on_symbol` functions a program's processes have made.

    The second number is the tsc of the first call that was not read yet, or 0. Reading clears it.
    """
    with block.own(layout.INSTRUMENT_OPEN) as own, own.cast("Q") as words:
        if not len(words):
            return 0, 0
        calls, tsc = words[0], words[1]
        if tsc:
            words[1] = 0
        return calls, tsc


def _name_of(number: int) -> str:
    from signal import Signals  # slow to import

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


# The stack of a dying thread: copied while it is stopped, walked when it is gone.
#
# The registers, the mappings and the top of the stack are copied. Everything else is read from the
# mapped files. The other two walks (entry/guest/frames.py, instruments/prof/sampling/unwind.py)
# need the process: one its memory, the other its images. All three get from a frame to its caller
# by `binfmt.elf.unwind.caller`.

MOST_FRAMES = 64
_STACK = 1 << 20  # bytes of the stack that are copied
_WORD = 8
_SP, _PC = arch.SP_COLUMN, arch.PC_COLUMN


class Snapshot:
    """The state of a stopped thread. Raises OSError if the thread is gone."""

    __slots__ = ("mappings", "memory", "registers", "start")

    def __init__(self, tid: int) -> None:
        registers = arch.get_registers(tid)
        self.registers: Registers = registers.columns()
        self.mappings = maps.read(tid)
        lowest = max(registers.sp - arch.RED_ZONE, 0)
        home = next((area for area in self.mappings if _is_stack(area, lowest)), None)
        self.start = max(lowest, home.start) if home else lowest
        size = min(home.end - self.start, _STACK) if home else 0
        memory = ProcessMemory(tid)
        try:
            self.memory = memory.read(self.start, size) if size else b""
        finally:
            memory.close()

    def word(self, addr: int) -> int | None:
        """Return a word of the stack, or None if it was not copied."""
        at = addr - self.start
        if at < 0 or at + _WORD > len(self.memory):
            return None
        return int.from_bytes(self.memory[at : at + _WORD], "little")


def _is_stack(area: maps.Mapping, lowest: int) -> bool:
    """Return whether a mapping has the bytes from `lowest` on, or just above after an overflow."""
    return area.flags[0] == "r" and area.end > lowest and area.start < lowest + _STACK


class _File:
    """A mapped file. If it cannot be read, it has no symbols and no frame table."""

    __slots__ = ("_fd", "_frames", "_image", "_locator", "name")

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._image: ElfImage | None = None
        self._frames: FrameTable | None = None
        self._locator: Locator | None = None
        self._fd = open_regular(path)
        if self._fd is None:
            return
        try:
            self._image = image = ElfImage.from_source(FileSource(self._fd, path))
            self.name = image.soname or self.name  # images are printed with this name
            names = ImageNames(image, build_id=image.build_id, path=path, roots=[""])
            self._locator = Locator(image, names)
            self._frames = FrameTable(image)
        except (SoscopeError, OSError):
            pass  # continue with what is known

    def vaddr(self, offset: int) -> int | None:
        """Return the link-time address of an offset in the file."""
        for segment in self._image.segments if self._image else ():
            if segment.type == c.PT_LOAD and 0 <= offset - segment.offset < segment.filesz:
                return offset - segment.offset + segment.vaddr
        return None

    def row(self, vaddr: int) -> Row | None:
        """Return the row of the frame table (CFI) for an address, None without one."""
        return self._frames.row(vaddr) if self._frames else None

    def place(self, vaddr: int, back: int) -> str:
        """Return IMAGE!FUNCTION+0xOFFSET for an address. `vaddr - back` is in the function."""
        place = None
        if self._locator is not None:
            try:
                place = self._locator.at(vaddr - back)
            except (SoscopeError, OSError):
                pass  # damaged symbols
        if place is None or not place.is_found or place.symbol is None:
            return f"{self.name}+{vaddr:#x}"
        return f"{self.name}!{place.symbol.name}+{place.offset + back:#x}"

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)


def walk(snapshot: Snapshot) -> list[str]:
    """Return the frames, innermost first, as IMAGE!FUNCTION+0xOFFSET.

    The walk ends early if a frame has no unwind information.
    """
    walker = _Walker(snapshot)
    try:
        return walker.frames()
    finally:
        walker.close()


class _Walker:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._files: dict[str, _File] = {}

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def frames(self) -> list[str]:
        frames: list[str] = []
        registers = self._snapshot.registers
        back = 0  # 1: a return address may be in the next function
        for _ in range(MOST_FRAMES):
            pc = registers.get(_PC)
            if not pc and frames:
                break
            file, vaddr = self._home(pc or 0, back)
            row = None
            if file is None or vaddr is None:
                frames.append(f"{pc or 0:#x}")
                if len(frames) > 1:
                    break
            else:
                frames.append(file.place(vaddr, back))
                try:
                    row = file.row(vaddr - back)
                except (SoscopeError, OSError):
                    break  # the file's tables are damaged
            if row is None and len(frames) > 1:
                break
            try:
                above = self._caller(registers, row)
            except FormatError:
                break  # registers that cannot be computed, or memory not copied
            if (above[_SP] or 0) <= (registers[_SP] or 0):
                break
            back = 0 if row is not None and row.is_signal else 1
            registers = above
        return frames

    def _home(self, pc: int, back: int) -> tuple[_File | None, int | None]:
        for mapping in self._snapshot.mappings:
            if mapping.start <= pc - back < mapping.end and mapping.path.startswith("/"):
                file = self._files.get(mapping.path)
                if file is None:
                    file = self._files[mapping.path] = _File(mapping.path)
                vaddr = file.vaddr(pc - back - mapping.start + mapping.offset)
                return file, None if vaddr is None else vaddr + back
        return None, None

    def _caller(self, registers: Registers, row: Row | None) -> Registers:
        """Return the caller's registers. Raises FormatError if they cannot be computed."""
        read = self._snapshot.word
        if row is not None:
            return caller(row, registers, read, _SP)
        sp = registers[_SP] or 0  # a leaf: its return address is on top of the stack
        return registers | {_PC: read(sp), _SP: sp + _WORD}


# Missing data of the recorded stacks, known when the programs of a session have ended.

_NO_RUBY = {
    layout.RUBY_NO_FUNCTION: "frames of Ruby are not known: it lacks a function",
    layout.RUBY_NO_LAYOUT: "frames of Ruby are not known: its version is not",
    layout.RUBY_NO_CONTEXT: "frames of Ruby are not known: its threads' states are not found",
    layout.RUBY_WRONG: "frames of Ruby are not known: it has others than its version should",
}
_NO_PYTHON = {
    layout.PYTHON_NO_FUNCTION: "frames of Python are not known: it lacks a function",
    layout.PYTHON_NO_LAYOUT: "frames of Python are not known: its version is not",
    layout.PYTHON_NO_GIL: "frames of Python are not known: it is a free-threaded build",
    layout.PYTHON_DEBUG: "frames of Python are not known: it is a debug build",
}


class StackLosses:
    """Counts calls whose stacks found no room (`lost`), and keeps why frames are missing."""

    __slots__ = ("_why", "lost")

    def __init__(self) -> None:
        self.lost = 0
        self._why: set[str] = set()  # why interpreter frames are missing

    def take(self, block: ControlBlock, instrument: int) -> None:
        """Add the losses of one program if `instrument` keeps stacks."""
        head = layout.BLOCKS
        with block.own(instrument) as own:
            if len(own) >= head.size:
                (lost,) = unpack_from("<Q", own, head.offset("stacks_lost"))
                self.lost += lost
                for field, reasons in (("ruby", _NO_RUBY), ("python", _NO_PYTHON)):
                    (reason,) = unpack_from("<I", own, head.offset(field))
                    self._why |= {reasons[reason]} if reason in reasons else set()

    def notes(self) -> list[str]:
        """Return sentences that tell why frames of an interpreter are missing."""
        return sorted(self._why)
