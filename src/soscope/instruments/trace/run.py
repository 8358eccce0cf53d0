# SPDX-License-Identifier: Apache-2.0
"""Run a command under the trace instrument: from settings to an outcome.

    settings ─ filter, prototypes ─► control block ─ launch ─► target
    target ─► ring ─ feed ─► recording's writer, decoder ─ events ─► listener

The loop runs in one thread, between the target's stops; whatever takes long (a listener
that prints) is done in slices, so that a signal of the target is never kept waiting.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable

from soscope.control.events import Events
from soscope.control.launch import launch
from soscope.control.program import Program
from soscope.control.supervise import Target
from soscope.instruments.trace.filter import Selection, compile_selection
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import (
    DLSYM,
    STOPPED_DURATION,
    STOPPED_FULL,
    STOPPED_LIMIT,
    AttachedOutcome,
    Outcome,
    ProgramOutcome,
    Programs,
    Stats,
)
from soscope.instruments.trace.settings import (
    MODE_COUNT,
    MODE_SUMMARY,
    MODE_TRACE,
    WHEN_FULL,
    TraceSettings,
)
from soscope.model.call import Entry, Process, ProcessExit, Signal
from soscope.prototypes import load
from soscope.recording.clock import Clock, Sampler
from soscope.recording.drain import Drainer
from soscope.recording.feed import Feed
from soscope.recording.losses import WHY, WHY_FILE_ENTRIES, WHY_FILE_EXITS
from soscope.recording.sink import Sink, Tee
from soscope.wire import layout
from soscope.wire.automaton import pack_patterns
from soscope.wire.block import ControlBlock
from soscope.wire.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.attached import Attached
    from soscope.recording.stream import Stream
    from soscope.recording.writer import Writer

_MODES = {
    MODE_COUNT: layout.MODE_COUNT,
    MODE_SUMMARY: layout.MODE_STATS,
    MODE_TRACE: layout.MODE_TRACE,
}
_SLICE = 2000  # events handed to the listener between looks at the target
_BEHIND = 8 << 20  # bytes that wait to be decoded before the ring is left to fill up
_SPARE = 4096  # chunks
_FEW_SPARE = 256
_BUSY = 0.001  # seconds to the next look when there was much
_IDLE = 0.02  # and when there was nothing for a while
_COUNT_ARRAYS = 64  # threads with counters of their own; others share
_STATS_ARRAYS = 32
_PREFAULT = 1 << 20  # bytes of the ring that are there before the target starts


class Session(Events):
    """One traced command, from its launch to its outcome."""

    def __init__(self, settings: TraceSettings, listener: Listener) -> None:
        """Prepare; raises UsageError for a faulty filter, RecordingError for --record."""
        self.settings = settings
        self.listener = listener
        self.selection: Selection = compile_selection(
            settings.select, settings.callers, settings.callees
        )
        self.prototypes = load()
        self.remarks: list[str] = []
        self.stream: Stream | None = None
        self.writer: Writer | None = None
        self._sampler = Sampler()
        self.feed = Feed(self._sink(), self._sampler)
        self.stopped = ""
        self._patterns, self._functions = self._tables()
        self._calls = 0
        # by the number of the program; the first is here before `launch` has returned
        self._drainers: dict[int, tuple[Program, Drainer]] = {}
        self._ended = Programs()
        self._lost: dict[str, int] = {}  # by reason
        self._counted: dict[int, tuple[dict[int, int] | None, Stats | None]] = {}
        self._idle = 0
        self._stop_at = 0.0
        self._target: Target | Attached | None = None
        self._attached: Attached | None = None

    def _sink(self) -> Sink:
        settings = self.settings
        sinks: list[Sink] = []
        if settings.mode == MODE_TRACE and settings.wants_events:
            from soscope.recording.stream import Stream

            self.stream = Stream()
            sinks.append(self.stream)
        if settings.record is not None:
            self.writer = self._make_writer(settings.record)
            sinks.append(self.writer)
        return sinks[0] if len(sinks) == 1 else Tee(*sinks)

    def _make_writer(self, path: str) -> Writer:
        from soscope.recording.writer import Writer

        settings = self.settings
        options: dict[str, object] = {
            "mode": settings.mode,
            "select": settings.select,
            "from": settings.callers,
            "to": settings.callees,
            "entry_only": settings.entry_only,
            "string_limit": settings.string_limit,
            "when_full": settings.when_full,
            "follow": settings.follow,
        }
        return Writer(
            path,
            command=settings.command,
            options=options,
            versions={},
            start_ns=time.time_ns(),
            limit=settings.limit,
            warn=self.remarks.append,
        )

    def _tables(self) -> tuple[bytes, bytes]:
        patterns = list(self.selection.patterns)
        functions = self.prototypes.function_table(
            patterns,
            entry_only=self.settings.entry_only,
            want_arguments=self.settings.mode == MODE_TRACE,
        )
        return pack_patterns(patterns), functions

    # ---- the control block of each program ----

    def make_block(self, path: str, descriptor: int | None = None) -> ControlBlock:
        """Make the control block for a program that is about to be executed."""
        settings = self.settings
        mode = _MODES[settings.mode]
        flags = layout.FLAG_FOLLOW if settings.follow else 0
        if settings.entry_only:
            flags |= layout.FLAG_ENTRY_ONLY
        arrays = {layout.MODE_COUNT: _COUNT_ARRAYS, layout.MODE_STATS: _STATS_ARRAYS}
        plan = Plan(
            mode=mode,
            patterns=self._patterns,
            rules=self.selection.rules,
            functions=self._functions,
            main_path=path,
            flags=flags,
            when_full=WHEN_FULL.index(settings.when_full),
            string_limit=settings.string_limit,
            chunks=settings.buffer // layout.CHUNK_SIZE if mode == layout.MODE_TRACE else 0,
            spare_chunks=_spare_chunks() if mode == layout.MODE_TRACE else 0,
            count_arrays=arrays.get(mode, 0),
        )
        block = ControlBlock.create(plan, descriptor)
        if plan.chunks:
            block.prefault(min(_PREFAULT, settings.buffer))
        return block

    # ---- what happens to the processes ----

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Pass on a start, a fork or an exec."""
        if program.block is not None and event != "fork":
            drainer = self.feed.add(program.block, program.path, pid)
            self._drainers[program.index] = program, drainer
        self.feed.event(Process(time_ns, pid, event, parent, program.path))
        self._retire()

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Pass on a signal."""
        self.feed.event(Signal(time_ns, pid, tid, signal))

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Pass on the end of a process."""
        self.feed.event(ProcessExit(time_ns, pid, status, signal))
        self._retire()

    def _retire(self) -> None:
        """Let go of programs that nobody runs any more: a script may start thousands."""
        if not self.settings.follow:
            return
        over = [one for one in self._drainers.values() if not one[1].pids]
        for program, drainer in over:
            if program.block is not None:
                self.feed.retire(drainer)
                self._take(program, program.block)
                program.block.close()
                program.block = None
            del self._drainers[program.index]

    def _take(self, program: Program, block: ControlBlock) -> None:
        """Keep what is known of a program that has ended."""
        outcome = self._program(program, block)
        if self.writer is not None:
            if outcome.counts is not None:
                self.writer.counts(outcome.index, outcome.counts)
            if outcome.stats is not None:
                self.writer.stats(outcome.index, outcome.stats)
        self._ended.add(outcome)
        for kind, count in enumerate((*block.dropped, block.dropped_exits)):
            if count and kind in WHY:
                self._lost[WHY[kind]] = self._lost.get(WHY[kind], 0) + count
        if not self.stopped and block.state == layout.STATE_STOPPED:
            self.stopped = STOPPED_FULL

    # ---- the loop ----

    def run(self) -> Outcome:
        """Launch the command, or go into the process; trace it, and say what came of it."""
        self.listener.begin(self.prototypes, self.selection)
        if self.settings.pid is not None:
            return self._run_attached(self.settings.pid)
        settings = self.settings
        self._target = launch(
            settings.command,
            self.make_block,
            follow=settings.follow,
            stay=settings.mode == MODE_TRACE,
            events=self,
        )
        if settings.duration_ns is not None:
            self._stop_at = time.monotonic() + settings.duration_ns / 1e9
        try:
            self._target.run(self.tick)
            self.feed.finish()
            self._finish_stream()
            return self._outcome(self._target)
        finally:
            if self.writer is not None:
                self.writer.close()

    def _run_attached(self, pid: int) -> Outcome:
        from soscope.control.attach import attach

        self._attached = target = attach(
            pid, self.make_block, follow=self.settings.follow, events=self
        )
        self._target = target
        if self.settings.duration_ns is not None:
            self._stop_at = time.monotonic() + self.settings.duration_ns / 1e9
        try:
            target.run(self.tick)
            if target.has_ended and target.exit is None:
                self.on_exit(pid, None, None, time.time_ns())
            self.feed.finish()
            self._finish_stream()
            return self._outcome(target)
        finally:
            if self.writer is not None:
                self.writer.close()
            for program in target.programs:
                if program.block is not None:
                    program.block.give_back()

    def tick(self) -> float:
        """Move data; return how long the loop may sleep."""
        stream = self.stream
        if stream is not None and stream.behind > _BEHIND and self._hand_over(stream):
            self.feed.beat()  # the ring fills up, and the target waits or drops
            return 0.0
        units = self.feed.drain()
        self._check_limits()
        if stream is not None and self._hand_over(stream):
            return 0.0
        if units:
            self._idle = 0
            return _BUSY
        self._idle += 1
        if self._idle == 2:
            self.listener.idle()
        return min(_BUSY * (1 << min(self._idle, 5)), _IDLE)

    def _hand_over(self, stream: Stream) -> bool:
        batch = stream.take(_SLICE)
        if batch:
            self._calls += sum(isinstance(event, Entry) for event in batch)
            self.listener.events(batch)
        return bool(batch)

    def _finish_stream(self) -> None:
        stream = self.stream
        if stream is None:
            return
        stream.let_go()
        while self._hand_over(stream):
            pass  # until nothing is left
        batch = stream.finish()
        self._calls += sum(isinstance(event, Entry) for event in batch)
        self.listener.events(batch)

    def _check_limits(self) -> None:
        if self._stop_at and time.monotonic() >= self._stop_at:
            self.stop(STOPPED_DURATION)
        elif self.writer is not None and self.writer.limit_reached:
            self.stop(STOPPED_LIMIT)

    def stop(self, why: str) -> None:
        """Record nothing more; the target goes on. `why` is a STOPPED_ constant or ""."""
        self._stop_at = 0.0
        if not self.stopped:
            self.stopped = why
            if self._attached is not None:
                self._attached.stop()  # its hooks go, and with them what is counted
                return
            for program in self._programs():
                block = program.block
                if block is None:
                    continue
                try:
                    block.command = layout.COMMAND_STOP
                    # counters go on: what they hold now is what was asked for
                    self._counted[program.index] = _counters(block)
                except ValueError:  # closed meanwhile: another thread may ask for the stop
                    continue

    def _programs(self) -> list[Program]:
        return self._target.programs if self._target is not None else []

    # ---- the end ----

    def _outcome(self, target: Target | Attached) -> Outcome:
        settings, ended = self.settings, target.exit
        for program in target.programs:
            if program.block is not None and program.index in self._drainers:
                self._take(program, program.block)
        outcome = Outcome(
            settings.command,
            self.selection,
            status=ended.status if ended else None,
            signal=ended.signal if ended else None,
            programs=self._ended.all(),
            remarks=self.remarks,
            record=settings.record if self.writer and self.writer.is_readable else None,
            untraced=[(one.path, one.reason) for one in target.programs if one.reason],
        )
        if self._attached is not None:
            outcome.attached = attached_outcome(self._attached)
        if self.stream is not None:
            outcome.calls = self._calls
        outcome.dropped = [(count, why) for why, count in self._lost.items()]
        for one in target.programs:
            if one.note:
                outcome.remarks.append(f"{one.path}: {one.note}")
        outcome.stopped = self.stopped
        outcome.imported = self._imported(outcome)
        self._close_recording(outcome)
        if settings.follow:
            outcome.remarks += self._rivals(outcome)
        self.listener.end(outcome)
        return outcome

    def _program(self, program: Program, block: ControlBlock) -> ProgramOutcome:
        number = self._drainers[program.index][1].program  # in the recording
        images = block.images(number)
        counts, stats = self._counted.get(program.index) or _counters(block)
        return ProgramOutcome(
            number,
            program.path,
            images,
            block.slots(number, images, chosen=self._worth_naming(block, counts or stats)),
            counts=counts,
            stats=stats,
            ns_per_tick=self._rate(block),
            rules_matched=block.rules_matched(),
            slots_left=block.slots_left,
            loader_refused=block.loader_hook == layout.LOADER_REFUSED,
            errno_known=bool(block.agent_flags & layout.AGENT_ERRNO),
            cut=block.images_dropped + block.slots_dropped,
        )

    def _worth_naming(
        self, block: ControlBlock, called: Iterable[int] | None
    ) -> Iterable[int] | None:
        """Return which slots a report may name; None: all, to look for near misses."""
        words = zip(self.selection.words, block.rules_matched(), strict=True)
        if any(word.text and not count for word, count in words):
            return None
        return {*(called or ()), *block.refused_slots(), *block.slots_of(DLSYM)}

    def _rate(self, block: ControlBlock) -> float:
        clock = Clock()
        clock.add(block.tsc_start, block.realtime_start, block.monotonic_start)
        clock.add(*self._sampler.sample())
        return clock.rate

    def _imported(self, outcome: Outcome) -> set[str]:
        """Look up what the images import, if a word of the filter matched nothing."""
        from soscope.instruments.trace.imports import imported_functions

        matched = [0] * len(self.selection.words)
        for program in outcome.programs:
            for index, count in enumerate(program.rules_matched):
                matched[index] += count
        words = zip(self.selection.words, matched, strict=True)
        if not outcome.programs or not any(word.text and not count for word, count in words):
            return set()
        return imported_functions(
            image.path for program in outcome.programs for image in program.images
        )

    def _close_recording(self, outcome: Outcome) -> None:
        writer = self.writer
        if writer is None:
            return
        detached = outcome.attached is not None and not outcome.attached.has_ended
        writer.end(
            complete=not outcome.stopped,
            why=outcome.stopped or ("detached" if detached else "exit"),
            status=outcome.status,
            signal=outcome.signal,
            totals={"calls": outcome.calls or 0},
        )
        lost = [(writer.lost_entries, WHY_FILE_ENTRIES), (writer.lost_exits, WHY_FILE_EXITS)]
        if self.stream is None:
            outcome.dropped += [(count, why) for count, why in lost if count]
        else:  # what is printed has them
            outcome.remarks += [f"{count:,} events lost: {why}" for count, why in lost if count]

    @staticmethod
    def _rivals(outcome: Outcome) -> list[str]:
        """Name the followed programs that trace others, which have a tracer already."""
        from soscope.instruments.trace.imports import imported_functions

        paths = dict.fromkeys(one.path for one in outcome.programs)
        return [
            f"{path}: what it starts it cannot trace, because -f does"
            for path in paths
            if "ptrace" in imported_functions([path])
        ]


