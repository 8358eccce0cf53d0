# SPDX-License-Identifier: Apache-2.0
"""Random programs, written as the agent would, and their recordings read in two ways."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soscope.model.call import Entry, Exit, ProcessExit, ProcessStart
from soscope.model.image import is_error
from soscope.recording import arrays, gather, stream
from soscope.recording.columns import ENDED, Columns, batches, columns
from soscope.recording.drain import Feed
from soscope.recording.reader import RecordingFile
from soscope.recording.reduce import stats_of
from soscope.recording.stream import events
from soscope.recording.writer import Writer
from soscope.wire import layout
from tests.support.truth import stretches
from tests.unit.recording.fake import EPOCH, FakeAgent, FakeSampler, FakeThread, make_block

NAMES = ("f", "g", "h", "setjmp")
SETJMP = 3
SIZES = (1, 60, 700)  # units in a window
NEAR = 0x2_0000  # a coroutine's stack so close that it looks like the same
FAR = 0x4000_0000
TOP = 0x10_0000
LONG = 1500  # steps; each window costs, and windows of one unit are seen in shorter programs
COROUTINES = (TOP, TOP + NEAR, TOP + FAR, TOP + 2 * FAR)  # stacks of a thread


class Stack:
    """What really is open on a stack of the target, with its expected end."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.open: list[tuple[int, int]] = []  # slot, sp


