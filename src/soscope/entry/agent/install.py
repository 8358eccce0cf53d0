# SPDX-License-Identifier: Apache-2.0
"""Put the agent's code into a stopped process and start it, for launch and attach.

Facts      the facts about the process; if the process runs, they are read before it is stopped
Blob       the file that is mapped into the process, made from the agent's ELF file Install
maps the file, passes descriptors to the process, and starts the agent
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os

from soscope import errors
from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.entry import loader
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory, failure, libc
from soscope.entry.tracee import Faulted, Tracee
from soscope.errors import AgentError, FormatError, NoSuchProcess
from soscope.model.arch import arch_here
from soscope.model.record import Record
from soscope.proc import maps, status
from soscope.proc.status import Refused
from soscope.wire import layout, sharedfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias


# The blob: the file that is mapped into a target, made from the agent's ELF file.
#
# It has the ELF file, padded to a page. The page at symbol `sosc_entry_page` follows BLOB_REPEAT
# times, then the pages at `sosc_site_page` and `sosc_counter_page`, as often each. Trampolines are
# mapped from these, many pages with one system call. The file is in memory and has no name.


def agent_path() -> str:
    """Return the path at which the agent's ELF file should be, beside this package's code."""
    return os.path.join(os.path.dirname(errors.__file__), "_agent", "libsoscope-agent.so")


class Blob(Record, kw_only=True):
    """A blob, and the addresses that are needed to start it.

    `fd` is its file. If it is mapped from offset 0, its code is at its link-time addresses.
    `start`, `hook`, `load`, `unload`, `objects`, `trap` and `loader_event` are such addresses.
    `pages_offset` is the offset of the trampolines' pages in the file. `content` is what `fill` is
    to write: the ELF file, and a page of each kind of trampoline.
    """

    content: list[bytes]
    fd: int
    size: int
    pages_offset: int
    start: int
    trap: int
    hook: int
    load: int
    unload: int
    objects: int
    loader_event: int
    build_id: bytes

    @classmethod
    def build(cls, path: str | None = None) -> Blob:
        """Make the file for the agent at `path`, still without content.

        Raises AgentError if there is no agent at `path` or the file is not one, and
        NoSharedMemory if there is no memory for it.
        """
        path = path or agent_path()
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
        except OSError as error:
            here = arch_here()
            if here is not None and not here.has_agent:
                raise AgentError(
                    f"no agent is made for {here.name}",
                    hint="'soscope trace' sees calls by breakpoints there",
                    errno=error.errno,
                ) from error
            raise AgentError(
                f"no agent at '{path}': {error.strerror}",
                hint="this soscope was installed without one; install it for this machine",
                errno=error.errno,
            ) from error
        try:
            return cls._of(ElfImage.from_source(BufferSource(data, path)), data)
        except FormatError as error:
            raise AgentError(f"the agent is damaged: {error}") from error

    @classmethod
    def _of(cls, image: ElfImage, data: bytes) -> Blob:
        def address(name: str) -> int:
            symbol = image.symbol(name)
            if symbol is None:
                raise AgentError(f"the agent is damaged: {image.source.name} has no {name}")
            return symbol.value

        _check_text(image)
        pages = [
            image.read(address(name), layout.PAGE, name)
            for name in ("sosc_entry_page", "sosc_site_page", "sosc_counter_page")
        ]
        offset = len(data) + -len(data) % layout.PAGE
        size = offset + layout.BLOB_REPEAT * sum(map(len, pages))
        return cls(
            content=[data.ljust(offset, b"\0"), *pages],
            size=size,
            pages_offset=offset,
            start=address("soscope_agent_start"),
            trap=address("sosc_trap"),
            hook=address("soscope_agent_hook"),
            load=address("soscope_agent_load"),
            unload=address("soscope_agent_unload"),
            objects=address("soscope_agent_objects"),
            loader_event=address("sosc_loader_event"),
            build_id=image.build_id,
            fd=sharedfile.create(size, seals=0),  # last, as nothing fails behind it
        )

    def fill(self) -> None:
        """Write the content, once. This comes after `build`, while other processes are at work.

        The file is sealed, so that no program that has it can change the code of the next
        program.
        """
        if self.content:
            data, *pages = self.content
            self.content = []
            whole = b"".join([data, *(page * layout.BLOB_REPEAT for page in pages)])
            # Not by a mapping: the content cannot be sealed while a process that was forked
            # meanwhile has a writable mapping.
            try:
                done = 0
                while done < len(whole):
                    done += os.pwrite(self.fd, whole[done:], done)
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                # Stores through a mapping are not subject to the limit of file sizes.
                with mmap.mmap(self.fd, self.size) as mapping:
                    mapping[:] = whole
            sharedfile.seal_content(self.fd)

    def close(self) -> None:
        """Close the file. Mappings of it stay."""
        os.close(self.fd)
        self.fd = -1


def _check_text(image: ElfImage) -> None:
    """Check that the code can be mapped from the file's start."""
    for segment in image.segments:
        if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X:
            end = segment.vaddr + segment.memsz
            if segment.vaddr == segment.offset == 0 and end <= layout.BLOB_TEXT_MAX:
                return
            break
    raise AgentError(f"the agent is damaged: {image.source.name} has no code at its start")