def attached_outcome(target: Attached) -> AttachedOutcome:
    """Return what is to be said of a process that goes on without us."""
    taken = target.taken
    return AttachedOutcome(
        target.pid,
        has_ended=target.has_ended,
        executed=target.executed,
        longest_stop_ns=target.longest_stop,
        restored=taken.restored if taken else 0,
        kept=taken.kept if taken else 0,
        left=len(taken.left) if taken else 0,
        failure=target.failure,
    )


def _counters(block: ControlBlock) -> tuple[dict[int, int] | None, Stats | None]:
    """Return the counts or the statistics of a block, whichever it keeps."""
    return (
        block.counts() if block.mode == layout.MODE_COUNT else None,
        block.stats() if block.mode == layout.MODE_STATS else None,
    )


def _spare_chunks() -> int:
    """Return for how many threads there is a chunk where the buffer has none left.

    They take room in the address space and in the shared file; pages of it are made when
    they are needed. Where either is limited, the limit is the command's, too.
    """
    limits = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
    if any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits):
        return _FEW_SPARE
    return _SPARE


def run_trace(settings: TraceSettings, listener: Listener) -> Outcome:
    """Trace a command to its end.

    Raises UsageError, LaunchError, AgentError and RecordingError before the command runs;
    afterwards nothing but what `listener` raises, and then the command goes on untraced.
    """
    return Session(settings, listener).run()