class Program:
    """Random threads that behave as programs do, written as the agent would.

    `choose(n)` returns a number below n.
    """

    def __init__(
        self,
        path: Path,
        choose: Callable[[int], int],
        *,
        chunks: int = 4,
        when_full: int = layout.FULL_BLOCK,
        stacks: tuple[int, ...] = (TOP,),
        threads: int = 2,
    ) -> None:
        self.choose = choose
        self.writer = Writer(str(path), command=["x"], options={}, versions={}, start_ns=EPOCH)
        self.sampler = FakeSampler()
        self.feed = Feed(self.writer, self.sampler)
        self.block = make_block(chunks, when_full)
        self.agent = FakeAgent(self.block)
        self.feed.add(self.block, "/bin/x", 100)
        self.agent.image("x", flags=layout.IMAGE_MAIN)
        for name in NAMES:
            self.agent.slot(
                name,
                flags=layout.FN_TWICE if name == "setjmp" else 0,
                error_rule=layout.ERROR_INT_NEGATIVE if name == "g" else 0,
            )
        self.now = 2000
        self.threads = [self.agent.thread(tid=100 + n) for n in range(threads)]
        for thread in self.threads:
            thread.compact = choose(2) == 1
        self.stacks = [Stack(top + n * 16 * FAR // 64) for n in range(threads) for top in stacks]
        self.of_thread = {
            n: self.stacks[n * len(stacks) : (n + 1) * len(stacks)] for n in range(threads)
        }

    def _at(self, thread: FakeThread) -> FakeThread:
        self.now += 2 * self.choose(30)
        thread.tsc = self.now
        return thread

    def step(self) -> None:
        number = self.choose(len(self.threads))
        thread = self._at(self.threads[number])
        mine = self.of_thread[number]
        stack = mine[self.choose(len(mine))]
        what = self.choose(16)
        below = stack.open[-1][1] if stack.open else stack.top
        slot = self.choose(len(NAMES))
        if what < 5:
            sp = below - 16 * (1 + self.choose(4))
            thread.enter(slot, sp, arg0=what)
            stack.open.append((slot, sp))
        elif what < 10 and stack.open:
            slot, sp = stack.open.pop()
            thread.leave(slot, sp, result=-self.choose(2), errno=4)
        elif what == 10 and stack.open:  # longjmp or an exception
            del stack.open[self.choose(len(stack.open)) :]
        elif what == 11 and stack.open:  # tail call
            slot = self.choose(len(NAMES))
            only = self.choose(4) == 0
            thread.enter(slot, stack.open[-1][1], tail=True, only=only)
            if not only:
                stack.open.append((slot, stack.open[-1][1]))
        elif what == 12:
            thread.enter(slot, below - 16, only=True)
        elif what == 13:
            thread.overhead(2 * self.choose(50))
            self.now = thread.tsc
        elif what == 14:  # a function that returns twice
            sp = below - 32
            thread.enter(SETJMP, sp)
            thread.leave(SETJMP, sp)
            if self.choose(2):
                self._at(thread).leave(SETJMP, sp, result=1)
        elif what == 15:
            self.odd(number, mine)

    def odd(self, number: int, mine: list[Stack]) -> None:
        what = self.choose(4)
        if what == 0:
            self.drain()
        elif what == 1:
            self.threads[number].give_back()
        elif what == 2 and len(self.threads) > 1:  # coroutines move to another thread
            other = self.of_thread[(number + 1) % len(self.threads)]
            at = self.choose(len(mine))
            if at and at < len(other):
                mine[at], other[at] = other[at], mine[at]
        elif what == 3:  # an exit from nowhere
            self.threads[number].leave(self.choose(len(NAMES)), 0x10_0000 - 16 * self.choose(9))

    def drain(self) -> None:
        self.now = max([self.now, *(thread.tsc for thread in self.threads)])
        self.sampler.now = self.now
        self.feed.drain()

    def fork(self, parent: int, child: FakeThread) -> None:
        """Tell of a fork as it is done: the clocks are read behind it."""
        self.sampler.now = max(self.sampler.now, child.tsc)
        self.feed.event(ProcessStart(EPOCH + child.tsc // 2, child.pid, "fork", parent, "/bin/x"))

    def finish(self, *, killed: bool | None = None, close: bool = True) -> None:
        self.now += 100
        self.drain()
        if killed is not None:
            end = EPOCH + self.now // 2
            self.feed.event(ProcessExit(end, 100, None if killed else 0, 9 if killed else None))
        self.now += 100
        self.sampler.now = self.now
        self.feed.finish()
        self.writer.end(complete=True, why="exit")
        if close:
            for drainer in self.feed.drainers:
                drainer.close()
            self.block.close()


Row = tuple[object, ...]


def rows_of_stream(recording: RecordingFile) -> list[Row]:
    last: dict[int, Exit] = {}
    entries: list[Entry] = []
    for event in events(recording):
        if isinstance(event, Entry):
            entries.append(event)
        elif isinstance(event, Exit):
            before = last.get(id(event.entry))
            if event.entry is None or event.is_inherited:
                continue
            if before is None or before.ended != "return":
                last[id(event.entry)] = event  # a call that returns again is one call
    rows: list[Row] = []
    for entry in entries:
        end = last.get(id(entry))
        rows.append(
            (
                entry.slot.process,
                entry.pid,
                entry.tid,
                entry.slot.index,
                entry.time_ns,
                end.duration_ns if end and end.duration_ns is not None else -1,
                end.result if end and end.result is not None else 0,
                end.errno if end and end.errno is not None else 0,
                entry.return_addr,
                entry.captured.words[0],
                entry.depth,
                end.ended if end else "",
                entry.entry_only,
            )
        )
    return rows


def stats_of_stream(recording: RecordingFile) -> dict[tuple[int, int], list[int]]:
    """Return by program and slot: calls, returns, errors, total, least, most and self time."""
    found: dict[tuple[int, int], list[int]] = {}
    sums: Counter[tuple[int, int, int]] = Counter()  # of each thread: time of calls, each once
    begun: dict[int, tuple[Entry, int]] = {}
    for event in events(recording):
        if isinstance(event, Entry):
            found.setdefault((event.slot.process, event.slot.index), [0] * 7)[0] += 1
            begun[id(event)] = event, sums[event.slot.process, event.pid, event.tid]
        elif isinstance(event, Exit) and event.entry is not None and not event.is_inherited:
            if event.ended != "return":
                continue
            row = found[event.slot.process, event.slot.index]
            time = event.duration_ns or 0
            row[4] = min(row[4], time) if row[1] else time
            row[1] += 1
            assert event.result is not None
            row[2] += is_error(event.slot.error_rule, event.result)
            row[3] += time
            row[5] = max(row[5], time)
            ours = (event.entry.pid, event.entry.tid) == (event.pid, event.tid)
            if ours and id(event.entry) in begun:  # it returns for the first time
                thread = event.slot.process, event.pid, event.tid
                own = min(max(time - sums[thread] + begun.pop(id(event.entry))[1], 0), time)
                row[6] += own
                sums[thread] += own
    return found


def rows_of_columns(found: Columns) -> list[Row]:
    return list(
        zip(
            found.program.tolist(),
            found.pid.tolist(),
            found.tid.tolist(),
            found.slot.tolist(),
            found.time_ns.tolist(),
            found.duration_ns.tolist(),
            found.result.tolist(),
            found.errno.tolist(),
            found.return_addr.tolist(),
            found.arg0.tolist(),
            found.depth.tolist(),
            [ENDED[code] for code in found.ended.tolist()],
            found.entry_only.tolist(),
            strict=True,
        )
    )


def compare(path: Path, sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """Compare the arrays with the stream, and windows of some sizes with one of everything."""
    with RecordingFile.open(path) as recording:
        stretched = [one for batch in stream.batches(recording, stretches=True) for one in batch]
        assert stretches.rows(stretched) == stretches.rows(events(recording))
        expected = rows_of_stream(recording)
        rows = rows_of_columns(columns(recording, None))
        assert len(rows) == len(expected)
        for at, (one, other) in enumerate(zip(rows, expected, strict=True)):
            assert one == other, at
        stats = stats_of_stream(recording)
        for size in (None, *sizes):
            parts = [rows_of_columns(part) for part in batches(recording, size)]
            assert [row for part in parts for row in part] == rows, size
            found = {
                (program, slot): list(row)
                for program, slots in stats_of(recording, size).items()
                for slot, row in slots.items()
            }
            assert found == stats, size
        return rows


@contextmanager
def small_scale() -> Iterator[None]:
    """Let windows end at each pair of clocks, and fold overheads: there are few of them here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "HOLD", 0)
        patch.setattr(arrays, "_MANY", 3)
        yield


def assert_read_alike(
    directory: Path, seed: int, steps: int, killed: bool | None, **more: object
) -> list[Row]:
    """Write the recording of a program, compare the two ways to read it, and return its calls."""
    path = directory / "a.sosr"
    program = Program(path, random.Random(seed).randrange, **more)  # type: ignore[arg-type]  # as Program takes them
    for _ in range(steps):
        program.step()
        if program.block.when_full == layout.FULL_BLOCK and program.choose(200) == 0:
            program.drain()
        if program.block.when_full == layout.FULL_BLOCK and not any(
            state == layout.CHUNK_FREE for state in program.block.chunk_states()
        ):
            program.drain()
    program.finish(killed=killed)
    sizes = SIZES if steps <= LONG else SIZES[1:]
    return compare(path, (sizes[seed % len(sizes)],))
