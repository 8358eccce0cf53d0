# SPDX-License-Identifier: Apache-2.0
"""Samples taken by the kernel: perf_event_open(2), by each thread's own processor time.

There is an event for each thread and processor, because events that children inherit can have a
ring only for a single processor. All events of a processor write to one ring. See
<linux/perf_event.h>.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from operator import itemgetter
from struct import Struct, pack_into, unpack_from

from soscope.entry.isa import arch
from soscope.entry.ptrace import failure, libc
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTR_SIZE = 128
_SOFTWARE, _TASK_CLOCK = 1, 1
_TID, _TIME, _REGS_USER, _STACK_USER = 1 << 1, 1 << 2, 1 << 12, 1 << 13
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 1, 1 << 5, 1 << 6
_MMAP, _COMM, _TASK, _ID_ALL, _MMAP2, _COMM_EXEC = (
    1 << 8,
    1 << 9,
    1 << 13,
    1 << 18,
    1 << 23,
    1 << 24,
)
_CLOEXEC = 8
_SET_OUTPUT, _DISABLE = 0x2405, 0x2401
_HEAD, _TAIL = 1024, 1032  # offsets in struct perf_event_mmap_page
_RECORD = Struct("<IHH")
_LOST, _COMM_RECORD, _FORK, _SAMPLE, _MAPPED = 2, 3, 7, 9, 10
_MAP = Struct("<QQQIIQQII")  # start, bytes, offset in the file, device, inode, protection
_IS_EXEC = 1 << 13
_STACK = 16384  # bytes of a stack that are copied
_PAGES = (512, 256, 128, 64, 32)  # of a ring, the most that is allowed
_PAGE = mmap.PAGESIZE
_MOST = 8192  # events


class KernelSample:
    """A thread's state: registers by the columns of unwind tables, and memory from `sp` up."""

    __slots__ = ("pid", "registers", "sp", "stack", "tid")

    def __init__(
        self, pid: int, tid: int, registers: dict[int, int | None], sp: int, stack: bytes
    ) -> None:
        self.pid = pid
        self.tid = tid
        self.registers = registers
        self.sp = sp
        self.stack = stack


class TaskEvent:
    """An event of a process: `kind` is LOST with `count`, FORK with `parent`, EXEC or NAME."""

    __slots__ = ("count", "kind", "name", "parent", "pid", "tid")
    LOST, FORK, EXEC, NAME = range(4)

    def __init__(
        self, kind: int, pid: int, tid: int, name: str = "", count: int = 0, parent: int = 0
    ) -> None:
        self.kind = kind
        self.pid = pid
        self.tid = tid
        self.name = name
        self.count = count
        self.parent = parent


class MapEvent:
    """A mapping of code: [start, end), from `offset` of the file `path`, by the kernel's name."""

    __slots__ = ("end", "inode", "offset", "path", "pid", "start")

    def __init__(self, pid: int, start: int, end: int, offset: int, inode: int, path: str) -> None:
        self.pid = pid
        self.start = start
        self.end = end
        self.offset = offset
        self.inode = inode
        self.path = path


Event = KernelSample | TaskEvent | MapEvent


