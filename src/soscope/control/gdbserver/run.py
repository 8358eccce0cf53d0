# SPDX-License-Identifier: Apache-2.0
"""Programs that a stub holds, each with its control block, which forked children share."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Encoding, encoding
from soscope.binfmt.elf.sections import relative_words
from soscope.control.breakpoints.watch import Wanted
from soscope.control.follow import MakeBlock
from soscope.control.instrument import Hooks
from soscope.control.program import Program
from soscope.control.qemu.memory import RemoteSpace
from soscope.control.remote.choose import EngineChoice, WatchMaker
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.held.program import HeldProgram
from soscope.control.settings import SessionSettings
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError
from soscope.model.arch import Arch
from soscope.proc import maps
from soscope.recording.clock import Sampler
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class HeldRun:
    """One executed program, from its first instruction on.

    `program` is the session's record of it, and `held` has its files. `dynamic` is the address of
    its dynamic section, and `brk` of the function that its loader calls. `make_watch` makes the
    watch that notices its calls.
    """

    __slots__ = (
        "brk",
        "dynamic",
        "held",
        "inside",
        "make_watch",
        "program",
        "recorder",
        "string_limit",
        "wants",
    )

    def __init__(
        self,
        program: Program,
        held: HeldProgram,
        recorder: Recorder,
        wants: Wanted,
        make_watch: WatchMaker,
        *,
        string_limit: int,
        inside: list[str],
        dynamic: int,
        brk: int,
    ) -> None:
        self.program = program
        self.held = held
        self.recorder = recorder
        self.wants = wants
        self.make_watch = make_watch
        self.string_limit = string_limit
        self.inside = inside
        self.dynamic = dynamic
        self.brk = brk


class HeldRuns:
    """Makes the runs of programs. The first program decides their engine, `choice`."""

    choice: EngineChoice

    def __init__(
        self,
        stub: RemoteStub,
        settings: SessionSettings,
        hooks: Hooks,
        make_block: MakeBlock,
        make_room: Callable[[], object],
    ) -> None:
        self.stub = stub
        self.settings = settings
        self._hooks = hooks
        self._make_block = make_block
        self._make_room = make_room

    def begin(
        self, program: Program, held: HeldProgram, space: RemoteSpace, memory: GuestMemory
    ) -> HeldRun:
        """Return the run of a program whose process is stopped, and make its control block.

        Raises RemoteError.
        """
        loader, coding = held.loader, encoding(space.bits, space.order)
        assert loader is not None
        program.block = self._make_block(program.path, None, 0)
        program.arch, program.engine = _name(held.arch), self.choice.name
        at = space.auxv.get(maps.AT_BASE, 0)
        segments = space.headers()
        bias = space.bias(segments)
        dynamic = next((each.vaddr for each in segments if each.type == c.PT_DYNAMIC), 0) + bias
        brk = loader.symbols.addr("_dl_debug_state")
        if brk is None:
            raise RemoteError(
                "the program's loader is of an unknown kind: it has no _dl_debug_state"
            )
        return HeldRun(
            program,
            held,
            Recorder(program.block, Sampler().ticks, self._make_room),
            Wanted(self._hooks, held.convention, held.arch, coding),
            WatchMaker(self.choice, self.stub, memory, held, at),
            string_limit=self._hooks.string_limit,
            inside=self.settings.inside,
            dynamic=dynamic,
            brk=code_of_loader(held, brk, coding) + at,
        )


def code_of_loader(held: HeldProgram, vaddr: int, coding: Encoding) -> int:
    """Return the address of a loader function's code, through its descriptor if it has one."""
    loader = held.loader
    assert loader is not None
    if not held.convention.descriptor:
        return vaddr
    word = coding.word
    told = relative_words(loader).get(vaddr)
    return told or int(word.unpack(loader.read(vaddr, word.size, ".opd"))[0])


def _name(arch: Arch) -> str:
    return arch.name if arch.has_agent else arch.emulator
