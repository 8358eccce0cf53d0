# SPDX-License-Identifier: Apache-2.0
"""Which program a native process runs, and its calls, as far as breakpoints see them."""

from __future__ import annotations

import errno

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import encoding
from soscope.binfmt.source import BufferSource
from soscope.control.breakpoints.calls import Calls, OpenCall
from soscope.control.breakpoints.program import (
    BRK_NAME,
    Company,
    ProgramRun,
    TracedProgram,
    dynamic_of,
)
from soscope.control.breakpoints.watch import Armed
from soscope.control.native.images import NativeHooks
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import ENTRIES, Hooks, SessionSettings
from soscope.entry.breakpoint import Frame
from soscope.entry.native.isa import machine_of
from soscope.entry.native.threads import NativeTask, NativeThreads
from soscope.entry.native.traps import NativeMemory, Trap, Traps
from soscope.errors import AttachError, FormatError, NoSuchProcess
from soscope.linker.paths import Root
from soscope.live.images import linkmaps
from soscope.model.arch import Arch
from soscope.proc import maps, rights, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The program that a native process runs, and why breakpoints cannot see its calls, if so.

STATIC = "it is statically linked: there are no slots"

_SIGTRAP = 1 << 4
_SHADOW_STACK = "shstk"
_BRK = 2  # index in `struct r_debug` of the loader's function


class NativeProgram(TracedProgram):
    """The program of process `pid`."""

    __slots__ = ("machine", "pid")

    def __init__(self, pid: int, *, is_ours: bool = False) -> None:
        """Examine the process. `is_ours` is set if this process traces it already.

        Raises AttachError with the reason, NoSuchProcess, NotPermitted.
        """
        self.pid = pid
        self.path = status.program_path(status.living_thread(pid))
        self.root = Root("")
        arch = _arch_of(pid, self.path)
        machine = machine_of(arch)
        if machine is None:
            raise refusal(pid, f"breakpoints in programs for {arch.name} are not understood")
        facts = status.read_status(pid)
        tracer = facts.get("TracerPid", "0")
        if tracer != "0" and not is_ours:
            raise refusal(pid, f"process {tracer} traces it already")
        if int(facts.get("SigIgn", "0"), 16) & _SIGTRAP:
            raise refusal(pid, "it ignores SIGTRAP, and a breakpoint would change that")
        features = facts.get("x86_Thread_features", "")
        if _SHADOW_STACK in features.split():
            raise refusal(pid, "it has a shadow stack, on which calls cannot be put from outside")
        self.arch = arch
        self.machine = machine
        self.convention = machine.convention
        self.coding = encoding(arch.bits, arch.order)

    def open_memory(self) -> NativeMemory:
        """Open its memory for reading and writing. Raises NoSuchProcess, NotPermitted."""
        try:
            return NativeMemory(self.pid, self.coding)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise rights.missing_right(self.pid, "tracing", error.errno) from error
            raise NoSuchProcess(f"no process {self.pid}", errno=error.errno) from error

    @property
    def gains_privileges(self) -> bool:
        """Return whether the program gains privileges at its start (AT_SECURE). Raises OSError."""
        return bool(self._vector().get(maps.AT_SECURE))

    def places(self, memory: NativeMemory) -> tuple[int, int]:
        """Return the addresses of the dynamic section and of the loader's `r_brk` function.

        The second address is 0 if it is not known. Raises AttachError for a static program.
        """
        dynamic = self._dynamic(memory, self._vector())
        try:
            debug = linkmaps.find_debug(memory, self.coding, dynamic)
        except FormatError as error:
            raise self._unreadable(error) from error
        if not debug:
            raise refusal(self.pid, "its loader has not said yet which images there are")
        return dynamic, memory.word(debug + _BRK * self.coding.word.size)

    def first_places(self, memory: NativeMemory) -> tuple[int, int, ElfImage]:
        """Return the same addresses before the loader has run, and the loader's image.

        Raises AttachError for a static program, and for an unknown loader.
        """
        vector = self._vector()
        dynamic = self._dynamic(memory, vector)
        try:
            loader = ElfImage.from_memory(memory, vector.get(maps.AT_BASE, 0))
            brk = loader.symbols.addr(BRK_NAME)
        except FormatError as error:
            raise refusal(self.pid, f"its loader cannot be read: {error.message}") from error
        if brk is None:
            raise refusal(self.pid, f"its loader is of an unknown kind: it has no {BRK_NAME}")
        return dynamic, brk, loader

    def _vector(self) -> dict[int, int]:
        with open(f"/proc/{self.pid}/auxv", "rb", buffering=0) as file:
            return maps.parse_auxv(file.read(1 << 14), bits=self.arch.bits)

    def _dynamic(self, memory: NativeMemory, vector: dict[int, int]) -> int:
        phdr, count = vector.get(maps.AT_PHDR, 0), vector.get(maps.AT_PHNUM, 0)
        try:
            segments = linkmaps.program_segments(memory, self.coding, phdr, count)
        except FormatError as error:
            raise self._unreadable(error) from error
        header = next((s.vaddr for s in segments if s.type == c.PT_PHDR), None)
        dynamic = dynamic_of(segments)
        if dynamic is None or not any(s.type == c.PT_INTERP for s in segments):
            raise refusal(self.pid, STATIC)
        return dynamic + (0 if header is None else phdr - header)

    def _unreadable(self, error: FormatError) -> AttachError:
        return refusal(self.pid, f"its headers cannot be read: {error.message}")


