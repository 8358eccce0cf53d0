# SPDX-License-Identifier: Apache-2.0
"""The address space of an inspected process: memory, mappings, auxiliary vector."""

from __future__ import annotations

import errno
import os
import stat
import time
from bisect import bisect_right
from struct import unpack_from

from soscope.binfmt.source import READING, ByteSource
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.proc import maps, status
from soscope.proc.maps import Mapping
from soscope.proc.memory import ProcessMemory
from soscope.proc.rights import missing_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal


# The contents of mapped files, in place of memory that soscope may not read.
#
# It replaces /proc/PID/mem if reading that is refused. A page mapped without write permission has
# exactly the contents of the file. Other pages had these contents at the start.


class Patchwork(ByteSource):
    """The mapped files of a process, at the addresses at which they are mapped."""

    __slots__ = ("_files", "_mappings", "_starts", "_tid")

    def __init__(self, tid: int, mappings: list[Mapping]) -> None:
        super().__init__(f"mapped files of process {tid}")
        self._tid = tid
        self._mappings = [mapping for mapping in mappings if mapping.inode]
        self._starts = [mapping.start for mapping in self._mappings]
        self._files: dict[int, int | None] = {}

    def __del__(self) -> None:
        for descriptor in self._files.values():
            if descriptor is not None:
                os.close(descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer at a mapping's end."""
        data = bytearray()
        while len(data) < size:
            addr = offset + len(data)
            at = bisect_right(self._starts, addr) - 1
            if at < 0 or addr >= self._mappings[at].end:
                break
            mapping = self._mappings[at]
            descriptor = self._open(mapping)
            if descriptor is None:
                break
            wanted = min(size - len(data), mapping.end - addr)
            piece = os.pread(descriptor, wanted, mapping.offset + addr - mapping.start)
            data += piece
            if len(piece) < wanted:
                break
        return bytes(data)

    def _open(self, mapping: Mapping) -> int | None:
        """Open the file of a mapping, if it is still the same file; once for each inode."""
        if mapping.inode not in self._files:
            self._files[mapping.inode] = open_same(
                (f"/proc/{self._tid}/root{mapping.path}", mapping.path), mapping.inode
            )
        return self._files[mapping.inode]


def open_same(paths: tuple[str, ...], inode: int) -> int | None:
    """Open the first of `paths` that is a regular file with this inode, None if none is.

    It never waits for a pipe and never opens a device.
    """
    for path in paths:
        try:
            if not _is_same(os.stat(path), inode):
                continue
            descriptor = os.open(path, READING)
        except OSError:
            continue  # missing or not allowed: try the next path
        if _is_same(os.fstat(descriptor), inode):
            return descriptor
        os.close(descriptor)
    return None


def _is_same(status: os.stat_result, inode: int) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_ino == inode


# Read the memory of a process without adding to its resident memory.
#
# A read through /proc/PID/mem touches pages as the process itself would: the kernel maps them, and
# RSS grows. A page that is not in memory yet has the contents of its file, or zeros, so its bytes
# are taken from there. Only pages that are swapped out come back into memory, as their bytes are
# nowhere else.

_PAGE = 4096
# The upper two bits of an entry's last byte: is the page present, is it swapped out
# (Documentation/admin-guide/mm/pagemap.rst).
_ENTRY, _TOP, _KEPT = 8, 7, 0b01 << 6


class GentleMemory(ByteSource):
    """Reads `memory`, the memory of thread `tid`, without making pages resident.

    `mapping_at` returns the mapping that contains an address. Raises OSError if the kernel does
    not tell which pages are in memory.
    """

    __slots__ = ("_descriptor", "_mapping_at", "_mappings", "_memory", "_patchwork", "_tid")

    def __init__(
        self,
        tid: int,
        memory: ByteSource,
        mapping_at: Callable[[int], Mapping | None],
        mappings: Callable[[], list[Mapping]],
    ) -> None:
        super().__init__(memory.name)
        self._descriptor = os.open(f"/proc/{tid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._tid = tid
        self._memory = memory
        self._mapping_at = mapping_at
        self._mappings = mappings
        self._patchwork: Patchwork | None = None

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer if a page is missing."""
        if not 0 <= offset < 1 << 47 or size <= 0:
            return self._memory.read(offset, size)
        first, last = offset // _PAGE, (offset + size - 1) // _PAGE
        entries = os.pread(self._descriptor, (last - first + 1) * 8, first * 8)
        if not entries:  # the process has ended: `memory` reports it
            return self._memory.read(offset, size)
        tops = entries[_TOP::_ENTRY]
        if min(tops) >= _KEPT:
            return self._memory.read(offset, size)
        states = [top >= _KEPT for top in tops]
        data = bytearray()
        end = offset + size
        while (at := offset + len(data)) < end:
            page = at // _PAGE - first
            run = page
            while run < len(states) and states[run] == states[page]:
                run += 1
            stop = min((first + run) * _PAGE, end)
            piece = self._memory.read(at, stop - at) if states[page] else self._absent(at, stop)
            data += piece
            if not piece:
                break
        return bytes(data)

    def _absent(self, start: int, end: int) -> bytes:
        """Return the contents of pages that are not in memory, up to the end of their mapping."""
        mapping = self._mapping_at(start)
        if mapping is None:
            return self._memory.read(start, end - start)
        size = min(end, mapping.end) - start
        if mapping.inode:
            if self._patchwork is None:
                self._patchwork = Patchwork(self._tid, self._mappings())
            # if the file is deleted, only the memory has the bytes
            return self._patchwork.read(start, size) or self._memory.read(start, size)
        if mapping.path in ("", "[heap]", "[stack]") or mapping.path.startswith("[anon:"):
            return bytes(size)
        return self._memory.read(start, size)


# The address space of a process, for reading: memory, mappings, auxiliary vector.
#
# `/proc/PID/mem` is kept open. It belongs to the address space, not to the process id: after an
# exec, or if the id belongs to another process, it reads as empty and never shows another program.
# If the kernel refuses it but shows the mappings (Yama's ptrace_scope 1), the contents of mapped
# files are used in its place, and `is_patchwork` is true.

_PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_PF_EXITING = 0x4
_FEW = 32  # mappings that are looked up in the text, before it is parsed
_PATIENCE = 20  # milliseconds to wait for an exec to end


class Space:
    """The address space of process `pid`.

    `tid` is a living thread of it: the leader, unless the leader has ended. `bits` is 32 or 64,
    `maps` the auxiliary vector, `start` the start time in clock ticks since boot. `memory` reads
    run-time addresses. If `is_gentle` is true, a read brings no page into memory (`space.py`).

    `order` is its byte order, "<" or ">", and `endian` the same for int.from_bytes. `is_here` is
    true for a process of this machine, which is in /proc. `is_still` is true if nothing changes
    while it is read, as in a core file. `roots` are the folders below which the files that it
    names lie.
    """

    order: str = "<"
    endian: Literal["little", "big"] = "little"
    is_here = True
    is_still = False

    def __init__(self, pid: int, *, is_gentle: bool = False) -> None:
        """Open the process.

        Raises NoSuchProcess if it does not exist or has ended, NotPermitted, and SoscopeError for
        a kernel thread.
        """
        self.pid = pid
        self.start = status.read_stat(pid).start
        self.tid = status.living_thread(pid)
        self._text: bytes | None = None
        self._lines: list[bytes] | None = None
        self._asked = 0
        self._mappings: list[maps.Mapping] | None = None
        self._starts: list[int] = []
        self._by_inode: dict[int, list[maps.Mapping]] | None = None
        self._held: ProcessMemory | None = None
        self._is_closed = False
        try:
            self._held = ProcessMemory(self.tid)
        except PermissionError as error:
            self.memory = self._patchwork(error)
        except OSError as error:
            raise self._gone(error.errno) from error
        else:
            self.memory = self._gentle(self._held) if is_gentle else self._held
        try:
            self.auxv, self.bits = self._read_auxv()
        except BaseException:
            self.close()
            raise

    def _patchwork(self, refusal: PermissionError) -> ByteSource:
        """Return the mapped files in place of the memory, or raise the error for the refusal."""
        try:
            return Patchwork(self.tid, self.mappings)
        except PermissionError:
            raise missing_right(self.pid, "the memory", refusal.errno) from refusal

    def _gentle(self, held: ProcessMemory) -> ByteSource:
        """Return a memory that brings no pages in, or `held` if there is no /proc/PID/pagemap."""
        try:
            return GentleMemory(self.tid, held, self.mapping_at, lambda: self.mappings)
        except OSError:
            return held  # no /proc/PID/pagemap

    def _read_auxv(self) -> tuple[dict[int, int], int]:
        data = b""
        for _ in range(_PATIENCE):
            data = self._auxv_bytes()
            for bits in (64, 32):
                try:
                    vector = maps.parse_auxv(data, bits=bits)
                except FormatError:
                    continue  # the process has another number of bits
                if vector.get(maps.AT_PAGESZ) in _PAGE_SIZES:
                    return vector, bits
            if status.read_stat(self.pid).flags & status.PF_KTHREAD:
                break
            time.sleep(0.001)  # in the middle of an exec it is not complete yet
        if not data:
            raise self._gone(errno.ESRCH)
        raise NoSuchProcess(f"process {self.pid}: its auxiliary vector is unknown")

    def _auxv_bytes(self) -> bytes:
        try:
            with open(f"/proc/{self.tid}/auxv", "rb", buffering=0) as file:
                return file.read()
        except PermissionError as error:
            raise missing_right(self.pid, "the auxiliary vector", error.errno) from error
        except OSError as error:
            raise self._gone(error.errno) from error

    def close(self) -> None:
        """Close the memory; may be called twice."""
        self._is_closed = True
        if self._held is not None:
            self._held.close()

    @property
    def is_patchwork(self) -> bool:
        """Return whether mapped files are used in place of the memory."""
        return self._held is None

    def check(self) -> None:
        """Check that the process still exists and runs the same program.

        Raises NoSuchProcess after an exec, after its end, and if the id belongs to another
        process; SoscopeError after `close`.
        """
        self.check_open()
        if self._held is not None:
            if self._held.is_gone:
                raise self._gone(errno.ESRCH)
        elif status.read_stat(self.pid).start != self.start:
            raise self._gone(errno.ESRCH)

    def check_open(self) -> None:
        """Raise SoscopeError after `close`."""
        if self._is_closed:
            raise SoscopeError(f"process {self.pid} has been closed", slug="closed")

    def _gone(self, number: int | None) -> SoscopeError:
        """Make the error that tells what happened to the process."""
        try:
            now = status.read_stat(self.pid)
        except NoSuchProcess as error:
            return error
        if now.start != self.start:
            return NoSuchProcess(f"process {self.pid} has ended; its id is another's", errno=number)
        if now.state in status.ENDED_STATES:
            return status.zombie(self.pid, number)
        if now.flags & _PF_EXITING:  # a process that ends loses its memory first
            return NoSuchProcess(f"process {self.pid} has ended", errno=number)
        if now.flags & status.PF_KTHREAD:
            return SoscopeError(f"process {self.pid} is a kernel thread: it has no memory")
        return NoSuchProcess(
            f"process {self.pid} runs another program now",
            hint="it called exec: ask again",
            errno=number,
        )

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes at a run-time address; fewer if a page is missing."""
        return self.memory.read(addr, size)

    def word(self, addr: int) -> int | None:
        """Return the address-sized word at `addr`, None if there is none."""
        size = self.bits // 8
        data = self.memory.read(addr, size)
        return int.from_bytes(data, self.endian) if len(data) == size else None

    def words(self, data: bytes) -> tuple[int, ...]:
        """Return the address-sized words in `data`; a part of a word at its end does not count."""
        count = len(data) * 8 // self.bits
        return unpack_from(f"{self.order}{count}{'Q' if self.bits == 64 else 'I'}", data)

    @property
    def roots(self) -> list[str]:
        """The root directories for the program's paths."""
        return [f"/proc/{self.tid}/root", ""]

    def told(self, name: str) -> bytes:
        """Return the text of the process's file `name` in /proc. Raises OSError."""
        with open(f"/proc/{self.tid}/{name}", "rb") as file:
            return file.read()

    def files_at(self, path: str) -> Iterator[int]:
        """Yield descriptors of files that may be `path`, for a process that is not in /proc."""
        raise NotImplementedError

    def thread_pointer(self, tid: int) -> int | None:
        """Return the thread pointer of a thread that is not on this machine, None if not known."""
        raise NotImplementedError

    @property
    def maps_text(self) -> bytes:
        """The text of /proc/PID/maps from which `mappings` is made.

        Raises NotPermitted and NoSuchProcess.
        """
        if self._text is None:
            try:
                self._text = maps.text_of(self.tid)
            except PermissionError as error:
                raise missing_right(self.pid, "the mappings", error.errno) from error
            except OSError as error:
                raise self._gone(error.errno) from error
        return self._text

    @property
    def mappings(self) -> list[maps.Mapping]:
        """The mappings by rising address, as they were on first use.

        Raises NotPermitted and NoSuchProcess.
        """
        if self._mappings is None:
            self._mappings = maps.parse(self.maps_text)
            self._starts = [mapping.start for mapping in self._mappings]
        return self._mappings

    def forget(self) -> None:
        """Forget the mappings, so that the next use reads them again."""
        self._text = self._lines = None
        self._asked = 0
        self._mappings = None
        self._by_inode = None

    def mappings_of(self, inode: int) -> list[maps.Mapping]:
        """Return the mappings of files with this inode, by rising address."""
        if self._by_inode is None:
            self._by_inode = {}
            for mapping in self.mappings:
                self._by_inode.setdefault(mapping.inode, []).append(mapping)
        return self._by_inode.get(inode, [])

    def mapping_at(self, addr: int) -> maps.Mapping | None:
        """Return the mapping that contains `addr`, None if there is none."""
        self._asked += 1
        if self._mappings is None and self._asked <= _FEW:  # one of thousands is needed
            if self._lines is None:
                self._lines = [line for line in self.maps_text.split(b"\n") if line]
            at = bisect_right(self._lines, addr, key=maps.start_of)
            mapping = maps.parse_line(self._lines[at - 1]) if at else None
            return mapping if mapping is not None and addr < mapping.end else None
        mappings = self.mappings
        at = bisect_right(self._starts, addr)
        if at and addr < mappings[at - 1].end:
            return mappings[at - 1]
        return None

    @property
    def threads(self) -> list[int]:
        """The ids of the living threads, sorted.

        Raises NoSuchProcess.
        """
        try:
            tids = sorted(map(int, os.listdir(f"/proc/{self.pid}/task")))
        except OSError as error:
            raise self._gone(error.errno) from error
        return [tid for tid in tids if status.state_of(tid) not in status.ENDED_STATES]