class PerfEvents:
    """Events for threads, with one sample for each `period` ns that a thread has run.

    `has_kernel` is set if time in the kernel counts, too. The kernel may forbid that.
    """

    def __init__(self, period: int) -> None:
        """Prepare. The kernel is not asked before `add`."""
        self._period = period
        self.has_kernel = True
        self._events: dict[int, list[int]] = {}  # descriptors by process
        self._rings: dict[int, tuple[mmap.mmap, int, int]] = {}
        self._processors = range(os.sysconf("SC_NPROCESSORS_CONF"))

    def add(self, pid: int) -> None:
        """Sample all threads of a process, and threads that they will make.

        Raises OSError if that is not allowed, or if there are too many threads.
        """
        events = self._events.setdefault(pid, [])
        done: set[int] = set()
        try:
            while todo := set(status.threads(pid)) - done:
                done |= todo
                for tid in todo - self._born(pid):
                    events += self._open(tid)
        except OSError:
            self.remove(pid)
            raise

    def remove(self, pid: int) -> None:
        """Stop sampling a process. Its samples in the rings stay."""
        kept = {descriptor for _, descriptor, _ in self._rings.values()}
        for descriptor in self._events.pop(pid, ()):
            if descriptor in kept:  # a ring is mapped from this descriptor
                libc.ioctl(descriptor, _DISABLE, 0)
            else:
                os.close(descriptor)

    def close(self) -> None:
        """Close all events and rings."""
        for pid in list(self._events):
            self.remove(pid)
        for ring, descriptor, _ in self._rings.values():
            ring.close()
            os.close(descriptor)
        self._rings.clear()

    def _born(self, pid: int) -> set[int]:
        """Return the threads that have inherited events from their creators."""
        return {
            event.tid
            for event in self.records(is_look=True)
            if isinstance(event, TaskEvent) and event.kind == TaskEvent.FORK and event.pid == pid
        }

    def _open(self, tid: int) -> list[int]:
        if sum(map(len, self._events.values())) > _MOST:
            raise OSError(errno.EMFILE, "too many threads")
        descriptors: list[int] = []
        for processor in self._processors:
            try:
                descriptor = self._open_at(tid, processor)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    break  # the process or thread has ended
                if error.errno == errno.ENODEV:
                    continue  # a processor that is offline
                for descriptor in descriptors:
                    os.close(descriptor)
                raise
            descriptors.append(descriptor)
            self._lead(descriptor, processor)
        return descriptors

    def _open_at(self, tid: int, processor: int) -> int:
        while True:
            attr = ctypes.create_string_buffer(self._attr(), _ATTR_SIZE)
            descriptor = int(
                libc.syscall(arch.PERF_EVENT_OPEN, ctypes.byref(attr), tid, processor, -1, _CLOEXEC)
            )
            if descriptor >= 0:
                return descriptor
            error = failure()
            if error.errno not in (errno.EACCES, errno.EPERM) or not self.has_kernel:
                raise error
            self.has_kernel = False

    def _attr(self) -> bytes:
        attr = bytearray(_ATTR_SIZE)
        sample = _TID | _TIME | _REGS_USER | _STACK_USER
        flags = _INHERIT | _EXCLUDE_HV | _COMM | _TASK | _COMM_EXEC | _MMAP | _MMAP2 | _ID_ALL
        if not self.has_kernel:
            flags |= _EXCLUDE_KERNEL
        head = (_SOFTWARE, _ATTR_SIZE, _TASK_CLOCK, self._period, sample, 0, flags)
        pack_into("<IIQQQQQ", attr, 0, *head)
        pack_into("<QI", attr, 80, arch.PERF_MASK, _STACK)
        return bytes(attr)

    def _lead(self, descriptor: int, processor: int) -> None:
        """Attach an event to the ring of its processor. Raises OSError."""
        if processor in self._rings:
            if libc.ioctl(descriptor, _SET_OUTPUT, self._rings[processor][1]):
                raise failure()
            return
        for pages in _PAGES:
            try:
                ring = mmap.mmap(descriptor, (1 + pages) * _PAGE)
            except OSError:
                if pages == _PAGES[-1]:
                    raise
                continue  # more than the limit of locked memory
            self._rings[processor] = ring, descriptor, pages * _PAGE
            return

    # ---- records of the kernel ----

    def records(self, *, is_look: bool = False) -> list[Event]:
        """Return the records in the rings, ordered by time. With `is_look` they stay there."""
        records = sorted(self._records(is_look=is_look), key=itemgetter(0))
        return [record for _, record in records]

    def _records(self, *, is_look: bool) -> Iterator[tuple[int, Event]]:
        for ring, _, size in self._rings.values():
            (head,) = unpack_from("<Q", ring, _HEAD)
            (tail,) = unpack_from("<Q", ring, _TAIL)
            data = self._between(ring, tail, head, size)
            at = 0
            while at < len(data):
                kind, misc, length = _RECORD.unpack_from(data, at)
                if length < _RECORD.size:
                    break
                record = _decoded(kind, misc, data[at + _RECORD.size : at + length])
                if record is not None:
                    yield record
                at += length
            if not is_look:
                pack_into("<Q", ring, _TAIL, head)

    def _between(self, ring: mmap.mmap, tail: int, head: int, size: int) -> bytes:
        first, last = tail % size, head % size
        if first < last or tail == head:
            return ring[_PAGE + first : _PAGE + last]
        return ring[_PAGE + first : _PAGE + size] + ring[_PAGE : _PAGE + last]


def _decoded(kind: int, misc: int, body: bytes) -> tuple[int, Event] | None:
    """Return the time and the content of a record."""
    if kind == _SAMPLE:
        return unpack_from("<Q", body, 8)[0], _sample(body)
    event = _event(kind, misc, body)
    return None if event is None else (unpack_from("<Q", body, len(body) - 8)[0], event)


def _event(kind: int, misc: int, body: bytes) -> Event | None:
    if kind == _LOST:
        return TaskEvent(TaskEvent.LOST, 0, 0, count=unpack_from("<Q", body, 8)[0])
    pid, tid = unpack_from("<II", body, 0)
    if kind == _FORK:  # process, parent process, thread, parent thread
        parent, tid = tid, unpack_from("<I", body, 8)[0]
        return TaskEvent(TaskEvent.FORK, pid, tid, parent=parent)
    if kind == _COMM_RECORD:
        name = os.fsdecode(body[8:].split(b"\0", 1)[0])
        return TaskEvent(TaskEvent.EXEC if misc & _IS_EXEC else TaskEvent.NAME, pid, tid, name)
    if kind != _MAPPED:
        return None
    start, size, offset, _, _, inode, *_ = _MAP.unpack_from(body, 8)
    path = os.fsdecode(body[8 + _MAP.size :].split(b"\0", 1)[0])
    return MapEvent(pid, start, start + size, offset, inode, path)


def _sample(body: bytes) -> KernelSample:
    pid, tid = unpack_from("<II", body, 0)
    if not unpack_from("<Q", body, 16)[0]:
        return KernelSample(pid, tid, {}, 0, b"")  # a thread without user registers
    words = unpack_from(f"<{len(arch.PERF_COLUMNS)}Q", body, 24)
    registers: dict[int, int | None] = dict(zip(arch.PERF_COLUMNS, words, strict=True))
    at = 24 + 8 * len(words)
    (size,) = unpack_from("<Q", body, at)
    copied = unpack_from("<Q", body, at + 8 + size)[0] if size else 0
    return KernelSample(
        pid, tid, registers, registers[arch.SP_COLUMN] or 0, body[at + 8 : at + 8 + copied]
    )