def refusal(pid: int, why: str) -> AttachError:
    """Return the error with the reason why a process is not traced."""
    return AttachError(f"cannot trace process {pid}: {why}")


def _arch_of(pid: int, path: str) -> Arch:
    try:
        with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
            head = file.read(1 << 12)
        header = ElfImage.from_source(BufferSource(head, path)).header
    except PermissionError as error:
        raise rights.missing_right(pid, "tracing", error.errno or errno.EPERM) from error
    except OSError as error:
        raise NoSuchProcess(f"no process {pid}", errno=error.errno) from error
    except FormatError as error:
        raise refusal(pid, f"its program cannot be read: {error.message}") from error
    if header is None or header.arch is None:
        raise refusal(pid, "it is for an unknown machine")
    arch: Arch = header.arch
    return arch


# Data shared by processes of one program.


class NativeRun(ProgramRun):
    """One executed program, which runs in `processes` processes.

    If `sees_slots` is False, only calls of the functions `inside` are seen.
    """

    __slots__ = ("native", "processes", "sees_slots")

    def __init__(
        self,
        native: NativeProgram,
        program: Program,
        hooks: Hooks,
        settings: SessionSettings,
        make_room: Callable[[], object],
    ) -> None:
        super().__init__(program, native, hooks, settings, make_room)
        self.native = native
        self.sees_slots = settings.engine != ENTRIES
        self.processes = 1

    def leave(self) -> None:
        """Count one process less. The last process of the program closes the control block."""
        self.processes -= 1
        if not self.processes and self.program.index:
            self.program.close_block()


# The open calls of a native process, with traps at their return addresses.


class NativeCalls(Calls):
    """The calls of one process. `unseen` counts calls whose return has no breakpoint.

    `lifted` are children that make it necessary to keep all traps out of memory. With `follows`
    the calls of children that share the memory are recorded, too. `hooks` must be set first.
    """

    hooks: NativeHooks

    def __init__(
        self,
        threads: NativeThreads,
        memory: NativeMemory,
        traps: Traps,
        run: NativeRun,
        lifted: set[int],
        *,
        follows: bool,
    ) -> None:
        super().__init__(threads, memory, run)
        self.unseen = 0
        self._follows = follows
        self._threads = threads
        self._traps = traps
        self._lifted = lifted
        self._sp = run.native.machine.sp

    def called(self, tid: int, task: NativeTask, armed: Armed, return_addr: int) -> None:
        """Record a call that is about to be made by the thread whose registers were read."""
        if armed.number < 0 or (task.is_child and not self._follows):
            return
        sp = self._threads.values[self._sp]
        self.record_call(task.pid, tid, armed.number, armed.spec, sp, return_addr)

    def _has_point(self, return_addr: int) -> bool:
        back = self._traps.at.get(return_addr)
        return back is not None and back.is_back

    def _sees_return(self, return_addr: int) -> bool:
        if self._has_point(return_addr):
            return True
        if self._lifted:
            return False
        # Code that was made at run time may be moved.
        if self.hooks.is_code(return_addr) and self._traps.put_back(
            return_addr, busy_copies(self._threads)
        ):
            return True
        self.unseen += 1
        return False

    def _await_return(self, frame: Frame[OpenCall]) -> None:
        back = frame.call.back = self._traps.at[frame.return_addr]
        back.open += 1

    def _drop(self, frame: Frame[OpenCall]) -> None:
        frame.call.back.open -= 1


def busy_copies(threads: NativeThreads) -> set[Trap]:
    """Return the traps whose displaced copies threads may be running."""
    return {task.inside for task in threads.tasks.values() if task.inside is not None}


# Processes that are traced together.


class NativeCompany(Company):
    """All processes of one tracer. `tasks` are their threads, by number."""

    __slots__ = ("tasks",)

    def __init__(self, events: SessionEvents, *, follows: bool) -> None:
        super().__init__(events, follows=follows)
        self.tasks: dict[int, NativeTask] = {}
