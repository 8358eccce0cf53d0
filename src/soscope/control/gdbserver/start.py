# SPDX-License-Identifier: Apache-2.0
"""Trace the program of a waiting stub, with the interface that a session needs."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial

from soscope.control.breakpoints.images import GuestMemory, base_of
from soscope.control.command import ExitStatus
from soscope.control.gdbserver.engine import GdbserverEngine
from soscope.control.gdbserver.family import GdbserverFamily
from soscope.control.gdbserver.guard import Guard, is_interrupted, without_ours
from soscope.control.gdbserver.run import GdbserverMemory, GdbserverProgram, GdbserverRuns
from soscope.control.outcome import EngineVerdict
from soscope.control.program import Observation, Program, SessionEvents
from soscope.control.qemu.memory import RemoteSpace
from soscope.control.qemu.start import EngineChoice, check_settings
from soscope.control.settings import AUTO, SITES, SLOT, Instrument, SessionSettings
from soscope.control.signals import ENDING, OWN_SIGNALS, Signals
from soscope.control.supervise import Tick
from soscope.control.tracer import MakeBlock
from soscope.entry.remote.packets import RemoteStop, process_of
from soscope.entry.remote.stub import RemoteFiles, RemoteStub
from soscope.errors import RemoteError, UsageError
from soscope.model.arch import Arch
from soscope.proc import maps, status
from soscope.proc.status import heeded, signal
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Detach from all processes that a stub holds: stop them, undo all changes, and resume.
#
# A stop of one thread is enough, because all others are stopped then.

LATER = "the stub did not stop the program: its breakpoints go when it stops by itself"
_NATURAL = 0.5  # seconds to wait for a stop of its own
_INTERRUPT = 1.0  # seconds to wait for a requested stop
_PATIENCE = 3.0  # seconds in all


class GdbserverLeaving:
    """Detaches from a family that runs or is over.

    `is_for_guard` is set if the guard has to do it at the program's next stop.
    """

    def __init__(self, family: GdbserverFamily) -> None:
        self.is_for_guard = False
        self._has_interrupted = False
        self._family = family
        self._stub = family.stub
        self._keeps_threads = family.first.keeps_threads

    def let_go(self) -> None:
        """Undo all changes and let all processes go on. Raises RemoteError if the stub is gone."""
        family = self._family
        family.is_leaving = True
        end = time.monotonic() + _NATURAL
        while not family.is_over:
            stop = self._stub.wait(max(end - time.monotonic(), 0.0))
            if stop is None:
                break
            if self._is_ours(stop) and self._knows_all():
                self.finish()
                return
            family.handle(stop)
        # Slots that lead to soscope cannot stay, so the program is served until it stops.
        has_slots = any(engine.has_slots for engine in self._engines())
        end = time.monotonic() + (_PATIENCE if self._keeps_threads else 0.0)
        while not family.is_over and (has_slots or time.monotonic() < end):
            if not self._is_interrupted():
                continue
            if self._knows_all():
                self.finish()
                return
            self._stub.resume()
        if not family.is_over:
            self._leave_orders()

    def _knows_all(self) -> bool:
        """Return whether all processes are known: the event of a new child may wait in the stub."""
        if not self._keeps_threads:
            return True
        names = self._stub.threads()
        return all(self._family.engine_of(name) is not None for name in names)

    def _engines(self) -> list[GdbserverEngine]:
        return list(dict.fromkeys(self._family.engines.values()))

    def _leave_orders(self) -> None:
        """Send the packets that detach. The stub reads them when the program stops by itself."""
        for engine in self._engines():
            engine.give_back_slots()
        if self._keeps_threads:
            self._stub.leave(self._orders())
        else:
            self.is_for_guard = True
            self._stub.close()
        self._family.say(LATER)
        self._family.is_over = self._family.is_left = True

    def _orders(self) -> list[bytes]:
        orders = without_ours(programs=self._stub.can.has("QProgramSignals"))
        size = self._family.first.run.traced.convention.breakpoint
        for engine in self._engines():
            orders.append(b"Hg" + engine.home.encode())
            orders += [b"z0,%x,%x" % (addr, size) for addr in engine.points]
        return orders + [b"D;%x" % pid for pid in self._others()]

    def _others(self) -> list[int]:
        """Return all processes except the last one to detach from, children first."""
        *others, last = sorted(self._family.engines, key=self._family.first_pid.__ne__)[::-1]
        self._stub.thread = self._family.engines[last].home
        return others

    def _is_interrupted(self) -> bool:
        """Request a stop of the program, and return whether it stops.

        A stub that has just reported a stop ignores the request. A stub that takes it sends a
        signal, which has to be taken before the program is detached. An emulator always ignores
        it, and takes the byte as a request to report its next stop twice.
        """
        family = self._family
        if self._keeps_threads:
            self._stub.interrupt()
            self._has_interrupted = True
            family.takes_interrupt = True
        end = time.monotonic() + _INTERRUPT
        while not family.is_over:
            is_late = time.monotonic() >= end
            stop = self._stub.wait(_NATURAL if is_late else end - time.monotonic())
            if stop is None and is_late:
                break
            if stop is None:
                continue
            if is_late and self._is_ours(stop) and self._knows_all():
                return True
            family.handle(stop)
            if self._keeps_threads and not family.takes_interrupt:
                return True
        return False

    def _is_ours(self, stop: RemoteStop) -> bool:
        """Return whether a thread has stopped because of soscope, and for no other reason."""
        if stop.facts.keys() & {"fork", "vfork", "vforkdone", "exec"}:
            return False
        engine = self._family.engine_of(stop.thread)
        return engine is not None and engine.is_ours(stop)

    def _take_interrupts(self) -> None:
        """Take the SIGINTs that a stub has sent to a whole group of processes.

        Processes that have not reported it yet would be killed by it as soon as they are
        detached.
        """
        family, stub = self._family, self._stub
        files = RemoteFiles(stub, 0)
        end = time.monotonic() + _PATIENCE
        for pid in list(family.engines):
            if not is_interrupted(files, pid) or not self._may_go_on(pid):
                continue
            stub.only, family.takes_interrupt = pid, True
            stub.resume()
            while family.takes_interrupt and not family.is_over and time.monotonic() < end:
                stop = stub.wait(_NATURAL)
                if stop is None:
                    stub.interrupt()  # it was taken elsewhere
                else:
                    family.handle(stop)
        stub.only = 0

    def _may_go_on(self, pid: int) -> bool:
        """Return whether a thread of a process does not wait for a vfork child."""
        names = self._stub.threads()
        return any(process_of(name) == pid and name not in self._stub.waiting for name in names)

    def finish(self) -> None:
        """Undo all changes while all processes are stopped, and resume them. Raises RemoteError."""
        family, stub = self._family, self._stub
        if self._keeps_threads:
            if self._has_interrupted and len(family.engines) > 1:
                self._take_interrupts()
            # Threads may have come to a slot as well without being reported yet.
            for packet in without_ours(programs=stub.can.has("QProgramSignals")):
                stub.ask(packet)
            for name in stub.threads():
                engine = family.engine_of(name)
                if engine is not None:
                    stub.choose(name)
                    engine.send_on()
            for engine in self._engines():
                stub.choose(engine.home)
                engine.give_all_back()
            for pid in self._others():
                stub.release(pid)
        else:
            family.first.send_on()
            family.first.give_all_back()
        stub.detach()
        family.is_over = family.is_left = True


# A program that a stub holds, with the interface that a session needs.

_TURN = 0.02  # seconds of handling stops before others get their turn


class GdbserverTarget(Observation):
    """One program that soscope did not start.

    `family` has its processes, and is None if none is traced. `guard` detaches from it if soscope
    is killed, and is None if the stub ends the program then. `exit` is its exit status, None if
    it was detached and goes on.
    """

    def __init__(
        self,
        program: Program,
        stub: RemoteStub,
        memory: GuestMemory,
        signals: Signals,
        events: SessionEvents,
    ) -> None:
        self.pid = program.pid
        self.family: GdbserverFamily | None = None
        self._program = program
        self._leaving: GdbserverLeaving | None = None
        self.guard: Guard | None = None
        self._stub = stub
        self._memory = memory
        self._signals = signals
        self._events = events
        self._asked = 0  # requests to end soscope

    @property
    def programs(self) -> list[Program]:
        """The program, and the programs that its processes have executed since."""
        return [self._program] if self.family is None else self.family.programs

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status of the program, or status 0 after a detach, as for processes."""
        if self.family is not None and self.family.exit is not None:
            return self.family.exit
        return ExitStatus(0, None)

    def run(self, tick: Tick | None = None) -> None:
        """Observe the program until it has ended or must be detached (see `Target.run`).

        Raises RemoteError if the stub is gone, and the program has not ended.
        """
        try:
            while not self._is_over():
                self._take_signals()
                if self._is_asked_to_stop():
                    self._let_go()
                    break
                if self.family is not None:
                    self.family.work(_TURN)
                if tick is not None:
                    tick()
            self._check_end()
            if tick is not None:
                tick()
        except RemoteError:
            self._undo()
            raise
        finally:
            self.close()

    def _is_over(self) -> bool:
        return self.family is None or self.family.is_over

    def _is_asked_to_stop(self) -> bool:
        if self._asked:
            return True
        blocks = [program.block for program in self.programs if program.block is not None]
        return any(block.command == layout.COMMAND_STOP for block in blocks)

    def _let_go(self) -> None:
        if self.family is not None:
            self._leaving = GdbserverLeaving(self.family)
            self._leaving.let_go()

    def _undo(self) -> None:
        """Detach from the program after an error of the stub, as far as the stub still answers."""
        if self.family is not None and not self._stub.is_over:
            with suppress(RemoteError):  # the error may come again
                GdbserverLeaving(self.family).finish()

    def _check_end(self) -> None:
        family = self.family
        if family is not None and family.exit is None and not family.is_left:
            raise RemoteError(
                "the stub is gone, and its program had not ended: its end is not known",
                slug="remote-gone",
            )

    def _take_signals(self) -> None:
        received = signal.sigtimedwait(OWN_SIGNALS, 0)
        while received is not None:
            if received.si_signo in heeded(ENDING):
                self._asked += 1
            else:
                self._events.on_own_signal(received.si_signo)
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output (see `Target`)."""
        self._take_signals()
        return not self._asked

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return bool(self._asked)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The program goes on."""
        return bool(self._asked)

    @property
    def is_left(self) -> bool:
        """Return whether the program was detached without a request to do so."""
        return self.family is not None and self.family.is_left and not self._is_asked_to_stop()

    def remarks(self) -> list[str]:
        """Return remarks on what its engine has not seen."""
        return [] if self.family is None else self.family.remarks()

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return None if self.family is None else self.family.first.verdict()

    def close(self) -> None:
        """Detach from the program, if that has not been done. May be called twice."""
        if self.family is not None:
            self.family.is_over = True
        self._stub.let_go()
        if self.guard is not None and self._leaving is not None and self._leaving.is_for_guard:
            self.guard.stay()
        elif self.guard is not None:
            self.guard.dismiss()
        self._memory.close()


