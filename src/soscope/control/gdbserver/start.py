# SPDX-License-Identifier: Apache-2.0
"""Trace the program of a waiting stub: find where it is, choose an engine, and start.

The steps are: connect, find the program, run it to its loader's first instruction, allocate
memory for soscope in it, and let it run.
"""

from __future__ import annotations

import time
from functools import partial

from soscope.binfmt.elf.reader import encoding
from soscope.control.events import SessionEvents
from soscope.control.follow import MakeBlock
from soscope.control.gdbserver.run import HeldRuns, code_of_loader
from soscope.control.instrument import Instrument
from soscope.control.program import Program
from soscope.control.qemu.memory import RemoteSpace
from soscope.control.qemu.start import check_settings
from soscope.control.remote.choose import EngineChoice
from soscope.control.remote.guest import GuestMemory, base_of
from soscope.control.remote.held.engine import HeldEngine
from soscope.control.remote.held.family import HeldFamily
from soscope.control.remote.held.guard import Guard
from soscope.control.remote.held.memory import HeldMemory
from soscope.control.remote.held.program import HeldProgram
from soscope.control.remote.held.target import HeldTarget
from soscope.control.settings import AUTO, SITES, SLOT, SessionSettings
from soscope.control.signals import Signals
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError, UsageError
from soscope.model.arch import Arch
from soscope.proc import maps, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_ON_STOPS = "one stop a call, and no step"
_ON_RUNNING = "the program runs already, and is to outlive us"
_AT_RANDOM = 25
_TO_FOLLOW = ("multiprocess", "fork-events", "vfork-events", "exec-events", "QNonStop")
_RANDOM = 16  # bytes that are unique to a process


def trace_held(
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
    make_room: Callable[[], object],
) -> HeldTarget:
    """Connect to the stub of `settings`, and return when the program's first images are loaded.

    `make_room` drains what has been recorded. The caller must call `HeldTarget.run` next, in this
    thread. Raises UsageError, RemoteError, LaunchError.
    """
    hooks = check_settings(settings, instruments)
    assert settings.remote is not None
    stub = RemoteStub(settings.remote.connect(), "<", events=True)
    runs = HeldRuns(stub, settings, hooks, make_block, make_room)
    signals = Signals()
    program = target = None
    try:
        if settings.follow:
            _check_follow(settings, stub)
        given = settings.command[0] if settings.command else None
        space = RemoteSpace(stub, given, settings.sysroot)
        held = HeldProgram(space)
        program = Program(0, space.pid, held.path, time.time_ns())
        memory = _memory(stub, space, held)
        target = HeldTarget(program, stub, memory, signals, events)
        signals.block()
        if held.loader is None:
            program.reason = status.STATIC
            events.on_process("start", space.pid, None, program, program.time_ns)
            return target
        is_new = _is_new(stub, space, held)
        choice = runs.choice = _choice(settings, held.arch, stub, is_new=is_new)
        events.on_engine(choice.line)
        run = runs.begin(program, held, space, memory)
        events.on_process("start", space.pid, None, program, program.time_ns)
        at_stops = not stub.can.has("QNonStop")
        if at_stops or not is_new:
            programs = stub.can.has("QProgramSignals")
            target.guard = Guard(stub.connection, stub.pid, programs=programs, at_stops=at_stops)
            stub.noted = partial(_note, stub, target.guard)
        family = HeldFamily(runs, program, events, target.guard, follows=settings.follow)
        engine = HeldEngine(stub, memory, run, family)
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
        if program is not None and program.block is not None:
            program.block.close()
        raise
    return target


def _memory(stub: RemoteStub, space: RemoteSpace, held: HeldProgram) -> GuestMemory:
    """Return the program's memory: the emulator's memory if the stub is one on this machine.

    Through a stub's packets, only the access that the program itself has to its pages is
    possible.
    """
    coding = encoding(space.bits, space.order)
    packets = HeldMemory(stub, coding)
    if not stub.can.has("QNonStop"):
        try:
            base = base_of(space.tid, held.path, space.auxv[maps.AT_PHDR] - _headers_at(held))
            direct = GuestMemory(space.tid, coding, base)
        except (RemoteError, OSError):
            return packets  # no emulator here, or not readable
        place = space.auxv.get(_AT_RANDOM, 0)
        random = packets.read(place, _RANDOM)
        if place and len(random) == _RANDOM and direct.read(place, _RANDOM) == random:
            return direct
        direct.close()
    return packets


def _headers_at(held: HeldProgram) -> int:
    return held.elf.header.phoff if held.elf.header is not None else 0


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
            f"--engine {settings.engine}: not for a program that runs already, as it would not"
            " outlive us"
        )
    if not stub.can.has("QNonStop") and len(stub.threads()) > 1:
        raise RemoteError(
            "the stub's program runs already, with several threads, which it does not hold together"
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
            f"-f: the stub does not offer {', '.join(missing)}: it does not say enough of children"
        )
    if settings.check:
        raise UsageError("-f: not with --check, which compares the calls of one process")
    if settings.engine == SLOT:
        raise UsageError(f"-f: not over --remote with --engine {SLOT}")


def _is_new(stub: RemoteStub, space: RemoteSpace, held: HeldProgram) -> bool:
    """Return whether the program is at its loader's first instruction."""
    assert held.loader is not None
    assert held.loader.header is not None
    entry = code_of_loader(held, held.loader.header.entry, encoding(space.bits, space.order))
    entry += space.auxv.get(maps.AT_BASE, 0)
    mask = ~1 if held.convention.state is not None else -1
    return stub.get(held.convention.pc) == entry & mask
