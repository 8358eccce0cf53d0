# SPDX-License-Identifier: Apache-2.0
"""The address space of a process, for reading: memory, mappings, auxiliary vector.

`/proc/PID/mem` is kept open. It belongs to the address space, not to the process id: after an
exec, or if the id belongs to another process, it reads as empty and never shows another program.
If the kernel refuses it but shows the mappings (Yama's ptrace_scope 1), the contents of mapped
files are used in its place, and `is_patchwork` is true.
"""

from __future__ import annotations

import errno
import os
import time

from soscope.binfmt.source import ByteSource
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.proc import maps, status
from soscope.proc.memory import ProcessMemory
from soscope.proc.rights import missing_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

_PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_PF_EXITING = 0x4
_FEW = 32  # mappings that are looked up in the text, before it is parsed
_PATIENCE = 20  # milliseconds to wait for an exec to end


class Space:
    """The address space of process `pid`.

    `tid` is a living thread of it: the leader, unless the leader has ended. `bits` is 32 or 64,
    `maps` the auxiliary vector, `start` the start time in clock ticks since boot. `memory` reads
    run-time addresses. If `is_gentle` is true, a read brings no page into memory (`gentle.py`).

    `order` is its byte order, "<" or ">", and `endian` the same for int.from_bytes. `is_here` is
    true for a process of this machine, which is in /proc. `is_still` is true if nothing changes
    while it is read, as in a core file. `roots` are the folders below which the files that it
    names lie.
    """

    order: str = "<"
    endian: Literal["little", "big"] = "little"
    is_here = True
    is_still = False

    __slots__ = (
        "_asked",
        "_by_inode",
        "_held",
        "_is_closed",
        "_lines",
        "_mappings",
        "_starts",
        "_text",
        "auxv",
        "bits",
        "memory",
        "pid",
        "start",
        "tid",
    )

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
        from soscope.live.images.patchwork import Patchwork

        try:
            return Patchwork(self.tid, self.mappings)
        except PermissionError:
            raise missing_right(self.pid, "the memory", refusal.errno) from refusal

    def _gentle(self, held: ProcessMemory) -> ByteSource:
        """Return a memory that brings no pages in, or `held` if there is no /proc/PID/pagemap."""
        from soscope.live.images.gentle import GentleMemory

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
        from bisect import bisect_right

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
