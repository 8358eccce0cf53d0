# SPDX-License-Identifier: Apache-2.0
"""Put the agent into a program that was just executed, before any of its own code runs.

    begin      at the exec stop: find the loader, plant a breakpoint in the function that it
               calls at its events (`_dl_debug_state`)
    on_trap    at each hit; at the last one all images are relocated, no constructor run yet
    finish     map the agent, let it start, redirect the loader's function to it

Between `begin` and the last hit the thread belongs to the caller's event loop: loading may take
long (a network file system), and signals have their usual effect. `finish` runs with signals
blocked, a millisecond or two, and undoes everything if a step fails.

There is only one thread all the time. Nothing remains that the program could see except the
agent's mappings: no descriptor, no used byte of its stack, no register.
"""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import loader
from soscope.entry.agent.install import Blob, Facts, Handover, Install, Undo
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.entry.tracee import Tracee
from soscope.errors import FormatError, SoscopeError
from soscope.proc import maps, status
from soscope.proc.status import Refused

# Programs that lock all their memory, with the agent's, which may exceed their limit.
#
# mlockall(2) compares the whole address space with RLIMIT_MEMLOCK. So it may fail where it would
# succeed without soscope, which cannot be prevented from outside.

_CAP_IPC_LOCK = 14
_NAME = b"\0mlockall\0"
_MOST = 64 << 20  # bytes of names that are searched


def would_fail(pid: int, program: ElfImage) -> bool:
    """Return whether `program`, run by process `pid`, may lock all memory and has a limit.

    Raises FormatError for a damaged file, and OSError if it cannot be read.
    """
    names, size = program.dynamic.get(elf.DT_STRTAB), program.dynamic.get(elf.DT_STRSZ)
    if not names or not size:
        return False
    if _NAME not in program.source.read(program.locate(names), min(size, _MOST)):
        return False
    return not _may_lock(pid) and _is_limited(pid)


def _may_lock(pid: int) -> bool:
    try:
        capabilities = int(status.read_status(pid).get("CapEff", "0"), 16)
    except (SoscopeError, ValueError):
        return False
    return bool(capabilities >> _CAP_IPC_LOCK & 1)