# Trace the program of a waiting stub: find where it is, choose an engine, and start.
#
# The steps are: connect, find the program, run it to its loader's first instruction, allocate
# memory for soscope in it, and let it run.

_ON_STOPS = "one stop a call, and no step"
_ON_RUNNING = "the program runs already, and is to outlive us"
_AT_RANDOM = 25
_TO_FOLLOW = ("multiprocess", "fork-events", "vfork-events", "exec-events", "QNonStop")
_RANDOM = 16  # bytes that are unique to a process


def trace_gdbserver(
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
    make_room: Callable[[], object],
) -> GdbserverTarget:
    """Connect to the stub of `settings`, and return when the program's first images are loaded.

    `make_room` drains what has been recorded. The caller must call `GdbserverTarget.run` next, in
    this thread. Raises UsageError, RemoteError, LaunchError.
    """
    hooks = check_settings(settings, instruments)
    assert settings.remote is not None
    stub = RemoteStub(settings.remote.connect(), "<", events=True)
    runs = GdbserverRuns(stub, settings, hooks, make_block, make_room)
    signals = Signals()
    program = target = None
    try:
        if settings.follow:
            _check_follow(settings, stub)
        given = settings.command[0] if settings.command else None
        space = RemoteSpace(stub, given, settings.sysroot)
        traced = GdbserverProgram(space)
        program = Program(0, space.pid, traced.path, time.time_ns())
        memory = _memory(stub, space, traced)
        target = GdbserverTarget(program, stub, memory, signals, events)
        signals.block()
        if traced.loader is None:
            program.reason = status.STATIC
            events.on_process("start", space.pid, None, program, program.time_ns)
            return target
        is_new = _is_new(stub, space, traced)
        choice = runs.choice = _choice(settings, traced.arch, stub, is_new=is_new)
        events.on_engine(choice.line)
        run = runs.begin(program, traced, space, memory)
        events.on_process("start", space.pid, None, program, program.time_ns)
        at_stops = not stub.can.has("QNonStop")
        if at_stops or not is_new:
            programs = stub.can.has("QProgramSignals")
            target.guard = Guard(stub.connection, stub.pid, programs=programs, at_stops=at_stops)
            stub.noted = partial(_note, stub, target.guard)
        family = GdbserverFamily(runs, program, events, target.guard, follows=settings.follow)
        engine = GdbserverEngine(stub, memory, run, family)
        family.begin(engine)
        target.family = family
        if is_new:
            engine.go()
        else:
            engine.join()
    except BaseException:
        stub.let_go()
        if target is not None and target.guard is not None:
            target.guard.dismiss()
        signals.restore()
        if program is not None:
            program.close_block()
        raise
    return target


