# SPDX-License-Identifier: Apache-2.0
"""A program that a stub holds: its file, loader, memory and control block."""

from __future__ import annotations

import os

from soscope.binfmt.elf.reader import Encoding
from soscope.control.breakpoints.images import GuestMemory
from soscope.control.program import Program
from soscope.control.qemu.memory import RemoteSpace, compare, read_image
from soscope.control.qemu.program import ForeignProgram, RemoteRun
from soscope.control.qemu.start import EngineChoice, WatchMaker
from soscope.control.settings import Hooks, SessionSettings
from soscope.control.tracer import MakeBlock
from soscope.entry.remote.stub import RemoteStub, StubMemory
from soscope.errors import RemoteError
from soscope.linker.paths import Root
from soscope.model.arch import Arch
from soscope.proc import maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The memory of a program that a stub holds, accessed only by packets.

_FEW = 64  # bytes too few for reading a whole piece
_PAGE = 4096


class GdbserverMemory(GuestMemory):
    """Reads and writes the memory while the program is stopped.

    Data that was read is cached until the program goes on, or something is written.
    """

    __slots__ = ("_pieces", "_seen", "_stub")

    def __init__(self, stub: RemoteStub, coding: Encoding) -> None:
        self.name = "the program's memory"
        self._stub = stub
        self._pieces = StubMemory(stub, coding.bits)
        self._seen = -1
        self.pid = stub.pid or stub.tid
        self.coding = coding
        self.base = 0

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`."""
        if self._seen != self._stub.goes:
            self._seen = self._stub.goes
            self._pieces.forget()
        if size <= _FEW:
            return self._stub.read(offset, size) if offset >= 0 else b""
        return self._pieces.read(offset, size)

    def write(self, addr: int, data: bytes) -> bool:
        """Write some bytes. Return whether that succeeded."""
        self._seen = -1
        return self._stub.write(addr, data)

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing can be read at the program's addresses [start, end)."""
        return not any(self._stub.read(at, 1) for at in range(start, end, _PAGE))


# The program that a stub holds: its file here, its loader, and its sysroot.


class GdbserverProgram(ForeignProgram):
    """One program, like `ForeignProgram`. soscope does not start it, so it has no emulator."""

    __slots__ = ()

    def __init__(self, space: RemoteSpace) -> None:
        """Find its files. Raises RemoteError, and LaunchError for a missing file."""
        self.sysroot = space.files.sysroot or "/"
        self.root = Root(self.sysroot)
        self.path = _here(space.files.program or "", self.root)
        elf = read_image(self.path)
        compare(elf, self.path, space.headers(), space.bits, space.order)
        self._know(elf, self.path, RemoteError)
        self.emulator = ""
        interpreter = elf.interpreter
        self.loader = None if interpreter is None else read_image(_here(interpreter, self.root))


def _here(path: str, root: Root) -> str:
    """Return the path here of a file of the program's system. Raises RemoteError."""
    if not path:
        raise RemoteError(
            "the stub does not say which program it holds",
            hint="soscope trace --remote ADDRESS -- PROGRAM",
        )
    for candidate in (root.host(path), path):
        if os.path.isfile(candidate):
            return candidate
    raise RemoteError(
        f"{path}, the file of the stub's program, is not on this machine",
        hint="--sysroot DIR: where the system of the program lies",
    )


# Programs that a stub holds, each with its control block, which forked children share.


class GdbserverRuns:
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
        self, program: Program, traced: GdbserverProgram, space: RemoteSpace, memory: GuestMemory
    ) -> RemoteRun:
        """Return the run of a program whose process is stopped, and make its control block.

        Raises RemoteError.
        """
        program.block = self._make_block(program.path, None, 0)
        program.arch, program.engine = _name(traced.arch), self.choice.name
        base = space.auxv.get(maps.AT_BASE, 0)
        segments = space.headers()
        run = RemoteRun(
            program,
            traced,
            self._hooks,
            self.settings,
            self._make_room,
            segments=segments,
            bias=space.bias(segments),
            base=base,
        )
        run.make_watch = WatchMaker(self.choice, self.stub, memory, traced, base)
        return run


def _name(arch: Arch) -> str:
    return arch.name if arch.has_agent else arch.emulator