def _is_limited(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    for line in lines:
        if line.startswith(b"Max locked memory"):
            return line.split()[3] not in (b"unlimited", b"0")  # with 0 it fails anyway
    return True


# Detect programs that need ptrace(2) themselves: a process can have only one tracer.
#
# A program that imports ptrace may ask to be traced (PTRACE_TRACEME) or trace its children.
# LeakSanitizer traces its own program at the end, by a system call of its own. It is recognized by
# a function that its runtime exports, in any image.

TRACES = "ptrace"
CHECKS_LEAKS = "leak check"

_PTRACE = "ptrace"
_LEAK_CHECK, _ADDRESS_SANITIZER = "__lsan_do_leak_check", "__asan_init"
_SWITCH = rb"(?:^|[\s,:])detect_leaks=['\"]?([^\s,:'\"]*)"
_OFF = (b"0", b"no", b"false")


def find(pid: int, memory: RemoteMemory, first: int) -> str | None:
    """Return why process `pid` needs ptrace: a constant of this module, None if it does not.

    `first` is the address of the first link map, which is the program's.
    """
    need = None
    for entry in loader.walk(memory, first):
        try:
            image = entry.image(memory)
            if image.symbols.addr(_LEAK_CHECK) is not None and not _is_off(
                pid, is_address=image.symbols.addr(_ADDRESS_SANITIZER) is not None
            ):
                return CHECKS_LEAKS
            if need is None:
                need = TRACES if _imports_ptrace(pid, image) else ""
        except (FormatError, OSError):
            continue  # an unreadable image is no sanitizer's
    return need or None


def _imports_ptrace(pid: int, program: ElfImage) -> bool:
    names, size = program.locate_pointer(elf.DT_STRTAB), program.dynamic.get(elf.DT_STRSZ)
    if not names or not size:
        return False
    text = program.source.read(names, min(size, _MOST))
    if _PTRACE.encode() + b"\0" not in text:
        return False
    with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
        image = ElfImage.from_descriptor(file.fileno(), "program")
        return any(symbol.name == _PTRACE for symbol in image.undefined_functions())


def _is_off(pid: int, *, is_address: bool) -> bool:
    """Return whether the environment disables the leak check.

    AddressSanitizer reads two variables, the second one last.
    """
    import re  # late: few programs have a leak check

    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            entries = file.read().split(b"\0")
    except OSError:
        return False  # as without options
    value = b""
    for name in (b"ASAN_OPTIONS=", b"LSAN_OPTIONS=") if is_address else (b"LSAN_OPTIONS=",):
        for entry in entries:
            if entry.startswith(name):
                value = (re.findall(_SWITCH, entry[len(name) :]) or [value])[-1]
                break
    return value in _OFF


class PutIn:
    """The insertion of the agent into one program. `marks` are (step, time.perf_counter_ns()).

    `base` is the agent's address, 0 before it has one. `hooks_loader` is set if images that are
    loaded later will be seen. `path` is the program that a loader was told to start, None for
    other programs.
    """

    _facts: Facts

    def __init__(self, tracee: Tracee) -> None:
        self.tracee = tracee
        self.marks: list[tuple[str, int]] = []
        self.base = 0
        self.hooks_loader = False
        self.path: str | None = None
        self._auxv: dict[int, int] = {}
        self._mask = 0
        self._saw_add = False

    def mark(self, step: str) -> None:
        """Record that `step` is done."""
        self.marks.append((step, time.perf_counter_ns()))

    # ---- at the exec stop ----

    def begin(self, *, is_our_child: bool) -> None:
        """Examine the new program and plant the breakpoint.

        A child of soscope has the same seccomp filters as soscope, but another process may have
        more. Raises Refused, with nothing changed, if the agent cannot be inserted.
        """
        self.mark("exec")
        self._mask = self.tracee.signal_mask()
        self._check_program()
        if not is_our_child and _seccomp_filters(self.tracee.tid) > _seccomp_filters(os.getpid()):
            # Its filter was not made for soscope's system calls, and may kill the process for
            # them.
            from soscope.entry import seccomp

            if said := seccomp.objection_of_stopped(self.tracee.tid):
                raise Refused(said)
        self._find_loader()
        self._plant()
        self.mark("loader found")

    def _check_program(self) -> None:
        """Read the auxiliary vector. Refuse programs that can take no agent."""
        try:
            with open(f"/proc/{self.tracee.tid}/exe", "rb", buffering=0) as file:
                program = ElfImage.from_descriptor(file.fileno(), "program")
                header = program.header
                assert header is not None
                is_native = header.encoding.bits == arch.BITS and header.machine == arch.MACHINE
                if is_native:
                    self._auxv = maps.read_auxv(self.tracee.tid)
                    is_loader = not self._auxv.get(maps.AT_BASE) and loader.is_loader(program)
                    if self._auxv.get(maps.AT_BASE) and would_fail(self.tracee.tid, program):
                        raise Refused(status.LOCKS)
        except FormatError as error:
            raise Refused(status.FOREIGN) from error
        except OSError as error:
            raise Refused(status.UNREADABLE) from error
        if not is_native:
            raise Refused(status.FOREIGN)
        if self._auxv.get(maps.AT_SECURE):
            raise Refused(status.SETUID)
        if is_loader:
            if loader.program_of(status.command_words(self.tracee.tid)) is None:
                raise Refused(status.BY_LOADER)
        elif not self._auxv.get(maps.AT_BASE):
            raise Refused(status.static(status.program_path(self.tracee.tid)))

    def _find_loader(self) -> None:
        """Find the function that the loader calls at its events."""
        self._facts = facts = Facts(self._auxv, self.tracee.memory)
        if not arch.is_empty_function(facts.saved):
            raise Refused(f"{status.UNKNOWN_LOADER}: its event function is not empty")

    def _plant(self) -> None:
        try:
            self.tracee.memory.write(self._facts.function, arch.BREAKPOINT)
        except OSError as error:
            raise Refused(f"its memory cannot be written: {error.strerror}") from error

    def _take_back(self) -> None:
        facts = self._facts
        self.tracee.memory.write(facts.function, facts.saved[: len(arch.BREAKPOINT)])

    # ---- at the breakpoint ----

    def on_trap(self) -> bool | None:
        """Handle a SIGTRAP stop. Return True for the last event, False for an earlier one.

        Return None if it was not soscope's breakpoint. After False the thread may be resumed.
        After True the breakpoint is gone, and `finish` may follow.
        """
        registers = self.tracee.registers()
        if registers.pc != self._facts.function + arch.BREAKPOINT_SIZE:
            return None
        is_last = self._is_last_event()
        if is_last:
            self._take_back()
            registers.pc = self._facts.function
            self.mark("loaded")
        else:
            # The function is empty: return from it here, which saves a step.
            arch.set_return(registers, self.tracee.memory.word(registers.sp))
        self.tracee.set_registers(registers)
        return is_last

    def _is_last_event(self) -> bool:
        """Return whether all images are relocated.

        glibc announces RT_ADD, then RT_CONSISTENT. musl calls the function once. The events of
        audit libraries come before, in other namespaces.
        """
        facts = self._facts
        if not facts.r_debug:
            facts.r_debug = facts.debug_of_program(self.tracee.memory)
            self._saw_add = True
        debug = loader.read_debug(self.tracee.memory, facts.r_debug)
        if debug is None or not debug.first:
            return False
        if debug.state == loader.RT_ADD:
            self._saw_add = True
        return self._saw_add and debug.state == loader.RT_CONSISTENT

    # ---- at the last event ----

    def finish(self, blob: Blob, handover: Handover) -> None:
        """Map the agent, start it, and let the loader call it from now on.

        `handover` is called with the tracee once system calls can be made in it. It returns the
        agent's files by their numbers there, and the sizes of block and plan in bytes. The thread
        stays stopped where it was. Raises Refused, with everything undone, and Gone.
        """
        registers = self.tracee.registers()
        self.tracee.block_signals()
        undo: Undo = []
        install = Install(self.tracee, self._facts, self.mark)
        try:
            self._look_at_program()
            self._facts.look_at_libc(self.tracee.memory)
            install.run(blob, handover, undo)
        except (Refused, OSError) as error:
            for step in reversed(undo):
                step()
            self._restore(registers)
            if isinstance(error, Refused):
                raise
            raise Refused(f"its memory: {error.strerror or error}") from error
        finally:
            self.base, self.hooks_loader = install.base, install.hooks_loader
        self._restore(registers)
        self.mark("done")

    def _look_at_program(self) -> None:
        """Examine a program that the loader was told to start. Raises Refused."""
        if self._facts.is_by_loader:
            tid = self.tracee.tid
            program = self._facts.see_program(tid, self.tracee.memory)
            self.path = program.path
            if would_fail(tid, program.image):
                raise Refused(status.LOCKS)

    def rival(self) -> str | None:
        """Return why the program needs ptrace itself: a constant of `rival`, None if it does not.

        Raises OSError.
        """
        memory = self.tracee.memory
        debug = loader.read_debug(memory, self._facts.r_debug)
        return find(self.tracee.tid, memory, debug.first) if debug is not None else None

    # ---- giving up ----

    @property
    def is_at_breakpoint(self) -> bool:
        """Return whether the stopped program has run into the breakpoint. Raises Gone."""
        return self.tracee.registers().pc == self._facts.function + arch.BREAKPOINT_SIZE

    def abandon(self) -> None:
        """Remove the breakpoint from a program that is still being loaded and is stopped.

        Raises OSError if its memory cannot be written, and Gone.
        """
        registers = self.tracee.registers()
        self._take_back()
        if self.is_at_breakpoint:
            registers.pc = self._facts.function
            self.tracee.set_registers(registers)

    def close_inherited(self, descriptors: tuple[int, ...]) -> None:
        """Close inherited descriptors at the exec stop of a program that takes no agent.

        Raises OSError, Faulted and Gone.
        """
        tracee = self.tracee
        mask = tracee.signal_mask()
        tracee.block_signals()
        # The thread is still inside its execve, whose end would overwrite a register.
        tracee.run_to_trap(step=True)
        registers = tracee.registers()
        code = tracee.memory.read(registers.pc, len(arch.SYSCALL))
        tracee.memory.write(registers.pc, arch.SYSCALL)
        tracee.syscall_addr = registers.pc
        for descriptor in descriptors:
            tracee.syscall(arch.NR_CLOSE, descriptor)
        tracee.memory.write(registers.pc, code)
        tracee.set_registers(registers)
        tracee.unblock_signals(mask)

    def _restore(self, registers: arch.Registers) -> None:
        try:
            self.tracee.set_registers(registers)
            self.tracee.unblock_signals(self._mask)
        except OSError as error:
            raise Refused(f"its registers: {error.strerror}") from error


def _seccomp_filters(pid: int) -> int:
    fields = status.read_status(pid)
    return int(fields.get("Seccomp_filters") or fields.get("Seccomp") or 0)
