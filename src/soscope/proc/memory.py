# SPDX-License-Identifier: Apache-2.0
"""The memory of another process: its bytes, and how much of it is resident.

/proc/PID/mem is read; /proc/PID/pagemap and smaps tell which pages and mappings are in memory,
and /proc/meminfo how much the machine has to spare.
"""

from __future__ import annotations

import errno
import os

from soscope.binfmt.source import ByteSource
from soscope.proc.maps import Mapping, parse_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_MOST = 256 << 20  # bytes of one read, for which soscope allocates a buffer first


class ProcessMemory(ByteSource):
    """The current memory of the process that thread `tid` belongs to, for reading.

    An exec gives a process a new memory. From then on, this object reads nothing.
    """

    __slots__ = ("_descriptor", "_tid")

    def __init__(self, tid: int, mode: int = os.O_RDONLY) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(f"process {tid}")
        self._tid = tid
        self._descriptor = os.open(f"/proc/{tid}/mem", mode | os.O_CLOEXEC)

    @property
    def tid(self) -> int:
        """The thread whose /proc entry was opened."""
        return self._tid

    @property
    def is_gone(self) -> bool:
        """Return whether the process has ended or runs another program."""
        try:
            return not os.pread(self._descriptor, 1, 0x10000)
        except OSError:  # no page at this address, but the process still has its memory
            return False

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer if a page is missing.

        At most 256 MiB are returned, in case a damaged file asked for more.
        """
        size = min(size, _MOST)
        if not 0 <= offset < 1 << 63 or size <= 0:
            return b""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EFAULT):
                raise
        # Some kernels refuse the whole read if only a part is missing.
        page = 4096 - offset % 4096
        if size <= page:
            return b""
        try:
            return os.pread(self._descriptor, page, offset)
        except OSError:
            return b""

    def word(self, addr: int) -> int:
        """Return the 8-byte word at `addr`.

        Raises OSError (EFAULT) if it cannot be read.
        """
        data = self.read(addr, 8)
        if len(data) < 8:
            raise OSError(errno.EFAULT, f"no memory at {addr:#x}")
        return int.from_bytes(data, "little")


def word_at(memory: ByteSource, addr: int) -> int:
    """Return the 8-byte word at an address, 0 if there is none."""
    data = memory.read(addr, 8) if addr > 0 else b""
    return int.from_bytes(data, "little") if len(data) == 8 else 0


_UNKNOWN = 1 << 30


def available() -> int:
    """Return how many bytes are available without swapping (MemAvailable); 1 GiB if unknown."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # a container without it
    return _UNKNOWN


# by the last byte of a page's entry: is it present, or swapped out
# (Documentation/admin-guide/mm/pagemap.rst)
_KEPT = bytes(byte >> 6 != 0 for byte in range(256))
_ENTRY = 8  # bytes
_AT_ONCE = 512  # entries


def kept(pid: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts [start, end) of an address range that are in memory or swapped out.

    A page that was never touched holds zeros or its file's contents, and reading it would bring
    it into the process. If the kernel does not tell, the whole range is one part.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield start, end
        return
    try:
        begun = None
        for page, is_kept in _changes(descriptor, start, end):
            if is_kept:
                begun = max(page, start)
            elif begun is not None:
                yield begun, min(page, end)
                begun = None
    finally:
        os.close(descriptor)


def _changes(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bool]]:
    """Yield each address at which pages begin or cease to be kept, as far as it is known."""
    size = os.sysconf("SC_PAGE_SIZE")
    at, last = start // size, -(-end // size)
    is_kept = 0
    while at < last:
        data = os.pread(descriptor, min(_AT_ONCE, last - at) * _ENTRY, at * _ENTRY)
        pages = data[_ENTRY - 1 :: _ENTRY].translate(_KEPT)
        if not pages:
            break
        here = 0
        while (here := pages.find(1 - is_kept, here)) >= 0:
            is_kept = 1 - is_kept
            yield (at + here) * size, bool(is_kept)
        at += len(pages)
    if is_kept:
        yield at * size, False


_KIB = 1024
_WANTED = {
    b"Rss:": "rss",
    b"Anonymous:": "anonymous",
    b"AnonHugePages:": "huge",
    b"Shared_Hugetlb:": "hugetlb",
    b"Private_Hugetlb:": "hugetlb",
    b"Swap:": "swap",
}


class Area:
    """One mapping with its resident memory, in bytes.

    `anonymous` is the part of `rss` that belongs to no file, `huge` the part that lies in
    transparent huge pages. `rss` includes neither `hugetlb` (pages of hugetlbfs) nor `swap`
    (pages that are swapped out).
    """

    __slots__ = ("anonymous", "huge", "hugetlb", "mapping", "rss", "swap")

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.rss = self.anonymous = self.huge = self.hugetlb = self.swap = 0


def read_smaps(pid: int) -> list[Area]:
    """Read the mappings of a process, by rising address (proc_pid_smaps(5)).

    Raises OSError if they cannot be read.
    """
    with open(f"/proc/{pid}/smaps", "rb") as file:
        return parse_smaps(file.read())


def rollup(pid: int) -> tuple[int, int]:
    """Return the resident bytes of a process, and how many of them belong to no file.

    The numbers are exact (/proc/PID/smaps_rollup). Raises OSError if that file cannot be read.
    """
    sizes = {}
    with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            name, _, rest = line.partition(b":")
            if name in (b"Rss", b"Anonymous"):
                sizes[name] = int(rest.split()[0]) * _KIB
    return sizes[b"Rss"], sizes[b"Anonymous"]


def parse_smaps(text: bytes) -> list[Area]:
    """Parse the text of /proc/PID/smaps."""
    areas: list[Area] = []
    for line in text.split(b"\n"):
        name, _, rest = line.partition(b" ")
        if not name.endswith(b":"):
            if name:
                areas.append(Area(parse_line(line)))
        elif (field := _WANTED.get(name)) is not None:
            area = areas[-1]
            setattr(area, field, getattr(area, field) + int(rest.split()[0]) * _KIB)
    return areas