def _memory(stub: RemoteStub, space: RemoteSpace, traced: GdbserverProgram) -> GuestMemory:
    """Return the program's memory: the emulator's memory if the stub is one on this machine.

    Through a stub's packets, only the access that the program itself has to its pages is
    possible.
    """
    packets = GdbserverMemory(stub, traced.coding)
    if not stub.can.has("QNonStop"):
        try:
            base = base_of(space.tid, traced.path, space.auxv[maps.AT_PHDR] - _headers_at(traced))
            direct = GuestMemory(space.tid, traced.coding, base)
        except (RemoteError, OSError):
            return packets  # no emulator here, or not readable
        place = space.auxv.get(_AT_RANDOM, 0)
        random = packets.read(place, _RANDOM)
        if place and len(random) == _RANDOM and direct.read(place, _RANDOM) == random:
            return direct
        direct.close()
    return packets


def _headers_at(traced: GdbserverProgram) -> int:
    return traced.elf.header.phoff if traced.elf.header is not None else 0


def _choice(
    settings: SessionSettings, arch: Arch, stub: RemoteStub, *, is_new: bool
) -> EngineChoice:
    """Choose an engine.

    Nothing in a running program may be changed, because it must survive soscope. Raises
    UsageError, RemoteError.
    """
    if is_new:
        is_ours = settings.engine in (None, AUTO) and stub.can.has("QNonStop")
        because = _ON_STOPS if is_ours and not settings.check else ""
        return EngineChoice(settings.engine, arch, is_checked=settings.check, because=because)
    if settings.check:
        raise UsageError(
            "--check: not for a program that runs already, as one of the two engines changes slots"
        )
    if settings.engine not in (None, AUTO, SITES):
        raise UsageError(
            f"--engine {settings.engine}: not for a program that runs already, as the program would"
            " not survive the end of soscope"
        )
    if not stub.can.has("QNonStop") and len(stub.threads()) > 1:
        raise RemoteError(
            "the stub's program runs already, with several threads, and the stub cannot stop them"
            " all together"
        )
    because = "" if settings.engine == SITES else _ON_RUNNING
    return EngineChoice(SITES, arch, is_checked=False, because=because)


def _note(stub: RemoteStub, guard: Guard, packet: bytes) -> None:
    guard.note(stub.pid, packet)


def _check_follow(settings: SessionSettings, stub: RemoteStub) -> None:
    """Raise RemoteError or UsageError if children cannot be followed."""
    missing = [word for word in _TO_FOLLOW if not stub.can.has(word)]
    if missing:
        raise RemoteError(
            f"-f: the stub does not offer {', '.join(missing)}: children cannot be followed"
        )
    if settings.check:
        raise UsageError("-f: not with --check, which compares the calls of one process")
    if settings.engine == SLOT:
        raise UsageError(f"-f: not over --remote with --engine {SLOT}")


def _is_new(stub: RemoteStub, space: RemoteSpace, traced: GdbserverProgram) -> bool:
    """Return whether the program is at its loader's first instruction."""
    assert traced.loader is not None
    assert traced.loader.header is not None
    entry = traced.code_of_loader(traced.loader.header.entry) + space.auxv.get(maps.AT_BASE, 0)
    mask = ~1 if traced.convention.state is not None else -1
    return stub.get(traced.convention.pc) == entry & mask
