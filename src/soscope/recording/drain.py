# SPDX-License-Identifier: Apache-2.0
"""Drain the rings of all traced programs into one sink, with clock pairs and process events."""

from __future__ import annotations

import os
import time

from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.recording.clock import SPACING, Clock, Sampler
from soscope.recording.names import TableReader
from soscope.recording.sink import Sink, Stop, Told
from soscope.recording.spoiled import UNITS, Chunks, Spoiled, in_state
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet


# Owners of chunks, by the ids of process and thread in their own pid namespace.
#
# Two processes in two pid namespaces may have one number. Then it cannot be told which of them owns
# a chunk, and the owner counts as ended only if neither process has such a thread.


class Owners:
    """The processes that use a block, at one moment.

    `pids` are their ids as soscope sees them. `inner` has their ids in their own namespace if
    they differ.
    """

    __slots__ = ("_inner", "_pids", "_processes", "_threads")

    def __init__(self, pids: AbstractSet[int], inner: Mapping[int, int]) -> None:
        self._pids = pids
        self._inner = inner
        self._processes: dict[int, list[int]] | None = None  # by pid in their own namespace
        self._threads: dict[int, set[int] | None] = {}  # tids in their own namespace, by pid

    def _of(self, pid: int) -> list[int]:
        if not self._inner:
            return [pid] if pid in self._pids else []
        if self._processes is None:
            self._processes = {}
            for ours in self._pids:
                self._processes.setdefault(self._inner.get(ours, ours), []).append(ours)
        return self._processes.get(pid, [])

    def may_be(self, pid: int) -> bool:
        """Return whether one of them has the id `pid` in its own namespace."""
        return bool(self._of(pid))

    def have_lost(self, pid: int, tid: int) -> bool:
        """Return whether a thread of one of them has ended. `pid` and `tid` are its own ids."""
        processes = self._of(pid)
        return bool(processes) and not any(self._lives(process, tid) for process in processes)

    def _lives(self, pid: int, tid: int) -> bool:
        is_inner = pid in self._inner
        if pid not in self._threads:
            self._threads[pid] = _inner_tids(pid) if is_inner else _tids(pid)
        tids = self._threads[pid]
        if tids is None or tid in tids:
            return True
        return not is_inner and _is_there(f"/proc/{pid}/task/{tid}")


def _tids(pid: int) -> set[int]:
    """Return the ids of a process's threads. Some may be missed."""
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return set()  # each thread is looked up by itself


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, ProcessLookupError):
        return not _is_our_proc()  # else this /proc is not about our processes
    except OSError:
        return True
    return True


def _is_our_proc() -> bool:
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # no /proc at all
        return False


def _inner_tids(pid: int) -> set[int] | None:
    """Return the ids of a process's threads in its own namespace, None if they are not known."""
    inner = set()
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return set()  # the process has ended
    except OSError:
        return None  # the process may not be examined
    for tid in tids:
        try:
            with open(f"/proc/{pid}/task/{tid}/status", "rb", buffering=0) as file:
                _, _, rest = file.read().partition(b"\nNSpid:")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process or thread has ended meanwhile
        except OSError:  # the thread may not be examined, either
            return None
        if not rest:
            return None
        inner.add(int(rest.split(b"\n", 1)[0].split()[-1]))
    return inner


_RUN = 64  # chunks that are copied and handed over at once
_TIMED = (
    layout.UNIT_ENTRY,
    layout.UNIT_ENTRY_ONLY,
    layout.UNIT_EXIT,
    *range(layout.UNIT_BLOCK, layout.UNIT_REPORTED + 1),
)
_COUNTED = (layout.UNIT_OPEN, layout.UNIT_WHOLE)  # Their times are relative to the start.
_START = (1 << layout.START_BITS) - 1
# A thread's last unit may change from the first kind to the second, in place.
_OPEN = (layout.UNIT_OPEN, layout.UNIT_BLOCK)
_WHOLE = (layout.UNIT_WHOLE, layout.UNIT_BLOCK_OVER)
_INTERRUPTED_LIMIT = 0.25  # seconds
_LOOK = 0.02  # seconds between searches for holes in chunks that are in use,
_LOOK_SHARE = 20  # or this many times the duration of a search
_DEAD_EVERY = 0.25  # seconds between checks whether the owners of idle chunks live
_STARVING = 1.0  # seconds within which ended threads are found