# Get soscope's descriptors into the target: by path, by pidfd, or by files made there.
#
# The program that soscope starts inherits the descriptors. These ways are for programs that it
# executes later, and for a start without free descriptors. All of them work without the target's
# own code.
#
# A file that is made in the target may be replaced before soscope has it, because a process that
# shares only the descriptors is not stopped. So soscope never opens such a file by a path. It takes
# the descriptor itself, with the access mode that it has there.

_AT_FDCWD = -100
_PIDFD_THREAD = os.O_EXCL  # Linux 6.9: <linux/pidfd.h>


class Files:
    """The agent's files in a target: the descriptor numbers of blob, control block and plan.

    `execs` is the number of the file of `ControlBlock.execs`. A number is -1 if there is no such
    file. `made` are the inodes of files that had to be made in the target.
    """

    __slots__ = ("blob", "control", "execs", "made", "plan")

    def __init__(
        self, blob: int, control: int, plan: int, execs: int = -1, *, made: tuple[int, ...] = ()
    ) -> None:
        self.blob = blob
        self.control = control
        self.plan = plan
        self.execs = execs
        self.made = made

    @property
    def numbers(self) -> list[int]:
        """The numbers of the files that are there."""
        numbers = (self.blob, self.control, self.plan, self.execs)
        return [number for number in numbers if number >= 0]


def _string(tracee: Tracee, text: str) -> int:
    """Write a string into the free part of the thread's stack, and return its address."""
    data = os.fsencode(text) + b"\0"
    addr = tracee.scratch(len(data))
    tracee.memory.write(addr, data)
    return addr


def open_by_path(tracee: Tracee, descriptor: int) -> int:
    """Let the target open soscope's `descriptor` through /proc. Return its number, or -errno.

    This fails in another root or process namespace.
    """
    path = _string(tracee, f"/proc/{os.getpid()}/fd/{descriptor}")
    return tracee.syscall(arch.NR_OPENAT, _AT_FDCWD, path, os.O_RDWR | os.O_CLOEXEC)


def fetch_by_pidfd(tracee: Tracee, descriptor: int) -> int:
    """Let the target take soscope's `descriptor` by pidfd_getfd(2). Return its number, or -errno.

    This works in another root, but not in another process namespace. It needs Linux 5.6.
    """
    pidfd = tracee.syscall(arch.NR_PIDFD_OPEN, os.getpid(), 0)
    if pidfd < 0:
        return pidfd
    number = tracee.syscall(arch.NR_PIDFD_GETFD, pidfd, descriptor, 0)
    tracee.syscall(arch.NR_CLOSE, pidfd)
    return number


def fetch(tracee: Tracee, descriptor: int) -> int:
    """Bring soscope's `descriptor` into the target. Return its number there, or -errno."""
    # In another process namespace, soscope's number may be another process's, so the opened file
    # is compared.
    error = -errno.EBADF
    for way in (open_by_path, fetch_by_pidfd):
        number = way(tracee, descriptor)
        if number < 0:
            error = number
        elif _is_same_file(tracee, number, descriptor):
            return number
        else:
            close(tracee, number)
    return error


def close(tracee: Tracee, number: int) -> None:
    """Close a descriptor of the target."""
    tracee.syscall(arch.NR_CLOSE, number)


