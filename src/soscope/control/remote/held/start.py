# SPDX-License-Identifier: Apache-2.0
"""Trace the program of a stub that waits: where it stands, which engine, and go.

connect ─ which program ─ its loader's first instruction ─ memory of ours ─ go
"""

from __future__ import annotations

import time
from _collections_abc import Callable, Sequence

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding, encoding
from soscope.binfmt.elf.relative import relative_words
from soscope.control.events import SessionEvents
from soscope.control.follow import MakeBlock
from soscope.control.instrument import Hooks, Instrument
from soscope.control.program import Program
from soscope.control.remote.choose import EngineChoice, WatchMaker
from soscope.control.remote.guest import GuestMemory, base_of
from soscope.control.remote.held.engine import HeldEngine
from soscope.control.remote.held.guard import Guard
from soscope.control.remote.held.memory import HeldMemory
from soscope.control.remote.held.program import HeldProgram
from soscope.control.remote.held.target import HeldTarget
from soscope.control.remote.space import RemoteSpace
from soscope.control.remote.start import check_settings
from soscope.control.remote.wanted import Wanted
from soscope.control.settings import AUTO, SITES, SessionSettings
from soscope.control.signals import Signals
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError, UsageError
from soscope.model.arch import Arch
from soscope.proc import auxv, reasons
from soscope.recording.clock import Sampler
from soscope.wire.recorder import Recorder

_ON_STOPS = "one stop a call, and no step"
_ON_RUNNING = "the program runs already, and is to outlive us"
_AT_RANDOM = 25
_RANDOM = 16  # bytes that no other process has


def trace_held(
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
    make_room: Callable[[], object],
) -> HeldTarget:
    """Connect to the stub of `settings`; return when the program's first images are there.

    `make_room` has what has been recorded taken off. Raises UsageError, RemoteError, LaunchError;
    `HeldTarget.run` has to be called next, from this thread.
    """
    hooks = check_settings(settings, instruments)
    assert settings.remote is not None
    stub = RemoteStub(settings.remote.connect(), "<", events=True)
    signals = Signals()
    program = target = None
    try:
        given = settings.command[0] if settings.command else None
        space = RemoteSpace(stub, given, settings.sysroot)
        held = HeldProgram(space)
        program = Program(0, space.pid, held.path, time.time_ns())
        memory = _memory(stub, space, held)
        target = HeldTarget(program, stub, memory, signals, events)
        signals.block()
        if held.loader is None:
            program.reason = reasons.STATIC
            events.on_process("start", space.pid, None, program, program.time_ns)
            return target
        is_new = _is_new(stub, space, held)
        choice = _choice(settings, held.arch, stub, is_new=is_new)
        events.on_engine(choice.line)
        program.block = make_block(program.path, None, 0)
        program.arch, program.engine = _name(held.arch), choice.name
        recorder = Recorder(program.block, Sampler().ticks, make_room)
        events.on_process("start", space.pid, None, program, program.time_ns)
        at_stops = not stub.can.has("QNonStop")
        if at_stops or not is_new:
            programs = stub.can.has("QProgramSignals")
            number = stub.pid if at_stops else space.pid
            target.guard = Guard(stub.connection, number, programs=programs, at_stops=at_stops)
            stub.noted = target.guard.note
        engine = _engine(
            stub, space, held, memory, recorder, hooks, events, choice, settings.inside
        )
        target.engine = engine
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


def _name(arch: Arch) -> str:
    return arch.name if arch.has_agent else arch.emulator


def _memory(stub: RemoteStub, space: RemoteSpace, held: HeldProgram) -> GuestMemory:
    """Return the program's memory: that of its emulator, where this is one of this machine.

    An emulator's packets keep to what the program itself may do to its pages.
    """
    coding = encoding(space.bits, space.order)
    packets = HeldMemory(stub, coding)
    if not stub.can.has("QNonStop"):
        try:
            base = base_of(space.tid, held.path, space.auxv[auxv.AT_PHDR] - _headers_at(held))
            direct = GuestMemory(space.tid, coding, base)
        except (RemoteError, OSError):
            return packets  # it is none, or it may not be read
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

    Nothing of a program that runs may be changed, as it is to outlive us.

    Raises UsageError, RemoteError.
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


def _is_new(stub: RemoteStub, space: RemoteSpace, held: HeldProgram) -> bool:
    """Say whether the program is at its loader's first instruction."""
    assert held.loader is not None
    assert held.loader.header is not None
    entry = _code(held, held.loader.header.entry, encoding(space.bits, space.order))
    entry += space.auxv.get(auxv.AT_BASE, 0)
    mask = ~1 if held.convention.state is not None else -1
    return stub.get(held.convention.pc) == entry & mask


def _code(held: HeldProgram, vaddr: int, coding: Encoding) -> int:
    """Return where the code of a function of the loader is, which a descriptor may name."""
    loader = held.loader
    assert loader is not None
    if not held.convention.descriptor:
        return vaddr
    word = coding.word
    told = relative_words(loader).get(vaddr)
    return told or int(word.unpack(loader.read(vaddr, word.size, ".opd"))[0])


def _engine(
    stub: RemoteStub,
    space: RemoteSpace,
    held: HeldProgram,
    memory: GuestMemory,
    recorder: Recorder,
    hooks: Hooks,
    events: SessionEvents,
    choice: EngineChoice,
    inside: list[str],
) -> HeldEngine:
    """Prepare everything while the program stands still."""
    loader, coding = held.loader, encoding(space.bits, space.order)
    assert loader is not None
    at = space.auxv.get(auxv.AT_BASE, 0)
    segments = space.headers()
    bias = space.bias(segments)
    dynamic = next((each.vaddr for each in segments if each.type == c.PT_DYNAMIC), 0) + bias
    brk = loader.symbols.addr("_dl_debug_state")
    if brk is None:
        raise RemoteError("the program's loader is of an unknown kind: it has no _dl_debug_state")
    return HeldEngine(
        stub,
        memory,
        held,
        recorder,
        Wanted(hooks, held.convention, held.arch, coding),
        string_limit=hooks.string_limit,
        on_signal=lambda tid, number: events.on_signal(space.pid, tid, number, time.time_ns()),
        dynamic=dynamic,
        brk=_code(held, brk, coding) + at,
        make_watch=WatchMaker(choice, stub, memory, held, at),
        inside=inside,
    )
