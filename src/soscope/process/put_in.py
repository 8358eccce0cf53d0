# SPDX-License-Identifier: Apache-2.0
"""Put the agent into a program that was just executed, before any code of its own runs.

    begin      at the exec stop: find the loader, plant a breakpoint in the function that it
               calls at its events (`_dl_debug_state`)
    on_trap    at each hit; the last one says: all images relocated, no constructor run yet
    finish     map the agent, let it start, aim the loader's function at it

Between `begin` and the last hit the thread belongs to the caller's event loop: loading may
take long (a network file system), and signals act as they would without us. `finish` runs
with signals blocked, a millisecond or two, and undoes everything when a step fails.

One thread exists all the time. Nothing is left behind that the program could see but the
agent's mappings: not a descriptor, not a byte of its stack in use, not a register.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.process import arch_x86_64 as arch
from soscope.process import auxv, linkmap, locking, maps, reasons, status
from soscope.process.blob import Blob
from soscope.process.reasons import Refused
from soscope.process.tracee import Faulted, Tracee
from soscope.wire import layout

_PROT_READ, _PROT_EXEC, _MAP_PRIVATE = 1, 4, 2

_REACH = 1 << 30  # the agent is to lie this near to the loader: a jump must reach it
_GAP = 256 << 10  # left free between the agent and the loader
_VDSO_SIZE = 16384  # at most what is looked through
_TEXT_PIECE = 1 << 18
_START_LIMIT = 20.0  # seconds; a thousand images take some fifty milliseconds
_CODE_SIZE = 64  # bytes of __errno_location to look at
_INT64_MIN = -(1 << 63)

Handover = Callable[[Tracee], tuple[int, int, int]]


class PutIn:
    """The agent's way into one program. `marks` are (step, time.perf_counter_ns()).

    `base` is where the agent lies, 0 before; `hooks_loader` says whether images loaded later
    will be seen.
    """

    __slots__ = (
        "_auxv",
        "_function",
        "_loader",
        "_mask",
        "_r_debug",
        "_saved",
        "_saw_add",
        "base",
        "hooks_loader",
        "marks",
        "tracee",
    )

    def __init__(self, tracee: Tracee) -> None:
        self.tracee = tracee
        self.marks: list[tuple[str, int]] = []
        self.base = 0
        self.hooks_loader = False
        self._auxv: dict[int, int] = {}
        self._loader: ElfImage | None = None
        self._function = 0
        self._saved = b""
        self._mask = 0
        self._r_debug = 0
        self._saw_add = False

    def mark(self, step: str) -> None:
        """Note that `step` is done."""
        self.marks.append((step, time.perf_counter_ns()))

    # ---- at the exec stop ----

    def begin(self, *, is_our_child: bool) -> None:
        """Look at the new program and plant the breakpoint.

        A child of ours has the seccomp filters that we have; anybody else may have more.
        Raises Refused, with nothing changed, where there is no way in.
        """
        self.mark("exec")
        self._mask = self.tracee.signal_mask()
        self._check_program()
        if not is_our_child and _seccomp_filters(self.tracee.tid) > _seccomp_filters(os.getpid()):
            # Its filter was not made for system calls of ours, and may kill for them.
            raise Refused(reasons.SECCOMP)
        self._find_loader()
        self._plant()
        self.mark("loader found")

    def _check_program(self) -> None:
        """Read the auxiliary vector; refuse what takes no agent."""
        try:
            with open(f"/proc/{self.tracee.tid}/exe", "rb", buffering=0) as file:
                program = ElfImage.from_descriptor(file.fileno(), "program")
                header = program.header
                assert header is not None
                is_native = header.encoding.bits == arch.BITS and header.machine == arch.MACHINE
                if is_native:
                    self._auxv = auxv.read(self.tracee.tid)
                    if self._auxv.get(auxv.AT_BASE) and locking.would_fail(
                        self.tracee.tid, program
                    ):
                        raise Refused(reasons.LOCKS)
        except FormatError as error:
            raise Refused(reasons.FOREIGN) from error
        except OSError as error:
            raise Refused(reasons.UNREADABLE) from error
        if not is_native:
            raise Refused(reasons.FOREIGN)
        if self._auxv.get(auxv.AT_SECURE):
            raise Refused(reasons.SETUID)
        if not self._auxv.get(auxv.AT_BASE):
            raise Refused(reasons.STATIC)

    def _find_loader(self) -> None:
        """Find the function that the loader calls at its events, and its `struct r_debug`."""
        memory = self.tracee.memory
        try:
            loader = ElfImage.from_memory(memory, self._auxv[auxv.AT_BASE])
            function = loader.symbols.addr("_dl_debug_state")
            self._r_debug = (
                loader.symbols.addr("_r_debug") or 0
            )  # glibc; musl's is in the program's DT_DEBUG
        except FormatError as error:
            raise Refused(f"{reasons.UNKNOWN_LOADER}: {error}") from error
        if function is None:
            raise Refused(reasons.UNKNOWN_LOADER)
        self._loader = loader
        self._function = function
        self._saved = memory.read(self._function, arch.EMPTY_FUNCTION_SIZE)
        if not arch.is_empty_function(self._saved):
            raise Refused(f"{reasons.UNKNOWN_LOADER}: its event function is not empty")

    def _plant(self) -> None:
        try:
            self.tracee.memory.write(self._function, arch.BREAKPOINT)
        except OSError as error:
            raise Refused(f"its memory cannot be written: {error.strerror}") from error

    # ---- at the breakpoint ----

    def on_trap(self) -> bool | None:
        """Take a SIGTRAP stop: True for the last event, False for an earlier one.

        None where it was not our breakpoint. The thread may be resumed after False; after
        True the breakpoint is gone and `finish` may follow.
        """
        registers = self.tracee.registers()
        if registers.pc != self._function + arch.BREAKPOINT_SIZE:
            return None
        is_last = self._is_last_event()
        if is_last:
            self.tracee.memory.write(self._function, self._saved[: len(arch.BREAKPOINT)])
            registers.pc = self._function
            self.mark("loaded")
        else:
            # The function does nothing: do its return here, which saves a step.
            arch.set_return(registers, self.tracee.memory.word(registers.sp))
        self.tracee.set_registers(registers)
        return is_last

    def _is_last_event(self) -> bool:
        """Say whether all images are relocated.

        glibc announces RT_ADD, then RT_CONSISTENT; musl calls the function once. The events
        of audit libraries come before, in other namespaces.
        """
        if not self._r_debug:
            self._r_debug = self._debug_of_program()
            self._saw_add = True
        debug = linkmap.read_debug(self.tracee.memory, self._r_debug)
        if debug is None or not debug.first:
            return False
        if debug.state == linkmap.RT_ADD:
            self._saw_add = True
        return self._saw_add and debug.state == linkmap.RT_CONSISTENT

    def _debug_of_program(self) -> int:
        """Return the program's DT_DEBUG, by its program headers; 0 where it has none."""
        memory = self.tracee.memory
        phdr, count = self._auxv.get(auxv.AT_PHDR, 0), self._auxv.get(auxv.AT_PHNUM, 0)
        assert self._loader is not None
        layout_ = self._loader.encoding.segment
        bias, dynamic = 0, 0
        table = memory.read(phdr, count * layout_.size)
        for fields in layout_.iter_unpack(table[: len(table) // layout_.size * layout_.size]):
            if fields[0] == 6:  # PT_PHDR says where the table itself was linked
                bias = phdr - fields[3]
            elif fields[0] == elf.PT_DYNAMIC:
                dynamic = fields[3]
        if not dynamic:
            return 0
        try:
            program = ElfImage.from_dynamic(memory, bias, bias + dynamic)
        except FormatError:
            return 0
        return program.dynamic.get(elf.DT_DEBUG) or 0

    # ---- at the last event ----

    def finish(self, blob: Blob, handover: Handover) -> None:
        """Map the agent, start it, and let the loader call it from now on.

        `handover` is called with the tracee once system calls can be made in it, and returns
        the numbers that the blob and the shared file have there, and the size of the latter
        in bytes. The thread stays stopped, at the place where it was. Raises Refused, with
        everything undone, and Gone.
        """
        registers = self.tracee.registers()
        self.tracee.block_signals()
        undo: list[Callable[[], object]] = []
        try:
            self._steps(registers, blob, handover, undo)
        except (Refused, OSError) as error:
            for step in reversed(undo):
                step()
            self._restore(registers)
            if isinstance(error, Refused):
                raise
            raise Refused(f"its memory: {error.strerror or error}") from error
        self._restore(registers)
        self.mark("done")

    def _steps(
        self,
        registers: arch.Registers,
        blob: Blob,
        handover: Handover,
        undo: list[Callable[[], object]],
    ) -> None:
        """Go all the way; `undo` gets what takes each step back."""
        self._find_syscall()
        blob_fd, control_fd, control_size = handover(self.tracee)
        undo.append(lambda: self._close(control_fd))
        undo.append(lambda: self._close(blob_fd))
        self.mark("handed over")
        base = self._map(blob, blob_fd)
        undo.append(lambda: self._unmap(base))
        self.mark("mapped")
        jump = self._jump(base + blob.loader_event)
        start = layout.START.struct.pack(
            base,
            self._r_debug,
            self._auxv[auxv.AT_BASE],
            self._auxv.get(auxv.AT_PHDR, 0),
            self._auxv.get(auxv.AT_PHNUM, 0),
            control_fd,
            blob_fd,
            blob.pages_offset,
            control_size,
            self._errno_offset(),
            0 if jump is None else self._function,
        )
        self.mark("looked up")
        self._start(registers, blob, base, start)
        self.mark("started")
        self._aim_loader(jump)

    def _close(self, descriptor: int) -> None:
        self.tracee.syscall(arch.NR_CLOSE, descriptor)

    def _unmap(self, base: int) -> None:
        if not self.base:  # the agent never ran, or took everything back
            self.tracee.syscall(arch.NR_MUNMAP, base, layout.BLOB_SIZE)

    # ---- giving up ----

    def abandon(self) -> None:
        """Take the breakpoint out of a program that is still being loaded and is stopped.

        Raises OSError where its memory cannot be written, and Gone.
        """
        registers = self.tracee.registers()
        self.tracee.memory.write(self._function, self._saved[: len(arch.BREAKPOINT)])
        if registers.pc == self._function + arch.BREAKPOINT_SIZE:
            registers.pc = self._function
            self.tracee.set_registers(registers)

    def close_inherited(self, descriptors: tuple[int, ...]) -> None:
        """At the exec stop of a program that takes no agent: close what it inherited.

        Raises OSError, Faulted and Gone.
        """
        tracee = self.tracee
        mask = tracee.signal_mask()
        tracee.block_signals()
        # The thread is still inside its execve: its end would overwrite a register of ours.
        tracee.run_to_trap(step=True)
        registers = tracee.registers()
        code = tracee.memory.read(registers.pc, len(arch.SYSCALL))
        tracee.memory.write(registers.pc, arch.SYSCALL)
        tracee.syscall_addr = registers.pc
        for descriptor in descriptors:
            tracee.syscall(arch.NR_CLOSE, descriptor)
        tracee.memory.write(registers.pc, code)
        tracee.set_registers(registers)
        tracee.set_signal_mask(mask)

    def _restore(self, registers: arch.Registers) -> None:
        try:
            self.tracee.set_registers(registers)
            self.tracee.set_signal_mask(self._mask)
        except OSError as error:
            raise Refused(f"its registers: {error.strerror}") from error

    def _find_syscall(self) -> None:
        """Find a syscall instruction: in the vDSO, else in the loader's text."""
        loader = self._loader
        assert loader is not None
        places = [(self._auxv.get(auxv.AT_SYSINFO_EHDR, 0), _VDSO_SIZE)]
        places += [
            (loader.locate(segment.vaddr), min(segment.filesz, _TEXT_PIECE))
            for segment in loader.segments
            if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X
        ]
        if not self.tracee.find_syscall(places):
            raise Refused("no syscall instruction found")

    def _map(self, blob: Blob, descriptor: int) -> int:
        """Map the agent's code, near the loader if there is room, and return where.

        The mapping is as long as all that the agent uses, so that one system call both
        reserves the addresses and maps the code; the agent maps the rest over it.
        """
        loader = self._auxv[auxv.AT_BASE]
        base = self._map_at(loader - layout.BLOB_SIZE - _GAP & -layout.PAGE, descriptor)
        if not self._is_near(base):
            gap = maps.find_gap(maps.read(self.tracee.tid), loader, layout.BLOB_SIZE, _REACH)
            if gap is not None:
                self._unmap(base)
                base = self._map_at(gap, descriptor)
        return base

    def _map_at(self, hint: int, descriptor: int) -> int:
        base = self.tracee.syscall(
            arch.NR_MMAP,
            hint,
            layout.BLOB_SIZE,
            _PROT_READ | _PROT_EXEC,
            _MAP_PRIVATE,
            descriptor,
            0,
        )
        if base < 0:
            raise Refused(f"no room for the agent: {os.strerror(-base)}")
        return base

    def _is_near(self, base: int) -> bool:
        loader = self._auxv[auxv.AT_BASE]
        return abs(base - loader) < _REACH and abs(base + layout.BLOB_SIZE - loader) < _REACH

    def _jump(self, to: int) -> bytes | None:
        """Return the bytes that lead the loader's function to the agent; None: do not."""
        debug = linkmap.read_debug(self.tracee.memory, self._r_debug)
        if debug is None or debug.brk != self._function:
            return None
        return arch.jump(self._function, to, self._saved)

    def _errno_offset(self) -> int:
        """Return errno's offset from the thread pointer, INT64_MIN where it is not known."""
        memory = self.tracee.memory
        debug = linkmap.read_debug(memory, self._r_debug)
        if debug is None:
            return _INT64_MIN
        for entry in linkmap.walk(memory, debug.first):
            name = os.path.basename(entry.path(memory))
            if not name.startswith(("libc.", "libc-", "ld-musl")):
                continue
            try:
                addr = entry.image(memory).symbols.addr("__errno_location")
            except FormatError:
                continue
            if addr is not None:
                code = memory.read(addr, _CODE_SIZE)
                offset = arch.errno_offset(code, addr, memory.word)
                return _INT64_MIN if offset is None else offset
        return _INT64_MIN

    def _start(self, registers: arch.Registers, blob: Blob, base: int, start: bytes) -> None:
        """Write `struct sosc_start` to the free part of the stack and call the agent."""
        where = arch.scratch(registers, len(start))
        self.tracee.memory.write(where, start)
        try:
            result = self.tracee.call(
                base + blob.start, where, where - 8, base + blob.trap, limit=_START_LIMIT
            )
        except Faulted as fault:
            # Slots may lead to the agent already: its mappings have to stay.
            self.base = base
            inside = 0 <= fault.pc - base < layout.BLOB_SIZE
            place = f"agent+{fault.pc - base:#x}" if inside else f"{fault.pc:#x}"
            raise StartFault(f"the agent's start: {fault} ({place})") from fault
        if result < 0:
            raise Refused(f"the agent's start: {os.strerror(-result)}")
        self.base = base

    def _aim_loader(self, jump: bytes | None) -> None:
        """Replace the loader's empty function by a jump to the agent."""
        if jump is not None:
            try:
                self.tracee.memory.write(self._function, jump)
            except OSError:
                return  # images loaded later are not seen; the agent's state says so
            self.hooks_loader = True


class StartFault(Refused):
    """The agent's own start went wrong: a mistake of soscope, not of the target."""


def _seccomp_filters(pid: int) -> int:
    fields = status.read_status(pid)
    return int(fields.get("Seccomp_filters") or fields.get("Seccomp") or 0)
