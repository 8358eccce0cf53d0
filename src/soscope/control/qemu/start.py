# SPDX-License-Identifier: Apache-2.0
"""Start a program of another architecture under an emulator that waits for soscope.

The steps are: fork, exec of the emulator, connect to its stub, run the program to its loader's
first instruction, allocate memory for soscope in it, and let it run.
"""

from __future__ import annotations

import time

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import relative_words
from soscope.control import child as children
from soscope.control.agentless import needing_agent
from soscope.control.breakpoints.watch import Wanted
from soscope.control.command import Command, launch_error
from soscope.control.events import SessionEvents
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.instrument import Hooks, Instrument
from soscope.control.program import Program
from soscope.control.remote.choose import EngineChoice, WatchMaker
from soscope.control.remote.engine import Engine
from soscope.control.remote.guest import GuestMemory, base_of
from soscope.control.remote.halves import UpperHalves
from soscope.control.remote.program import ForeignProgram
from soscope.control.remote.target import RemoteTarget
from soscope.control.settings import SessionSettings
from soscope.control.signals import Signals
from soscope.control.tracer import Tracer
from soscope.entry.remote.qemu import PIECE, Socket
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import FormatError, LaunchError, RemoteError, UsageError
from soscope.live.images.linkmaps import program_segments
from soscope.proc import maps, status
from soscope.recording.clock import Sampler
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_AT_PHNUM = 5
_NO_CHILDREN = (
    "-f: not for programs of another architecture: their emulator's stub tells of one process"
)


def start_foreign(
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
    make_room: Callable[[], object],
) -> RemoteTarget:
    """Start the command of `settings` and return when its loader is about to run.

    `make_room` drains what has been recorded. The caller must call `RemoteTarget.run` next, in
    this thread. Raises LaunchError, UsageError, RemoteError.
    """
    hooks = check_settings(settings, instruments)
    foreign = ForeignProgram(settings.command, settings.cwd, settings.sysroot, settings.qemu)
    choice = EngineChoice(settings.engine, foreign.arch, is_checked=settings.check)
    if foreign.loader is not None:
        events.on_engine(choice.line)
    place = Socket()
    signals = Signals()
    try:
        words = place.words(foreign.emulator, foreign.sysroot, foreign.path, settings.command)
        command = Command(words, settings.cwd, settings.environ, settings.user)
        program = Program(0, 0, foreign.path, 0)
        agents = AgentSource(None, make_block)
        if foreign.loader is None:
            program.reason = status.STATIC
        else:
            program.block = make_block(program.path, None, 0)
            program.arch, program.engine = foreign.arch.emulator, choice.name
        signals.block()
        target = _forked(command, program, agents, signals, events, settings.command[0])
        try:
            connected = place.connect(target.ended)
            target.emulator_runs()
            stub = RemoteStub(
                connected, foreign.elf.encoding.order, PIECE, plain=foreign.convention.plain
            )
            if program.block is None:
                stub.detach()
                target.is_uncompared = settings.check
                return target
            recorder = Recorder(program.block, Sampler().ticks, make_room)
            _begin(
                target,
                stub,
                foreign,
                recorder,
                hooks,
                events,
                choice,
                settings.inside,
            )
        except BaseException:
            target.kill()
            target.forget_group()
            raise
    except BaseException:
        place.close()
        signals.restore()
        raise
    return target


def check_settings(settings: SessionSettings, instruments: Sequence[Instrument]) -> Hooks:
    """Return the hooks to be seen. Raises UsageError for features that need an agent."""
    if settings.follow and settings.remote is None:
        raise UsageError(_NO_CHILDREN)
    what = needing_agent(settings, instruments)
    if what:
        raise UsageError(f"{what}: not for programs of another architecture")
    return next(each.hooks for each in instruments if each.hooks is not None)


def _forked(
    command: Command,
    program: Program,
    agents: AgentSource,
    signals: Signals,
    events: SessionEvents,
    name: str,
) -> RemoteTarget:
    """Fork a process that executes the emulator. Raises LaunchError."""
    try:
        child = children.fork(command, (), signals, lambda entries: entries, dies_with_us=True)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise LaunchError(f"cannot start a process: {reason}", errno=error.errno) from error
    program.pid = child.pid
    tracer = Tracer(child.pid, program, agents, events, follow=False, stay=False)
    target = RemoteTarget(tracer, agents, signals)
    try:
        child.go(children.BARE)
        target.watch_group()
        failure = child.exec_error()
        if failure is not None:
            target.reap()
            raise launch_error(name, failure)
        tracer.start_untraced()
    finally:
        child.close()
    return target


def _begin(
    target: RemoteTarget,
    stub: RemoteStub,
    foreign: ForeignProgram,
    recorder: Recorder,
    hooks: Hooks,
    events: SessionEvents,
    choice: EngineChoice,
    inside: list[str],
) -> None:
    """Prepare everything while the program is at its loader's first instruction, and start it."""
    loader, coding = foreign.loader, foreign.elf.encoding
    assert loader is not None
    told = stub.object("auxv")
    if told is None:
        raise RemoteError("the stub does not say where the program is (auxv)")
    vector = maps.parse_auxv(told, bits=coding.bits, order=coding.order)
    phdr, count = vector.get(maps.AT_PHDR, 0), vector.get(_AT_PHNUM, 0)
    bias = phdr - foreign.elf.header.phoff - _first_load(foreign) if foreign.elf.header else 0
    base = base_of(target.pid, foreign.path, bias + _first_load(foreign))
    memory = target.memory = GuestMemory(target.pid, coding, base)
    if foreign.convention.is_whole is not None:
        stub.upper = UpperHalves(target.pid, stub, foreign.convention).read
    try:
        segments = program_segments(memory, coding, phdr, count)
    except FormatError as error:
        raise RemoteError(f"the program's headers cannot be read: {error.message}") from error
    dynamic = next((each.vaddr for each in segments if each.type == c.PT_DYNAMIC), 0) + bias
    at = vector.get(maps.AT_BASE, 0)
    brk = loader.symbols.addr("_dl_debug_state")
    if brk is None:
        raise RemoteError("the program's loader is of an unknown kind: it has no _dl_debug_state")
    if foreign.convention.descriptor:
        word = coding.word
        brk = relative_words(loader).get(brk) or word.unpack(loader.read(brk, word.size, ".opd"))[0]
    engine = Engine(
        stub,
        memory,
        foreign,
        recorder,
        Wanted(hooks, foreign.convention, foreign.arch, coding),
        string_limit=hooks.string_limit,
        on_signal=lambda _, tid, number: events.on_signal(target.pid, tid, number, _now()),
        dynamic=dynamic,
        brk=brk + at,
        make_watch=WatchMaker(choice, stub, memory, foreign, at),
        inside=inside,
    )
    target.engine = engine
    engine.go()


def _first_load(foreign: ForeignProgram) -> int:
    return next((s.vaddr - s.offset for s in foreign.elf.segments if s.type == c.PT_LOAD), 0)


def _now() -> int:
    return time.time_ns()