def _root_of(pids: AbstractSet[int]) -> str:
    """Return the root folder of the first of these processes that has one of its own, else ""."""
    for pid in pids:
        try:
            root = os.readlink(f"/proc/{pid}/root")
        except OSError:
            continue  # it has ended, or belongs to another user
        if root != "/":
            return root
    return ""


class Drainer:
    """Drains the control block of the traced program number `program` into `sink`.

    `path` is the path of the program. `pids` are the ids of the processes that use the block, as
    seen by soscope. Chunks have ids of their owners' own pid namespace, and `inner_pids` has them
    if they differ. `units` counts the units that were handed over (32 bytes each). `news` is set
    when the sink gets something that has a time. `newest` is the latest tsc of a chunk that was
    handed over.
    """

    __slots__ = (
        "_begun",
        "_block",
        "_chunks",
        "_clock",
        "_dead_at",
        "_dropped",
        "_flags",
        "_held_since",
        "_hurries",
        "_interrupted",
        "_look_at",
        "_open",
        "_passed",
        "_passing",
        "_positions",
        "_root",
        "_spoiled",
        "_spoiled_told",
        "_states",
        "_stopped",
        "_suspects",
        "_tables",
        "inner_pids",
        "newest",
        "news",
        "path",
        "pids",
        "program",
        "sink",
        "units",
    )

    def __init__(
        self, block: ControlBlock, program: int, sink: Sink, clock: Sampler, path: str = ""
    ) -> None:
        self.program = program
        self.sink = sink
        self.path = path
        self._clock = clock
        self.pids: set[int] = set()
        self.inner_pids: dict[int, int] = {}
        self._root = ""
        self.units = 0
        self.news = False
        self.newest = 0
        self._block = block
        self._chunks = Chunks(block)
        self._spoiled = Spoiled(block, self._chunks, clock)
        self._spoiled_told = 0
        self._tables = TableReader(block, program, sink)
        self._positions: dict[int, tuple[int, int]] = {}  # chunk -> (seq, units handed over)
        # chunk -> (seq, OPEN units that were handed over and the ends of their data)
        self._open: dict[int, tuple[int, list[tuple[int, int]]]] = {}
        self._suspects: dict[int, int] = {}  # chunk -> seq, if its owner was not found
        self._passed: dict[int, tuple[int, list[int]]] = {}  # chunk -> (seq, units passed over)
        self._passing: set[int] = set()  # chunks whose holes are to be passed over
        # (chunk, seq) -> (the missing unit, when it was first missed)
        self._interrupted: dict[tuple[int, int], tuple[int, float]] = {}
        self._look_at = 0.0  # next search for holes in chunks in use
        self._dead_at = 0.0
        self._held_since = 0.0  # since when threads own all chunks and none was freed, or 0
        self._dropped: tuple[int, ...] = ()
        self._begun = False
        self._states = b""  # chunk states at the last look
        self._hurries = False  # most chunks are full, so threads will soon wait
        self._flags = 0  # the agent's flags that were last written
        self._stopped = False

    @property
    def spoiled(self) -> int:
        """Return how much of what it has read was overwritten by the program."""
        return self._spoiled.count

    # ---- while the target runs ----

    @property
    def waits(self) -> bool:
        """Return whether records are held back behind an unfinished one."""
        return bool(self._interrupted)

    def beat(self) -> None:
        """Tell the agent that soscope is alive."""
        self._block.heartbeat += 1

    def drain(self) -> int:
        """Hand over what there is, and tell the agent that soscope is alive.

        Return the number of units handed over. With the policy overwrite, only names are handed
        over. Then `finish` drains the ring and counts what was overwritten.
        """
        block = self._block
        self.beat()
        if not self._begun and block.state == layout.STATE_NEW:
            return 0
        before = self.units
        if block.when_full != layout.FULL_OVERWRITE:
            self._drain(ended=False)
            self._tell_dropped()
        else:
            self._begin()
            self._tables.update()
            self._look_for_the_dead(in_state(block.chunk_states(), layout.CHUNK_OWNED))
        if block.state == layout.STATE_STOPPED and not self._stopped:
            self._stopped = True
            if block.when_full == layout.FULL_STOP:  # stops by itself
                self.news = True
                self.sink.stop(Stop(time.time_ns(), program=self.program))
        return self.units - before

    def _begin(self) -> None:
        """Write what is known of the program, without which its units cannot be read."""
        if not self._begun and self._block.state != layout.STATE_NEW:
            self._begun = True
            self._spoiled.begin()
            self.tell()

    def _drain(self, *, ended: bool) -> None:
        self._begin()
        states = self._states = self._block.chunk_states()  # thousands, so they are read at once
        self._spoiled.look(states)
        chunks = self._chunks
        seqs, middles = chunks.seqs, chunks.middles  # a busy program fills hundreds of chunks
        taken = [(seqs[index], index, True) for index in in_state(states, layout.CHUNK_FULL)]
        for index in in_state(states, layout.CHUNK_OWNED):
            seq = seqs[index]
            if seq:
                taken.append((seq, index, ended))
        taken.sort()
        work = []
        self._passing.clear()
        crowded = layout.CHUNK_FREE not in states
        usual = self._block.chunks - self._block.spare_chunks
        self._hurries = 2 * states.count(layout.CHUNK_FULL) > usual
        for seq, index, full in taken if ended else self._in_order(taken, crowded):
            first = self._handed_over(index, seq) if index in self._positions else 0
            if full:
                end = UNITS if middles[index] else chunks.used(index)
            else:
                end = chunks.committed(index, first)
            if index in self._passing:
                end = max(end, chunks.last_record(index))
            work.append((seq, index, first, end, full))
        # Names are read after the units that use them have been seen, and handed over before them.
        self._tables.update()
        if self._begun and self._block.agent_flags != self._flags:
            self.tell()  # whether errno is known decides how units are read
        idle = self._hand_over(work)
        if idle and not ended:
            self._look_for_the_dead(idle)
            self._look_for_starvation(all_held=len(idle) == len(states))

    def _in_order(
        self, taken: list[tuple[int, int, bool]], crowded: bool
    ) -> list[tuple[int, int, bool]]:
        """Leave out chunks whose thread still has an earlier one in use.

        If a signal handler meets the end of a chunk while the record that it has interrupted is
        unfinished, it continues in the next chunk. The first chunk is given back when that record
        is complete. If siglongjmp has left the record, that never happens. Add the chunks whose
        holes have been waited for long enough to `_passing`. If threads wait for chunks
        (`crowded`), holes are not waited for.
        """
        chunks = self._chunks
        words = chunks.tids
        tids = [words[index] for _, index, _ in taken]
        last = dict(zip(tids, [seq for seq, _, _ in taken], strict=True))
        waits: set[int] = set()
        wanted = []
        before, self._interrupted = self._interrupted, {}
        now = time.monotonic()
        look = now >= self._look_at
        for each, tid in zip(taken, tids, strict=True):
            if tid in waits:
                continue
            wanted.append(each)
            seq, index, full = each
            if full:
                continue
            key = index, seq
            earlier = last[tid] != seq
            if not (earlier or look or key in before):
                continue
            missing = chunks.committed(index, self._handed_over(index, seq))
            if not earlier and chunks.last_record(index) <= missing:
                continue
            unit, since = before.get(key, (missing, now))
            if unit != missing and not earlier:  # a new hole, found now
                since = now
            self._interrupted[key] = missing, since
            if now - since >= _INTERRUPTED_LIMIT or crowded:
                self._passing.add(index)
            elif earlier:
                waits.add(tid)
        if look:
            done = time.monotonic()
            self._look_at = done + max(_LOOK, _LOOK_SHARE * (done - now))
        return wanted

    def _pass_over(self, index: int, seq: int, first: int, units: bytes) -> None:
        """Remember the holes in units that have been handed over, from `first` on."""
        commits = memoryview(units).cast("I")[:: layout.UNIT // 4].tolist()
        holes = [first + at for at, commit in enumerate(commits) if not commit]
        known = self._passed.get(index)
        self._passed[index] = seq, holes + (known[1] if known and known[0] == seq else [])

    def _hand_over_late(self, index: int, seq: int) -> None:
        """Hand over units that were passed over as holes and have been finished since."""
        known = self._passed.get(index)
        if known is None or known[0] != seq:
            return
        chunks = self._chunks
        first = self._handed_over(index, seq)
        still = []
        for unit in sorted(known[1]):
            commit = chunks.commit(index, unit)
            if not commit:
                still.append(unit)
            elif commit >> 28 != layout.UNIT_DATA:  # data goes with its entry or exit
                end = unit + 1
                while end < first and chunks.commit(index, end) >> 28 == layout.UNIT_DATA:
                    end += 1
                self._hand_over_units(index, seq, unit, end)
        self._passed[index] = seq, still

    def _handed_over(self, index: int, seq: int) -> int:
        known = self._positions.get(index)
        return known[1] if known is not None and known[0] == seq else 0

    def _hand_over(self, work: list[tuple[int, int, int, int, bool]]) -> list[int]:
        """Hand over chunks in order. Return the owned chunks without new units."""
        idle = []
        run: dict[int, int] = {}  # chunk -> seq
        opened, passed = self._open, self._passed
        for seq, index, first, end, full in work:
            # In this order, as late units were interrupted by the calls that have returned.
            if index in opened:
                self._hand_over_returned(index, seq)
            if index in passed:
                self._hand_over_late(index, seq)
            if full and not first and end == UNITS:
                if run and (index - 1 not in run or len(run) == _RUN):
                    self._hand_over_run(run)
                    run = {}
                run[index] = seq
                continue
            if end > first:
                if run:
                    self._hand_over_run(run)
                    run = {}
                self._hand_over_units(index, seq, first, end)
                self.beat()  # a thousand chunks take a while
            elif not full:
                idle.append(index)
            else:  # without new units or never used, but its number has passed
                is_full = self._states[index] == layout.CHUNK_FULL
                self._spoiled.can_be(index, self._chunks.header(index), is_full=is_full)
            if full:
                self._release([index])
        if run:
            self._hand_over_run(run)
        return idle

    def _hand_over_run(self, run: dict[int, int]) -> None:
        first = min(run)
        states = self._states[first : first + len(run)]
        with self._chunks.row(first, len(run)) as row:
            data = self._spoiled.checked_row(run, states, row, hurry=self._hurries)
            if data:
                at = layout.CHUNK.offset("tsc_full") - layout.CHUNK_SIZE
                self.newest = max(self.newest, int.from_bytes(data[at : at + 8], "little"))
                self.sink.chunks(self.program, data)
                self.units += len(data) // layout.CHUNK_SIZE * UNITS
                self.news = True
        self._release(list(run))

    def _hand_over_units(self, index: int, seq: int, first: int, end: int) -> None:
        is_full = self._states[index] == layout.CHUNK_FULL
        header = self._chunks.header(index)
        if int.from_bytes(header[:8], "little") != seq:
            return  # the chunk has a new owner: next time
        if not self._spoiled.can_be(index, header, is_full=is_full):
            return
        units = self._look_at_last(index, seq, first, self._chunks.units(index, first, end))
        units = self._spoiled.checked(units)
        self.sink.chunk(self.program, header, first, units)
        if index in self._passing:
            self._pass_over(index, seq, first, units)
        self.units += end - first
        self.news = True
        self._positions[index] = seq, max(end, self._handed_over(index, seq))
        last = units[-29] >> 4
        time = int.from_bytes(units[-24:-16], "little")
        if last in _TIMED:
            self.newest = max(self.newest, time)
        elif last in _COUNTED:
            ticks = time >> layout.START_BITS << layout.TICKS_LOW  # rounded down a little
            self.newest = max(self.newest, self._block.tsc_start + (time & _START) + ticks)

    def _look_at_last(self, index: int, seq: int, first: int, units: bytes) -> bytes:
        """Remember OPEN units without a later unit. Return `units` with complete WHOLE units.

        An exit may have made a unit WHOLE while it was copied, so the copy may have its commit
        word without its result. A hole does not count as a later unit: it may belong to an exit
        that has not made its entry WHOLE yet.
        """
        commits = memoryview(units).cast("I")[:: layout.UNIT // 4]
        known = self._open.get(index)
        opened = known[1] if known and known[0] == seq else []
        ends = [len(commits)]
        if index in self._passing:
            ends += [at for at, commit in enumerate(commits.tolist()) if at and not commit]
        for end in ends:
            unit = end - 1
            while unit and commits[unit] >> 28 == layout.UNIT_DATA:
                unit -= 1
            kind = commits[unit] >> 28
            if kind in _OPEN:
                opened.append((first + unit, first + end))
            elif kind in _WHOLE:
                at = unit * layout.UNIT
                whole = self._chunks.units(index, first + unit, first + unit + 1)
                units = units[:at] + whole + units[at + layout.UNIT :]
        if opened:
            self._open[index] = seq, opened
        return units

    def _hand_over_returned(self, index: int, seq: int) -> None:
        """Hand over units that were handed over as OPEN and have become WHOLE since."""
        known, opened = self._open.pop(index)
        chunks = self._chunks
        still = []
        # Innermost first: a signal handler has made it in the middle of the exit of an outer one.
        for unit, end in sorted(opened, reverse=True) if known == seq else ():
            # The next unit is read first: once it exists, the OPEN unit before it never changes.
            is_last = end >= UNITS or not chunks.commit(index, end)
            kind = chunks.commit(index, unit) >> 28
            if kind in _WHOLE:
                header = chunks.header(index, layout.CHUNK_RETURNED)
                units = self._spoiled.checked(chunks.units(index, unit, unit + 1))
                self.sink.chunk(self.program, header, unit, units)
                self.units += 1
                self.news = True
            elif is_last:
                still.append((unit, end))
        if still:
            self._open[index] = seq, still

    def _release(self, indices: list[int]) -> None:
        self._look_for_starvation(all_held=False)
        known: dict[int, object]
        for known in (self._positions, self._passed, self._open, self._suspects):  # type: ignore[assignment]  # of any values
            for index in indices if known else ():  # few chunks have such units
                known.pop(index, None)
        self._spoiled.forget(indices)
        self._block.free_chunks(indices)

    # ---- threads that ended while they owned a chunk ----

    def _look_for_the_dead(self, idle: list[int]) -> None:
        now = time.monotonic()
        if now < self._dead_at:
            return
        self._dead_at = now + _DEAD_EVERY
        chunks, owners = self._chunks, Owners(self.pids, self.inner_pids)
        for index in idle:
            seq, pid, tid = chunks.seq(index), chunks.pid(index), chunks.tid(index)
            if chunks.is_borrowed(index) or not tid or not owners.have_lost(pid, tid):
                self._suspects.pop(index, None)
            elif self._suspects.get(index) != seq:
                self._suspects[index] = seq  # a second look decides later
            elif chunks.seq(index) == seq:
                self._bury(pid, tid)

    def _look_for_starvation(self, *, all_held: bool) -> None:
        """Tell the agent if the threads that wait for a chunk would wait for ever.

        All threads may wait for one that waits for a chunk itself. Chunks of ended threads are
        taken back when their end is known and two looks have confirmed it, which takes less than
        a second.
        """
        if not all_held:
            self._held_since = 0.0
            self._block.starved = 0
            return
        now = time.monotonic()
        self._held_since = self._held_since or now
        if now - self._held_since >= _STARVING:
            self._block.starved = 1

    def _bury(self, pid: int, tid: int) -> None:
        """Take all chunks from a thread that has ended."""
        self._take_all(lambda owner: owner == (pid, tid))
        if self._block.when_full == layout.FULL_OVERWRITE:
            return  # records of the thread are handed over later
        self.news = True
        self.sink.thread_end(time.time_ns(), pid, tid)

    def process_ended(self, pid: int) -> None:
        """Hand over everything that an ended process wrote and take its chunks back."""
        self.pids.discard(pid)
        if self._block.when_full != layout.FULL_OVERWRITE:
            self._drain(ended=False)
        inner = self.inner_pids.get(pid, pid)
        # A process with that number in another namespace may own them. Then each thread is looked
        # for.
        if not Owners(self.pids, self.inner_pids).may_be(inner):
            self._take_all(lambda owner: owner[0] == inner)

    def _take_all(self, is_dead: Callable[[tuple[int, int]], bool]) -> None:
        """Take the chunks of dead threads, in order, including chunks that waited behind a hole.

        `is_dead` gets the pid and tid of a chunk's owner.
        """
        if self._block.when_full == layout.FULL_OVERWRITE:
            self._give_back_all(is_dead)
            return
        self._begin()
        chunks, taken = self._chunks, []
        states = self._block.chunk_states()
        for state in (layout.CHUNK_OWNED, layout.CHUNK_FULL):
            for index in in_state(states, state):
                seq = chunks.seq(index)
                if not seq or not is_dead((chunks.pid(index), chunks.tid(index))):
                    continue
                if state == layout.CHUNK_FULL or not chunks.is_borrowed(index):
                    first = self._handed_over(index, seq)
                    taken.append((seq, index, first, chunks.used(index), True))
        self._tables.update()
        self._hand_over(sorted(taken))

    def _give_back_all(self, is_dead: Callable[[tuple[int, int]], bool]) -> None:
        """Let the chunks of dead threads be overwritten in turn, as these cannot give them back."""
        chunks = self._chunks
        for index in in_state(self._block.chunk_states(), layout.CHUNK_OWNED):
            owner = chunks.pid(index), chunks.tid(index)
            if chunks.seq(index) and is_dead(owner) and not chunks.is_borrowed(index):
                chunks.set_given_back(index, self._clock.sample(self.newest)[0])
                self._block.set_chunk_state(index, layout.CHUNK_FULL)

    # ---- the end ----

    def finish(self, *, dead: bool = True) -> None:
        """Hand over everything, and the agent's counters.

        `dead` means that no process uses the block any more, so units behind an unfinished one
        are complete.
        """
        self._drain(ended=dead)
        self._tables.finish()
        self._spoiled.finish(dead=dead)
        self._spoiled.count += self._tables.spoiled
        self._tell_dropped()
        self.tell()
        instruments = self._block.instruments
        if layout.INSTRUMENT_COUNT in instruments:
            self.sink.counts(self.program, self._block.counts())
        if layout.INSTRUMENT_STATS in instruments:
            self.sink.stats(self.program, self._block.stats())

    def tell(self) -> None:
        """Write the facts about the program to the sink."""
        block = self._block
        self._flags = block.agent_flags
        self._root = self._root or _root_of(self.pids)
        self.sink.program(
            self.program,
            {
                "path": self.path,
                "root": self._root,
                "instruments": block.instruments,
                "flags": block.flags,
                "when_full": block.when_full,
                "string_limit": block.string_limit,
                "state": block.state,
                "error": block.error,
                "error_at": block.error_at,
                "agent_flags": self._flags,
                "agent_base": block.agent_base,
                "agent_build_id": block.build_id.rstrip(b"\0").hex(),
                "loader_hook": block.loader_hook,
                "tsc_start": block.tsc_start,
                "cost_inner": block.cost_inner,
                "cost_outer": block.cost_outer,
                "delayed": block.delayed,
                "delays_over": block.delays_over,
                "delays_unknown": block.delays_unknown,
                "sites": block.sites,
                "slots_left": block.slots_left,
                "rules_matched": [block.rules_matched(each) for each in block.instruments],
            },
        )

    def _tell_dropped(self) -> None:
        block = self._block
        totals = (
            *block.dropped,
            block.dropped_exits,
            block.images_dropped,
            block.slots_dropped,
        )
        if totals != self._dropped and (self._dropped or any(totals)):
            self._dropped = totals
            self.news = True
            # The time is read after the counters, so what they count happened before it.
            self.sink.dropped(self.program, self._clock.sample(self.newest)[0], totals)
        if self.spoiled != self._spoiled_told:
            self._spoiled_told = self.spoiled
            self.news = True
            self.sink.spoiled(self.program, self.spoiled)

    def close(self) -> None:
        """Release the views of the block's memory."""
        self._tables.close()
        self._chunks.close()


# There is one drainer for each traced program. A program is an exec, and its forked children share
# it.

_LONGEST = 1_000_000_000  # ns without a clock pair, at most


class Feed:
    """The drainers of one run. Call `drain` at least ten times a second, then `finish`.

    The feed decides which clock pairs there are. The file and the live decoder get the same ones,
    and so compute the same times. `clock` has them, too.

    `hear` passes on process events from before what was drained, and returns whether these are
    all. Until then no clock pair is handed over, so nothing is put in order.
    """

    __slots__ = (
        "_before",
        "_kept",
        "_new",
        "_news",
        "_owed",
        "_paired",
        "_programs",
        "_sampler",
        "clock",
        "drainers",
        "hear",
        "inner_pids",
        "sink",
    )

    def __init__(self, sink: Sink, sampler: Sampler | None = None) -> None:
        self.sink = sink
        self.drainers: list[Drainer] = []
        self.hear: Callable[[], bool] | None = None
        # Own pids of processes in another pid namespace, by the pid that soscope sees.
        self.inner_pids: dict[int, int] = {}
        self._programs = 0
        self._sampler = sampler or Sampler()
        self._new: dict[int, Drainer] = {}  # by pid: its start or exec was not handed over yet
        self.clock = Clock()
        self._news = True  # data was handed over since the last clock pair
        self._owed = 0  # number of pairs that must follow
        self._before: tuple[int, int, int] | None = None  # the last pair, if it was not kept
        self._kept = 0  # monotonic ns of the last kept pair
        self._paired = 0  # monotonic ns of the last pair
        self._pair(self._sampler.sample())

    def add(self, block: ControlBlock, path: str, pid: int) -> Drainer:
        """Drain `block`, of the program `path` in process `pid`, from now on.

        Pass on the start or exec of the program afterwards.
        """
        drainer = Drainer(block, self._programs, self.sink, self._sampler, path)
        self._programs += 1
        drainer.inner_pids = self.inner_pids
        drainer.pids.add(pid)
        self._new[pid] = drainer
        self.drainers.append(drainer)
        return drainer

    def beat(self) -> None:
        """Tell the agents that soscope is alive, without draining.

        This is for callers that are busy with earlier data. Writers then wait or drop, by their
        policy.
        """
        for drainer in self.drainers:
            drainer.beat()

    def drain(self) -> int:
        """Hand over what there is. Return the number of units."""
        sample = self._sample()
        units = sum([drainer.drain() for drainer in self.drainers])
        if self.hear is not None and not self.hear():
            return units
        # A pair states that all older records have arrived, so there is none while some are held
        # back.
        late = sample[2] - self._paired >= _LONGEST
        if late or not any(drainer.waits for drainer in self.drainers):
            self._pair(sample)
        return units

    def now(self) -> Stop:
        """Return the end of the recording at this moment, for `stop`. Any thread may call this."""
        tsc, realtime, _ = self._sample()
        return Stop(realtime, tsc)

    def stop(self, stop: Stop) -> None:
        """Record nothing that happens after `stop`. Hand over earlier records first."""
        for drainer in self.drainers:
            drainer.drain()
        self._news = True
        self.sink.stop(stop)

    def event(self, event: Told) -> None:
        """Pass on what happened to a process, after all its earlier records.

        Keeps the drainers' `pids` up to date.
        """
        new = self._new.get(event.pid) if isinstance(event, ProcessStart) else None
        if new is not None:  # a new program's records come after its start or exec
            for drainer in self.drainers:
                if drainer is not new:
                    drainer.drain()
        elif not isinstance(event, Signal):
            self.drain()
        mine = [drainer for drainer in self.drainers if event.pid in drainer.pids]
        if isinstance(event, ProcessStart):
            if event.event == "fork":
                for drainer in self.drainers:
                    if event.parent in drainer.pids:
                        drainer.pids.add(event.pid)
            elif event.event == "exec":
                for drainer in mine:
                    if drainer is not new:
                        drainer.process_ended(event.pid)
            self._new.pop(event.pid, None)
        elif isinstance(event, ProcessExit):
            for drainer in mine:
                drainer.process_ended(event.pid)
            self.inner_pids.pop(event.pid, None)
        self._news = True
        self.sink.event(event)

    def retire(self, drainer: Drainer) -> None:
        """Hand over the rest of a program that no process runs any more, and drop its drainer."""
        self.drainers.remove(drainer)
        self._news = True
        drainer.finish()
        drainer.close()

    def finish(self, *, dead: bool = True) -> None:
        """Hand over the rest. `dead` means that no traced process is left."""
        sample = self._sample()
        for drainer in self.drainers:
            drainer.finish(dead=dead)
        self._news = True
        self._pair(sample)

    def close(self) -> None:
        """Close the drainers, so that the blocks can be closed."""
        while self.drainers:
            self.drainers.pop().close()

    def _pair(self, sample: tuple[int, int, int]) -> None:
        """Hand over a clock pair if it is needed, else only a tick.

        A pair is needed behind news. The pair after it is needed, too, as it is the first that
        was read after everything in the news happened. So is a pair that is `SPACING` later
        still, which puts the news in order. If news come after a pause, the pair before them
        bounds it.
        """
        before, self._before = self._before, None
        self._paired = sample[2]
        if self._has_news():
            if before is not None and before[2] - self._kept >= SPACING:
                self._keep(before)
            self._owed = 3
        if self._owed > 1 or (self._owed and sample[2] - self._kept >= SPACING):
            self._owed -= 1
            self._keep(sample)
        else:
            self._before = sample
            self.sink.tick(sample[0], sample[2])

    def _has_news(self) -> bool:
        news, self._news = self._news, False
        for drainer in self.drainers:
            news |= drainer.news
            drainer.news = False
        return news

    def _keep(self, pair: tuple[int, int, int]) -> None:
        self._kept = pair[2]
        self.clock.add(*pair)
        self.sink.clock(*pair)

    def _sample(self) -> tuple[int, int, int]:
        return self._sampler.sample(max((drainer.newest for drainer in self.drainers), default=0))