def _is_same_file(tracee: Tracee, number: int, descriptor: int) -> bool:
    try:
        there = os.stat(f"/proc/{tracee.tid}/fd/{number}")
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def create(tracee: Tracee) -> tuple[int, int]:
    """Make a memory file in the target and take it. Return (number there, soscope's descriptor).

    This is for targets that cannot reach soscope's descriptors. Raises Refused if the target
    cannot make a file, or if another process has put another file in its place.
    """
    name = _string(tracee, "soscope")
    number = -errno.ENOSYS
    for flags in sharedfile.FLAGS:
        number = tracee.syscall(arch.NR_MEMFD_CREATE, name, flags)
        if number >= 0:
            break
    else:
        raise Refused(f"no shared memory in the process: {os.strerror(-number)}")
    try:
        ours = _take(tracee, number)
        try:
            _check_new(ours)
        except Refused:
            os.close(ours)
            raise
    except OSError as error:
        close(tracee, number)
        raise Refused(f"no shared memory with the process: {error.strerror}") from error
    except Refused:
        close(tracee, number)
        raise
    return number, ours


def _take(tracee: Tracee, number: int) -> int:
    """Take the target's descriptor `number` by pidfd_getfd(2) (Linux 5.6). Return soscope's.

    Raises OSError.
    """
    try:
        pidfd = os.pidfd_open(tracee.tid, _PIDFD_THREAD)
    except OSError:  # older kernels: leaders only, which usually share descriptors
        pidfd = os.pidfd_open(_leader(tracee.tid))
    try:
        ours: int = libc.syscall(arch.NR_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    if ours < 0:
        raise failure()
    return ours


def _leader(tid: int) -> int:
    try:
        return int(status.read_status(tid)["Tgid"])
    except (NoSuchProcess, KeyError) as error:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error


def _check_new(descriptor: int) -> None:
    """Refuse a file that cannot be the one that was just made. May raise OSError."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        seals = fcntl.F_SEAL_SEAL  # no seals: not a memory file
    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    is_new = not seals & sharedfile.SIZE_SEALS and not os.fstat(descriptor).st_size
    if mode != os.O_RDWR or not is_new:
        raise Refused(status.MEDDLED)


def copy_file(source: int, size: int, target: int) -> None:
    """Copy `size` bytes of a memory file into an empty one, and seal that.

    Raises OSError, and Refused if another process writes to it.
    """
    os.ftruncate(target, size)
    done = 0
    while done < size:
        sent = os.sendfile(target, source, done, size - done)
        if not sent:
            break
        done += sent
    sharedfile.seal_content(target)
    if os.fstat(target).st_size != size:  # the file was truncated before the seal
        raise Refused(status.MEDDLED)


# The code below does not depend on how the thread was stopped, or why the loader is idle.

_PROT_READ, _PROT_EXEC, _MAP_PRIVATE = 1, 4, 2

_REACH = 1 << 30  # greatest distance of a jump from the loader to the agent
_GAP = 256 << 10  # left free between the agent and the loader
_VDSO_SIZE = 16384  # bytes of the vDSO that are searched, at most
_TEXT_PIECE = 1 << 18
# Seconds. A thousand images take some fifty milliseconds, which becomes seconds on a busy machine.
_START_LIMIT = 30.0
_CODE_SIZE = 64  # bytes of __errno_location that are decoded
_INT64_MIN = -(1 << 63)
# glibc's description of the field for libthread_db: size in bits, number, offset. Before glibc
# 2.34 it is no dynamic symbol, and the agent tries the known offsets.
_TID_FIELD = "_thread_db_pthread_tid"

# Brings the agent's files into the target. Returns them, and the sizes of block and plan in bytes.
Handover: TypeAlias = "Callable[[Tracee], tuple[Files, int, int]]"
Undo: TypeAlias = "list[Callable[[], object]]"


class Facts:
    """Facts about a process that the agent is to be inserted into.

    `maps` is its auxiliary vector. `is_by_loader` is set if its loader was told to start it (see
    `loader`). `loader` is the image of its loader, and `function` the address of the function
    that the loader calls at its events. `saved` are the bytes of that function without soscope.
    `r_debug` is the address of its `struct r_debug` (0 if it is not known yet). `errno_offset`
    and `tid_offset` are the offsets of errno and of a thread's id from the thread pointer. If
    they are not known, they are the smallest 64-bit integer and 0.
    """

    def __init__(self, vector: dict[int, int], memory: RemoteMemory) -> None:
        """Find the loader's function and its `struct r_debug`.

        Raises Refused if the loader is of an unknown kind.
        """
        self.is_by_loader = not vector.get(maps.AT_BASE)
        if self.is_by_loader:
            vector = loader.loader_vector(vector, memory)
        self.auxv = vector
        self.errno_offset = _INT64_MIN
        self.tid_offset = 0
        try:
            self.loader = ElfImage.from_memory(memory, vector[maps.AT_BASE])
            function = self.loader.symbols.addr("_dl_debug_state")
            # This is glibc's. musl's is in the program's DT_DEBUG.
            self.r_debug = self.loader.symbols.addr("_r_debug") or 0
        except FormatError as error:
            raise Refused(f"{status.UNKNOWN_LOADER}: {error}") from error
        if function is None:
            raise Refused(status.UNKNOWN_LOADER)
        self.function = function
        self.look_at_function(memory)

    def look_at_function(self, memory: RemoteMemory) -> None:
        """Read the present bytes of the function that the loader calls."""
        self.saved = memory.read(self.function, arch.EMPTY_FUNCTION_SIZE)

    @property
    def base(self) -> int:
        """The load address of the loader."""
        return self.auxv[maps.AT_BASE]

    def see_program(self, pid: int, memory: RemoteMemory) -> loader.StartedProgram:
        """Find the program that the loader was told to start, once it is loaded.

        Raises Refused.
        """
        program = loader.StartedProgram(pid, memory, self.r_debug)
        self.auxv |= program.vector
        return program

    def debug_of_program(self, memory: RemoteMemory) -> int:
        """Return the program's DT_DEBUG, found by its program headers, or 0 if it has none."""
        if self.is_by_loader:  # musl also has it in a variable
            pointer = self.loader.symbols.addr("_dl_debug_addr")
            return memory.word(pointer) if pointer else 0
        phdr, count = self.auxv.get(maps.AT_PHDR, 0), self.auxv.get(maps.AT_PHNUM, 0)
        layout_ = self.loader.encoding.segment
        bias, dynamic = 0, 0
        table = memory.read(phdr, count * layout_.size)
        for fields in layout_.iter_unpack(table[: len(table) // layout_.size * layout_.size]):
            if fields[0] == 6:  # PT_PHDR: the table's link-time address
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

    def look_at_libc(self, memory: RemoteMemory) -> None:
        """Find the offsets of errno and of a thread's id in the C library."""
        debug = loader.read_debug(memory, self.r_debug)
        if debug is None:
            return
        for entry in loader.walk(memory, debug.first):
            name = os.path.basename(entry.path(memory))
            if not name.startswith(("libc.", "libc-", "ld-musl")):
                continue
            try:
                symbols = entry.image(memory).symbols
                errno = symbols.addr("__errno_location")
                tid = symbols.addr(_TID_FIELD)
            except FormatError:
                continue  # another image may be the C library
            if errno is not None:
                code = memory.read(errno, _CODE_SIZE)
                offset = arch.errno_offset(code, errno, memory.word)
                self.errno_offset = _INT64_MIN if offset is None else offset
                if tid is not None:
                    self.tid_offset = int.from_bytes(memory.read(tid, 12)[8:], "little")
                return

    def syscall_places(self) -> list[tuple[int, int]]:
        """Return where a syscall instruction may be: in the vDSO, else in the loader's text."""
        places = [(self.auxv.get(maps.AT_SYSINFO_EHDR, 0), _VDSO_SIZE)]
        places += [
            (self.loader.locate(segment.vaddr), min(segment.filesz, _TEXT_PIECE))
            for segment in self.loader.segments
            if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X
        ]
        return places


class Install(Record):
    """One installation. `base` is the agent's address, 0 before it has one.

    `hooks_loader` is set if images that are loaded later will be seen. `mark` is called with the
    name of each completed step. `flags` are START_ constants of `layout`.
    """

    tracee: Tracee
    facts: Facts
    mark: Callable[[str], None]
    flags: int = 0
    base: int = 0
    hooks_loader: bool = False

    def run(self, blob: Blob, handover: Handover, undo: Undo) -> None:
        """Do the whole installation. `undo` gets a function for each step that undoes it.

        All signals except SIGTRAP are blocked, and the caller restores the registers. `handover`
        is called once system calls can be made. Raises Refused, OSError and Gone.
        """
        self.find_syscall()
        files, *sizes = handover(self.tracee)
        undo += map(self._closing, files.numbers)
        self.mark("handed over")
        base = self._map(blob, files.blob)
        undo.append(lambda: self._unmap(base))
        self.mark("mapped")
        self._go(base, blob, files, sizes)

    def run_again(self, base: int, blob: Blob, files: Files, sizes: list[int]) -> None:
        """Start an agent that is already at `base` once more. It needs no blob."""
        self.flags |= layout.START_AGAIN
        self._go(base, blob, files, sizes)

    def _go(self, base: int, blob: Blob, files: Files, sizes: list[int]) -> None:
        facts = self.facts
        jump = self._jump(base + blob.loader_event)
        start = layout.START.struct.pack(
            base,
            facts.r_debug,
            facts.base,
            facts.auxv.get(maps.AT_PHDR, 0),
            facts.auxv.get(maps.AT_PHNUM, 0),
            files.control,
            files.blob,
            files.plan,
            files.execs,
            0,
            blob.pages_offset,
            *sizes,
            facts.errno_offset,
            facts.tid_offset,
            0 if jump is None else facts.function,
            int.from_bytes(facts.saved[:8], "little"),
            int.from_bytes(facts.saved[:8] if jump is None else jump, "little"),
            self.flags,
            facts.auxv.get(maps.AT_EXECFN, 0),  # the kernel's string above all frames
        )
        self.mark("looked up")
        self._start(blob, base, start)
        self.mark("started")
        self._check_mapped(files)
        self._aim_loader(jump)

    def find_syscall(self) -> None:
        """Find a syscall instruction. Raises Refused if there is none."""
        if not self.tracee.syscall_addr and not self.tracee.find_syscall(
            self.facts.syscall_places()
        ):
            raise Refused("no syscall instruction found")

    def _closing(self, descriptor: int) -> Callable[[], object]:
        return lambda: self.tracee.syscall(arch.NR_CLOSE, descriptor)

    def _unmap(self, base: int) -> None:
        if not self.base:  # the agent never ran, or has undone everything
            self.tracee.syscall(arch.NR_MUNMAP, base, layout.BLOB_SIZE)

    def _map(self, blob: Blob, descriptor: int) -> int:
        """Map the agent's code, near the loader if there is room, and return its address.

        The mapping is as long as all memory that the agent uses, so that one system call both
        reserves the addresses and maps the code. The agent maps the rest over it.
        """
        loader = self.facts.base
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
        loader = self.facts.base
        return abs(base - loader) < _REACH and abs(base + layout.BLOB_SIZE - loader) < _REACH

    def _jump(self, to: int) -> bytes | None:
        """Return the bytes of a jump from the loader's function to the agent, or None.

        It is None if r_debug now has another function, or if no jump fits there.
        """
        facts = self.facts
        debug = loader.read_debug(self.tracee.memory, facts.r_debug)
        if debug is None or debug.brk != facts.function:
            return None
        return arch.jump(facts.function, to, facts.saved)

    def _start(self, blob: Blob, base: int, start: bytes) -> None:
        """Write `struct sosc_start` where there is room for it, and call the agent's start."""
        where = self.tracee.scratch(len(start))
        self.tracee.memory.write(where, start)
        try:
            result = self.tracee.call(
                base + blob.start, where, where - 8, base + blob.trap, limit=_START_LIMIT
            )
        except Faulted as fault:
            # Slots may lead to the agent already, so its mappings must stay.
            self.base = base
            inside = 0 <= fault.pc - base < layout.BLOB_SIZE
            place = f"agent+{fault.pc - base:#x}" if inside else f"{fault.pc:#x}"
            raise StartFault(f"the agent's start: {fault} ({place})", base) from fault
        except OSError as error:  # an error in the middle of the start
            self.base = base
            raise StartFault(f"the agent's start: {error.strerror or error}", base) from error
        if result < 0:
            raise Refused(f"the agent's start: {os.strerror(-result)}")
        self.base = base

    def _check_mapped(self, files: Files) -> None:
        """Refuse a target that has not mapped the files that soscope had it make.

        Another process that shares the descriptors may have exchanged the files. Raises
        StartFault.
        """
        if files.made:
            mapped = {mapping.inode for mapping in maps.read(self.tracee.tid)}
            if not mapped.issuperset(files.made):
                raise StartFault(status.MEDDLED, self.base)

    def _aim_loader(self, jump: bytes | None) -> None:
        """Replace the loader's empty function by a jump to the agent."""
        if jump is not None:
            try:
                self.tracee.memory.write(self.facts.function, jump)
            except OSError:
                return  # later images are not seen, as `hooks_loader` tells
            self.hooks_loader = True


class StartFault(Refused):
    """An error in the agent's own start: a bug of soscope, not of the target.

    `base` is the address of the agent, whose mappings must stay.
    """

    def __init__(self, reason: str, base: int) -> None:
        super().__init__(reason)
        self.base = base
