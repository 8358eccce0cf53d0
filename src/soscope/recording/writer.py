# SPDX-License-Identifier: Apache-2.0
"""Write a recording whatever the disk does, and drop written pages from the page cache."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from soscope.errors import RecordingError
from soscope.model.call import Stats
from soscope.recording import format as form
from soscope.recording import userfile
from soscope.recording.blocks import (
    SumsPlaces,
    Trouble,
    compact,
    stop_to_json,
    thread_end_to_json,
    to_json,
)
from soscope.recording.sink import Sink, Stop, Told
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


# Removes written pages of a growing recording from the page cache.
#
# A recording of a gigabyte would push the files that the traced program reads out of the page
# cache. Also, fresh pages are the largest part of the cost of writing. Pages that were written
# before and come back cost a fifth in a virtual machine, whose host has to find memory for fresh
# ones. So pages are written to the disk early, and dropped a while later. If the disk makes soscope
# wait, this stops, and the page cache takes what the disk cannot. Small recordings stay in memory,
# as they will be read.

_STAYS = 32 << 20  # bytes at the beginning of the file that stay cached
_STEP = 8 << 20
_LAG = 32 << 20  # bytes between writing pages to the disk and dropping them
_PATIENCE = 0.02  # seconds that a step may take


class Behind:
    """Follows the end of the file with descriptor `descriptor`."""

    __slots__ = ("_descriptor", "_handed")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._handed = _STAYS

    def written(self, size: int) -> bool:
        """Process that the file has `size` bytes. Return whether to continue with this."""
        while size - self._handed >= _STEP:
            start = time.monotonic()
            try:
                # Here Linux starts to write dirty pages, and drops clean ones: posix_fadvise(2).
                os.posix_fadvise(self._descriptor, self._handed, _STEP, os.POSIX_FADV_DONTNEED)
                before = self._handed - _LAG
                if before >= _STAYS:
                    os.posix_fadvise(self._descriptor, before, _STEP, os.POSIX_FADV_DONTNEED)
            except OSError:
                return False  # a file without page cache
            self._handed += _STEP
            if time.monotonic() - start > _PATIENCE:
                return False
        return True


_OWED_MOST = 64 << 20  # bytes of names and events that may wait for a disk with room
_RETRY = 0.5  # seconds between two attempts on a full or failing disk
_MOST_BUFFERS = 256  # far below IOV_MAX
_HEADERS = 64  # bytes of a block without its chunks, at most

# Types of units that hold an entry, and types that hold an exit.
_ENTRIES = {
    layout.UNIT_ENTRY,
    layout.UNIT_ENTRY_ONLY,
    layout.UNIT_OPEN,
    layout.UNIT_WHOLE,
    *range(layout.UNIT_BLOCK, layout.UNIT_REPORTED + 1),
}
_EXITS = {layout.UNIT_EXIT, layout.UNIT_WHOLE}


class Writer(Sink):
    """A recording that is being written. `path` is its file, `size` the file's size in bytes.

    `trouble` tells in one line what went wrong with the file, or is None. `warn` is called with
    it once, at the first loss. `lost_entries`, `lost_exits` and `lost_bytes` count what could not
    be written. `limit_reached` becomes true when `limit` bytes are reached. From then on calls
    are not recorded, which is no loss. `file` is (device, inode) of a regular file, None for
    other files.
    """

    __slots__ = (
        "_behind",
        "_descriptor",
        "_errno",
        "_facts",
        "_failed_at",
        "_last_tsc",
        "_limit",
        "_lost",
        "_meta",
        "_owed",
        "_owed_bytes",
        "_regular",
        "_sums",
        "_trouble_at",
        "_warn",
        "file",
        "limit_reached",
        "lost_bytes",
        "lost_entries",
        "lost_exits",
        "path",
        "size",
        "spent_ns",
        "trouble",
    )

    def __init__(
        self,
        path: str,
        *,
        command: list[str],
        options: dict[str, object],
        versions: dict[str, str],
        start_ns: int,
        limit: int | None = None,
        warn: Callable[[str], None] | None = None,
        keep: bool = False,
    ) -> None:
        """Create the file, readable only by its owner, and write its first block.

        An existing file must belong to the user.

        With `keep`, its content stays until `begin`. Raises RecordingError if the file cannot be
        created.
        """
        self.path = path
        self.size = 0
        self.trouble: str | None = None
        self.lost_entries = 0
        self.lost_exits = 0
        self.lost_bytes = 0
        self.limit_reached = False
        self.spent_ns = 0  # time spent on writing
        self._limit = limit
        self._warn = warn
        self._owed: list[list[bytes | memoryview]] = []
        self._owed_bytes = 0
        self._lost: list[int] | None = None  # [from tsc, entries, exits, bytes, errno]
        self._failed_at = 0.0
        self._errno = 0
        self._trouble_at = 0
        self._last_tsc = 0
        self._sums = SumsPlaces()
        self._facts: dict[int, dict[str, object]] = {}
        self._behind: Behind | None
        try:
            self._descriptor, _ = userfile.open_to_write(path)
        except (OSError, ValueError) as error:
            raise _cannot("create", path, error) from error
        try:
            status = os.fstat(self._descriptor)
            self._regular = stat.S_ISREG(status.st_mode)
            self.file = (status.st_dev, status.st_ino) if self._regular else None
            self._behind = Behind(self._descriptor) if self._regular else None
            said = {
                "schema": form.SCHEMA,
                "command": command,
                "versions": {"soscope_wire": layout.WIRE_VERSION, **versions},
                "options": options,
                "start_ns": start_ns,
                "byteorder": sys.byteorder,
            }
            self._meta: list[bytes | memoryview] | None = form.block(form.META, compact(said))
            if not (keep and self._regular and status.st_size):
                self._begin()
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = -1
            raise _cannot("write", path, error) from error

    def begin(self) -> None:
        """Replace the previous content of the file, as the trace has begun."""
        try:
            self._begin()
        except OSError as error:
            self._complain(error)
            self.close()  # a recording without its first block is unreadable

    def _begin(self) -> None:
        meta, self._meta = self._meta, None
        if meta is None:
            return
        if self._regular:
            # ext4 writes a file that was truncated to 0 to the disk when it is closed.
            if os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, 0)
            os.fchmod(self._descriptor, 0o600)
        if self._regular:
            meta = [*meta, Trouble(0, 0).block()]
            self._trouble_at = sum(map(len, meta[:-1]))
        self._write(meta)

    @property
    def is_readable(self) -> bool:
        """Return whether the recording can be read back: a file, no pipe or device."""
        return self._regular

    # ---- input ----

    def program(self, index: int, facts: dict[str, object]) -> None:
        """Write the facts about a traced program."""
        if self._facts.get(index) != facts:
            self._facts[index] = dict(facts)
            self._keep(form.PROGRAM, compact({"index": index, **facts}))

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        """Write records of images or slots, or strings."""
        self._keep(kind, form.PAIR_HEADER.pack(program, first), data)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Write units of one chunk."""
        self._records(
            form.CHUNK, form.PAIR_HEADER.pack(program, first), header, units, units=(units,)
        )

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Write whole chunks, as many as the limit allows."""
        size = layout.CHUNK_SIZE
        fits = len(data)
        if self._limit is not None and self.size + fits + _HEADERS > self._limit:
            fits = max(self._limit - self.size - _HEADERS, 0) // size * size
        if fits:
            self._chunks(program, memoryview(data)[:fits])
        if fits < len(data):
            self._reach_limit()

    def _chunks(self, program: int, data: memoryview) -> None:
        """Write whole chunks, or as many of them as still fit on a full disk."""
        size = layout.CHUNK_SIZE
        is_first = self.trouble is None
        if self._put_chunks(program, data):
            return
        count = len(data) // size // 2 if is_first and self._regular else 0
        while count:
            self._failed_at = 0.0  # fewer chunks may fit
            if self._put_chunks(program, data[: count * size]):
                data = data[count * size :]
            count //= 2
        units = (data[at + layout.CHUNK_HEADER : at + size] for at in range(0, len(data), size))
        self._lose(form.padded(len(data) + form.PAIR_HEADER.size), units)

    def _put_chunks(self, program: int, data: memoryview) -> bool:
        head = form.PAIR_HEADER.pack(program, len(data) // layout.CHUNK_SIZE)
        return self._put(form.CHUNKS, head, data)

    def event(self, event: Told) -> None:
        """Write an event of a process."""
        self._keep(form.EVENTS, compact([to_json(event)]))

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        """Write that a thread ended."""
        self._keep(form.EVENTS, compact([thread_end_to_json(time_ns, pid, tid)]))

    def stop(self, stop: Stop) -> None:
        """Write the end of the recording. Records from before may still follow."""
        if not self.limit_reached:  # else the recording has ended already
            self._keep(form.EVENTS, compact([stop_to_json(stop)]))

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Write a clock pair."""
        self._last_tsc = max(tsc, self._last_tsc)
        if not self._owed and self._lost is None:
            block = form.block(form.CLOCK, form.CLOCK_BODY.pack(tsc, realtime, monotonic))
            if self._meta is not None:
                self._meta += block  # before `begin`
            else:
                self._attempt(block)

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Write how much the agent has dropped so far."""
        self._keep(form.DROPPED, form.DROPPED_BODY.pack(program, 0, tsc, *totals))

    def spoiled(self, program: int, count: int) -> None:
        """Write how much the program has overwritten so far."""
        self._keep(form.SPOILED, form.SPOILED_BODY.pack(program, 0, count))

    def counts(self, program: int, counts: dict[int, int]) -> None:
        """Write calls by slot."""
        cells = b"".join(form.COUNT_CELL.pack(slot, 0, calls) for slot, calls in counts.items())
        self._keep(form.COUNTS, form.PAIR_HEADER.pack(program, 0), cells)

    def stats(self, program: int, stats: Stats) -> None:
        """Write statistics by slot."""
        header = form.PAIR_HEADER.pack(program, 0)
        cells = b"".join(form.STATS_CELL.pack(slot, 0, *row[:6]) for slot, row in stats.items())
        self._keep(form.STATS, header, cells)
        known = ((slot, row[6]) for slot, row in stats.items() if row[6] is not None)
        selves = b"".join(form.COUNT_CELL.pack(slot, 0, ticks) for slot, ticks in known)
        self._keep(form.SELF_TIMES, header, selves)

    def reported(self, program: int, said: dict[str, object]) -> None:
        """Write calls that instrumented code has reported."""
        self._keep(form.REPORTED, form.PAIR_HEADER.pack(program, 0), compact(said))

    def samples(self, said: dict[str, object]) -> None:
        """Write samples of stacks."""
        self._keep(form.SAMPLES, compact(said))

    def objects(self, program: int, said: dict[str, object]) -> None:
        """Write the objects of one process."""
        self._keep(form.OBJECTS, form.PAIR_HEADER.pack(program, 0), compact(said))

    def sums(self, data: bytes) -> None:
        """Write sums in place of older ones."""
        if self._descriptor < 0 or self._meta is not None or not self._regular:
            return
        try:
            if self._sums.write(self._descriptor, data, self._append):
                return
        except OSError as error:
            self._complain(error)
        self._note_trouble()

    def _append(self, block: list[bytes | memoryview]) -> int | None:
        start = self.size
        return start if self._pay() and self._attempt(block) else None

    def prototypes(self, text: str) -> None:
        """Write C declarations that the recording uses beside soscope's own."""
        self._keep(form.PROTOTYPES, text.encode("utf-8", "surrogateescape"))

    def end(
        self,
        *,
        complete: bool,
        why: str,
        status: int | None = None,
        signal: int | None = None,
        totals: dict[str, object] | None = None,
        untraced: list[tuple[str, str]] | None = None,
        lacking: list[str] | None = None,
        is_left: bool = False,
        how: tuple[str, str] = ("", ""),
        cost: dict[str, object] | None = None,
        executed: dict[str, object] | None = None,
    ) -> None:
        """Write the last block and close the file.

        `complete` means that the recording reaches the end of the program, and `why` tells why it
        ended. `untraced` are programs without the agent: (path, reason). `lacking` and `is_left`
        are as in `Outcome`. `how` is the architecture of the first program, and the engine that
        observed its calls. `cost` is the cost of recording. `executed` are programs that children
        have executed and that were not followed.
        """
        self._failed_at = 0.0  # one more attempt to write pending blocks
        said = {
            "complete": complete and not (self._lost or self.lost_entries or self.lost_bytes),
            "why": why,
            "status": status,
            "signal": signal,
            "totals": totals or {},
            "untraced": untraced or [],
            "lacking": lacking or [],
            "left": is_left,
            "arch": how[0],
            "engine": how[1],
            "cost": cost,
            "executed": executed,
            "lost": {
                "entries": self.lost_entries,
                "exits": self.lost_exits,
                "bytes": self.lost_bytes,
            },
        }
        self._keep(form.END, compact(said))
        self.close()

    def close(self) -> None:
        """Close the file as it is."""
        if self._descriptor >= 0:
            try:
                os.close(self._descriptor)
            except OSError as error:  # a network file system may report errors only now
                self._complain(error)
            self._descriptor = -1

    # ---- blocks ----

    def _keep(self, kind: int, *parts: bytes) -> None:
        """Write a block that later ones need, or keep it for a later attempt."""
        size = sum(map(len, parts))
        if size > form.MAX_LENGTH:  # readers would take it for damage
            self._complain(OSError(errno.EFBIG, f"a block of {size:,} bytes is too long"))
            self._note_trouble()
            self.lost_bytes += size
            return
        block = form.block(kind, *parts)
        if (not self._owed or self._pay()) and self._attempt(block):
            return
        size = sum(map(len, block))
        if kind == form.END:
            self._note_trouble()
        if self._descriptor >= 0 and self._owed_bytes + size <= _OWED_MOST:
            self._owed.append(block)
            self._owed_bytes += size
        else:
            self.lost_bytes += size

    def _records(
        self, kind: int, *parts: bytes | memoryview, units: Iterable[bytes | memoryview]
    ) -> None:
        """Write a block of records, or count them as lost."""
        if not self._put(kind, *parts):
            self._lose(form.padded(sum(map(len, parts))), units)

    def _put(self, kind: int, *parts: bytes | memoryview, flags: int = 0) -> bool:
        """Write a block of records. Return False if they are lost."""
        size = form.padded(sum(map(len, parts)))
        if self._limit is not None and self.size + size > self._limit:
            self._reach_limit()
        if self.limit_reached:
            return True
        return self._pay() and self._attempt(form.block(kind, *parts, flags=flags))

    def _lose(self, size: int, units: Iterable[bytes | memoryview]) -> None:
        """Count a block of records that cannot be written."""
        self._note_trouble()
        entries, exits = _count(units)
        self.lost_entries += entries
        self.lost_exits += exits
        self.lost_bytes += size
        if self._lost is None:
            self._lost = [self._last_tsc, 0, 0, 0, self._errno]
        for at, more in enumerate((entries, exits, size), 1):
            self._lost[at] += more

    def _reach_limit(self) -> None:
        """Stop writing records, and note that before whatever follows."""
        if not self.limit_reached:
            self.stop(Stop(time.time_ns()))
            self.limit_reached = True

    def _pay(self) -> bool:
        """Write the blocks that were kept, in order. Return whether none is left."""
        if self._owed and time.monotonic() - self._failed_at < _RETRY:
            return False
        while self._owed:
            if not self._attempt(self._owed[0]):
                return False
            self._owed_bytes -= sum(map(len, self._owed.pop(0)))
        if self._lost is not None:
            start, entries, exits, size, code = self._lost
            body = form.LOST_BODY.pack(start, self._last_tsc, entries, exits, size, code)
            if not self._attempt(form.block(form.LOST, body)):
                return False
            self._lost = None
        return True

    def _attempt(self, block: list[bytes | memoryview]) -> bool:
        if self._descriptor < 0:
            return False
        if self.trouble and time.monotonic() - self._failed_at < _RETRY:
            return False
        try:
            begun = time.monotonic_ns()
            self._write(block)
            self.spent_ns += time.monotonic_ns() - begun
        except OSError as error:
            self._failed_at = time.monotonic()
            self._take_back()
            self._complain(error)
            return False
        return True

    def _write(self, block: list[bytes | memoryview]) -> None:
        rest = [*block]
        total = sum(map(len, rest))
        left = total
        while left:
            done = os.writev(self._descriptor, rest[:_MOST_BUFFERS])
            left -= done
            while left and done >= len(rest[0]):
                done -= len(rest.pop(0))
            if left and done:
                rest[0] = memoryview(rest[0])[done:]
        self.size += total
        if self._behind is not None and not self._behind.written(self.size):
            self._behind = None

    def _take_back(self) -> None:
        """Truncate the file behind its last whole block."""
        if self._regular:
            try:
                os.ftruncate(self._descriptor, self.size)
                os.lseek(self._descriptor, self.size, os.SEEK_SET)
                return
            except OSError:
                pass  # a file that cannot be truncated is closed, like a pipe
        # Half a block cannot be removed from a pipe, and nothing after it could be read.
        os.close(self._descriptor)
        self._descriptor = -1

    def _complain(self, error: OSError) -> None:
        self._errno = error.errno or 0
        if self.trouble is None:
            self.trouble = f"cannot write '{self.path}': {_reason(error)}"
            if self._warn is not None:
                self._warn(self.trouble)

    def _note_trouble(self) -> None:
        """Note in the file, once, that it is incomplete from here on, and why."""
        at, self._trouble_at = self._trouble_at, 0
        if at and self._descriptor >= 0:
            try:
                block = Trouble(self._errno or errno.EIO, self.size).block()
                os.pwrite(self._descriptor, block, at)
            except OSError:
                pass  # the written part can be read all the same


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def check_place(path: str) -> None:
    """Make sure that a recording can be written later. Raises RecordingError."""
    try:
        descriptor, is_new = userfile.open_to_write(path, os.O_NONBLOCK)
        os.close(descriptor)
        if is_new:
            os.unlink(userfile.end_of_links(path))
    except (OSError, ValueError) as error:
        raise _cannot("create", path, error) from error


def _cannot(do: str, path: str, error: OSError | ValueError) -> RecordingError:
    code = error.errno if isinstance(error, OSError) else errno.EINVAL
    return RecordingError(f"cannot {do} recording '{path}': {_reason(error)}", errno=code)


def _count(units: Iterable[bytes | memoryview]) -> tuple[int, int]:
    """Count the entries and exits in units."""
    entries = exits = 0
    for data in units:
        for word in memoryview(data).cast("I")[:: layout.UNIT // 4]:
            kind = word >> 28
            entries += kind in _ENTRIES
            exits += kind in _EXITS
    return entries, exits
