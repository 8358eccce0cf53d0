# SPDX-License-Identifier: Apache-2.0
"""The trace instrument, and the function that runs it in a session of its own."""

from __future__ import annotations

import time

from soscope.control.outcome import DISK, PRINT, READER
from soscope.control.session import Session
from soscope.control.settings import Hooks, Instrument
from soscope.control.signals import end_is_wanted, take_wish_to_end
from soscope.instruments.trace.listener import Destination, Listener
from soscope.instruments.trace.settings import (
    INSTRUMENTS,
    MODE_TRACE,
    File,
    TraceSettings,
    check_files,
    file_at,
)
from soscope.model.call import Delays, Event, calls_in
from soscope.prototypes import load
from soscope.recording.sink import Sink
from soscope.select.filter import compile_selection
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from soscope.control import outcome as session
    from soscope.control.flight import Flight, StackLosses
    from soscope.control.outcome import Outcome, Price, ProgramOutcome
    from soscope.instruments.trace.described import DescribedFunctions
    from soscope.instruments.trace.outcome import MergedPrograms, TraceOutcome, TraceProgramOutcome
    from soscope.model.call import Stats
    from soscope.recording.stream import Stream


# The trace instrument: the calls to hook, and what happens to the events.
#
#     settings ─ filter, prototypes ─► hooks
#     drained ─► decoder ─ events ─► listener        a program's block ─► slots, counts, statistics
#
# The listener gets the events as they are decoded. Counts and statistics are read from the block.

_SLICE = 2000  # events passed to the listener between looks at the target
_BEHIND = 8 << 20  # bytes waiting for the decoder above which the ring may fill up
_LONG = 0.4  # seconds of work after the end, from which on the user gets a note
_INTERRUPTED = 0.7  # seconds of work after an end that a signal asked for


class TraceInstrument(Instrument):
    """Observes the calls that a filter chooses. `outcome` is set when the session has ended."""

    name = "trace"

    def __init__(
        self,
        settings: TraceSettings,
        listener: Listener,
        output: Destination,
        shows: Hooks | None = None,
    ) -> None:
        """Prepare. `output` is where `listener` writes to.

        `shows` are the hooks of another instrument. If they are given, this one hooks nothing and
        shows their calls.

        Raises UsageError for a faulty filter.
        """
        self.settings = settings
        self.listener = listener
        self._output = output
        self.prototypes = load()
        if settings.prototypes:
            from soscope.prototypes.sources import add_files

            add_files(self.prototypes, settings.prototypes)
        self._recording: Sink | None = None
        self._described: DescribedFunctions | None = None
        self._losses: StackLosses | None = None  # set if stacks are wanted
        self._told = 0  # how many of the prototypes' texts are recorded
        self._unanswered = 0  # images that were not read for lack of time
        if shows is not None:
            self.selection, self._kind = shows.selection, shows.kind
        else:
            self.selection = compile_selection(
                settings.select, settings.from_, settings.to, sets=self.prototypes.groups
            )
            self._kind = INSTRUMENTS[settings.mode]
            own, size = _memory_for(settings.stacks)
            if size:
                from soscope.control.flight import StackLosses

                self._losses = StackLosses()
            self.hooks = Hooks(
                self._kind,
                self.selection,
                self.prototypes,
                entry_only=settings.entry_only,
                durations=listener.wants_durations or settings.record is not None,
                string_limit=settings.string_limit,
                own_size=size,
                own=own,
                stacks=bool(size),
                methods=bool(settings.to),
                describe=self._describe,
                describe_later=self._describe_later,
            )
        self.wants_signals = settings.mode == MODE_TRACE
        self._stream: Stream | None = None
        if settings.mode == MODE_TRACE and settings.wants_events:
            from soscope.recording.stream import Stream

            self._stream = Stream(stretches=listener.takes_stretches)
            listener.meet(self._stream.programs)
        self.hears_calls = self._stream is not None
        self._calls = 0
        self._printed_ns = 0  # time to decode calls and show them
        self._unprinted = 0  # calls that were not printed at the end
        self._tell: Callable[[str], None] | None = None
        self._is_interrupted = False
        self._programs: MergedPrograms | None = None
        # Counters as they were when soscope stopped counting.
        self._counted: dict[ControlBlock, tuple[dict[int, int] | None, Stats | None]] = {}
        self.outcome: TraceOutcome | None = None

    def options(self) -> dict[str, object]:
        """Return the options that tell what was recorded."""
        settings = self.settings
        return {
            "mode": settings.mode,
            "select": settings.select,
            "from": settings.from_,
            "to": settings.to,
            "entry_only": settings.entry_only,
            "string_limit": settings.string_limit,
            "stacks": settings.stacks,
        }

    def _describe(self, pid: int) -> None:
        """Read debug information for a program's functions without prototypes."""
        self._describer().look(pid)

    def _describe_later(self, pid: int, addr: int) -> set[str] | None:
        """Read debug information for an image that was loaded, before any of its code runs."""
        asked = self._describer().look_later(pid, addr)
        self._tell_prototypes()
        return asked

    def _describer(self) -> DescribedFunctions:
        if self._described is None:
            from soscope.instruments.trace.described import DescribedFunctions

            self._described = DescribedFunctions(self.prototypes, self.settings)
        return self._described

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Keep the recording, to which declarations of captured calls are written."""
        del beat
        self._recording = recording
        return recording

    def tell(self, recording: Sink) -> None:
        """Write the added prototypes to a recording."""
        for text in self.prototypes.texts:
            recording.prototypes(text.packed())

    def _tell_prototypes(self) -> None:
        """Write the new added prototypes to the recording."""
        if self._recording is None:
            return
        for text in self.prototypes.texts[self._told :]:
            self._recording.prototypes(text.packed())
        self._told = len(self.prototypes.texts)

    def sinks(self) -> list[Sink]:
        """Return the decoder, if events are read as they come."""
        return [] if self._stream is None else [self._stream]

    def started(self) -> None:
        """Discard the output of an earlier trace."""
        self._output.begin()

    def begun(self) -> None:
        """Tell the listener that the trace has begun."""
        self._tell_prototypes()
        self.listener.begun()

    def check_start(
        self, blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
    ) -> Iterable[str]:
        """Return the words of the filter that match nothing in the images at start."""
        missing = self.selection.unmatched(
            map(sum, zip(*(block.rules_matched(self._kind) for block in blocks), strict=True))
        )
        if not missing:
            return ()
        from soscope.instruments.trace.outcome import explain_so_far

        return explain_so_far(missing, blocks, meanwhile)

    # ---- the events ----

    def catch_up(self) -> bool:
        """Pass on events if too many wait to be decoded. Return whether there were any."""
        stream = self._stream
        return stream is not None and stream.behind > _BEHIND and self._hand_over(stream)

    def move(self) -> bool:
        """Pass on events, and tell the listener up to which time it has all of them."""
        stream = self._stream
        if stream is None:
            return False
        some = self._hand_over(stream)
        self.listener.caught_up(stream.told_until)
        return some

    def _hand_over(self, stream: Stream) -> bool:
        begun = time.monotonic_ns()
        batch = stream.take(_SLICE)
        if batch:
            self._pass_on(batch)
        self._printed_ns += time.monotonic_ns() - begun
        return bool(batch)

    @property
    def spent(self) -> Mapping[str, int]:
        """Return the time spent on printing, and on waiting for the reader of the output."""
        written = self._output.spent_ns
        to = READER if self._output.file is None else DISK
        return {PRINT: self._printed_ns - written, to: written}

    def _pass_on(self, batch: list[Event]) -> None:
        self._calls += calls_in(batch)
        self.listener.events(batch)

    @property
    def calls(self) -> int:
        """Return how many calls have been passed to the listener so far."""
        return self._calls

    def ending_soon(self, tell: Callable[[str], None] | None, *, is_interrupted: bool) -> None:
        """Keep the arguments for `finish`."""
        self._tell, self._is_interrupted = tell, is_interrupted

    def finish(self) -> list[str]:
        """Pass on all the rest, unless a signal asks soscope to end."""
        remarks = []
        if self._described is not None:
            remarks = self._described.notes
            self._described.close()
        return [*remarks, *self._finish_stream()]

    def _finish_stream(self) -> list[str]:
        """Pass on the rest of a stream, as much as there is time for.

        A ring holds a million calls, for which a listener needs half a minute. Time in which the
        reader of the output is waited for is not counted, as that may be a pager.
        """
        stream = self._stream
        if stream is None:
            return []
        stream.let_go()
        begun = time.thread_time()
        is_told = self._tell is None
        while self._hand_over(stream):
            worked = time.thread_time() - begun
            if end_is_wanted() or (self._is_interrupted and worked >= _INTERRUPTED):
                take_wish_to_end()  # the note about missing calls is still to be printed
                self._unprinted = stream.calls_left()
                return []
            if self._tell is not None and not is_told and worked >= _LONG:
                is_told = True
                if left := stream.calls_left():
                    self._tell(
                        f"finishing: {left:,} calls are left to be printed; Ctrl-C ends that"
                    )
        self._pass_on(stream.finish())
        return []

    # ---- the programs ----

    def stopped(self, block: ControlBlock) -> None:
        """Keep the present values of a program's counters."""
        self._counted[block] = _counters(block)

    def take(self, program: session.ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Keep the slots that a report may list, and the counts."""
        from soscope.instruments.trace.outcome import MergedPrograms, TraceProgramOutcome

        self._tell_prototypes()
        number, images = program.index, program.images
        if block not in self._counted:
            self._counted[block] = _counters(block)
        counts, stats = self._counted.pop(block)
        if counts is not None:
            sink.counts(number, counts)
        if stats is not None:
            sink.stats(number, stats)
        self._unanswered += block.unanswered
        if self._losses is not None:
            self._losses.take(block, self._kind)
        self._programs = self._programs or MergedPrograms()
        ran_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - block.monotonic_start
        outcome = TraceProgramOutcome(
            number,
            program.path,
            images,
            block.slots(
                number,
                images,
                chosen=self._worth_naming(block, counts or stats),
                instrument=self._kind,
            ),
            counts=counts,
            stats=stats,
            rules_matched=block.rules_matched(self._kind),
            slots_left=block.slots_left,
            loader_refused=block.loader_hook == layout.LOADER_REFUSED,
            errno_known=bool(block.agent_flags & layout.AGENT_ERRNO),
            exits_known=not block.agent_flags & layout.AGENT_NO_EXITS,
            cut=block.images_dropped + block.slots_dropped,
            call_ticks=block.cost_outer,
            usual_ticks=block.cost_call,
            doubt_ticks=block.cost_outer,
            records=self._kind == layout.INSTRUMENT_TRACE,
        )
        outcome.delays = Delays(block.delayed, block.delays_over, block.delays_unknown, ran_ns)
        self._programs.add(outcome)

    def _worth_naming(
        self, block: ControlBlock, called: Iterable[int] | None
    ) -> Iterable[int] | None:
        """Return the slots that a report may list, or None for all that the filter chose.

        All are returned if the filter lists functions, as these are few and are checked for calls
        inside their image, and if a word has matched nothing, to find near misses.
        """
        from soscope.instruments.trace.outcome import DLSYM

        words = zip(self.selection.words, block.rules_matched(self._kind), strict=True)
        if any(word.text and (not count or not word.symbol.is_any) for word, count in words):
            return None
        wanted = {*block.refused_slots(), *block.partial_slots(), *block.slots_of(DLSYM)}
        return wanted.union(called or ())

    # ---- the end ----

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Set the time that hooks added to the calls, as the agents have measured it."""
        if self._programs is not None:
            from soscope.instruments.trace.outcome import price

            price(cost, self._programs.all(), ns_per_tick, units)

    def totals(self) -> dict[str, object]:
        """Return how many calls the stream held (0 without a stream), and the losses of stacks."""
        totals: dict[str, object] = {"calls": self._calls}
        if self._losses is not None:
            totals["stacks"] = {"lost": self._losses.lost, "notes": self._losses.notes()}
        return totals

    def end(self, outcome: session.Outcome) -> None:
        """Pass the outcome of the trace to the listener."""
        from soscope.instruments.trace.outcome import TraceOutcome

        programs = [] if self._programs is None else self._programs.all()
        for program in programs:
            program.ns_per_tick = outcome.ns_per_tick
        self.outcome = TraceOutcome.of(
            outcome,
            self.selection,
            programs=programs,
            calls=None if self._stream is None else self._calls,
            imported=self._imported(programs),
        )
        if self._unprinted:
            why = "not printed, as a signal ended the trace before"
            self.outcome.dropped = [*self.outcome.dropped, (self._unprinted, why)]
        if self._unanswered:
            from soscope.instruments.trace.described import unanswered

            self.outcome.remarks.append(unanswered(self._unanswered))
        if self._losses is not None:
            from soscope.instruments.trace.listener import stack_remarks

            self.outcome.remarks += stack_remarks(self.totals())
        self.listener.end(self.outcome)
        self.outcome.shown = self.listener.shown

    def _imported(self, programs: list[TraceProgramOutcome]) -> set[str]:
        """Return what the images import, if a word of the filter has matched nothing."""
        matched = [0] * len(self.selection.words)
        for program in programs:
            for index, count in enumerate(program.rules_matched):
                matched[index] += count
        words = zip(self.selection.words, matched, strict=True)
        if not programs or not any(word.text and not count for word, count in words):
            return set()
        from soscope.control.imports import imported_functions

        return imported_functions(image.path for program in programs for image in program.images)


def _memory_for(stacks: int) -> tuple[bytes, int]:
    """Return the first bytes and the size of the memory for stacks of so many frames."""
    if not stacks:
        return b"", 0
    from soscope.live.python.offsets import agent_layouts
    from soscope.proc.status import has_xsave
    from soscope.wire.recorder import stack_memory

    return stack_memory(agent_layouts(), frames=stacks, has_xsave=has_xsave())


def _counters(block: ControlBlock) -> tuple[dict[int, int] | None, Stats | None]:
    """Return the counts and the statistics of a block, None for what it does not keep."""
    return (
        block.counts() if layout.INSTRUMENT_COUNT in block.instruments else None,
        block.stats() if layout.INSTRUMENT_STATS in block.instruments else None,
    )


# Calls that switch recording on or off. The agent's part is in gate.c.
#
# Their symbols are hooked whatever the filter of the trace is, and shown only if it chooses them.

ON, OFF = "--on", "--off"
ON_SYMBOL = "--on-symbol"  # for the flight recorder, which reads the count

_KINDS = {
    ON: layout.INSTRUMENT_OPEN,
    OFF: layout.INSTRUMENT_CLOSE,
    ON_SYMBOL: layout.INSTRUMENT_OPEN,
}


class TriggerInstrument(Instrument):
    """Opens gates (`option` is ON) or closes them (OFF) at the calls that `words` choose.

    With ON_SYMBOL calls are only counted, and no process has a gate. `calls` counts them. `words`
    are filter expressions, as for -e.
    """

    def __init__(self, option: str, words: Sequence[str]) -> None:
        """Compile the words. Raises UsageError for a faulty word."""
        self.name = option
        self.calls = 0
        self._words = words
        self._kind = _KINDS[option]
        self._matched = False
        prototypes = load()
        self.selection = compile_selection(words, sets=prototypes.groups)
        self.hooks: Hooks = Hooks(
            self._kind,
            self.selection,
            prototypes,
            entry_only=True,
            own_size=layout.TRIGGER.size,
        )

    def options(self) -> dict[str, object]:
        """Return the words, for a recording."""
        return {self.name.lstrip("-").replace("-", "_"): self._words}

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the calls of the processes of one program."""
        del program, sink
        with block.own(self._kind) as own, own.cast("Q") as words:
            self.calls += words[0] if len(words) else 0
        self._matched |= any(block.rules_matched(self._kind))

    def end(self, outcome: Outcome) -> None:
        """Add a remark if there was no such call."""
        if not self.calls:
            shown = " ".join(f"{self.name} {word}" for word in self._words)
            why = "was never called" if self._matched else "matches no call that is hooked"
            outcome.remarks.append(f"{shown} {why}")


class TraceRun:
    """One trace. `session` observes, and `instrument` turns that into calls and counts."""

    __slots__ = ("_output", "instrument", "session")

    def __init__(
        self,
        settings: TraceSettings,
        listener: Listener,
        output: Destination | None = None,
        tell: Callable[[str], None] | None = None,
        shows: Instrument | None = None,
        flown: Callable[[Flight], object] = lambda _: None,
        beside: Sequence[Instrument] = (),
    ) -> None:
        """Prepare. `output` is where `listener` writes to, and `tell` takes immediate messages.

        `shows` is an instrument whose calls are shown in place of the trace's own. `flown` is
        called with each recording of the flight recorder. `beside` are instruments that hook
        nothing.

        Raises UsageError for a faulty filter, RecordingError for --record.
        """
        self._output = output or Destination()
        self.instrument = TraceInstrument(
            settings, listener, self._output, None if shows is None else shows.hooks
        )
        instruments: list[Instrument] = [*beside, *_triggers(settings), self.instrument]
        if shows is not None:
            instruments.insert(0, shows)
        self.session = Session(settings, instruments, tell, flown)

    def run(self) -> TraceOutcome:
        """Launch the command or attach to the process, trace it, and return the outcome."""
        instrument = self.instrument
        if self._output.file or instrument.settings.record is not None:
            check_files(
                instrument.settings, [("--record", self._recording()), ("-o", self._output.file)]
            )
        self._output.attend(self.session.attend)
        instrument.listener.begin(instrument.prototypes, instrument.selection)
        self.session.run()
        assert instrument.outcome is not None
        return instrument.outcome

    def _recording(self) -> File | None:
        """Return device and inode of the recording's file, None if it does not exist yet."""
        writer, path = self.session.writer, self.instrument.settings.record
        if writer is not None:
            return writer.file

        return None if path is None else file_at(path)  # the flight recorder opens it later

    def stop(self, why: str) -> None:
        """Stop recording; the target goes on. `why` is a STOPPED_ constant or ""."""
        self.session.stop(why)


def _triggers(settings: TraceSettings) -> list[Instrument]:
    """Return the instruments that switch recording on and off at calls."""
    on_symbol = [] if settings.flight is None else settings.flight.on_symbol

    return [
        TriggerInstrument(option, words)
        for option, words in ((ON, settings.on), (OFF, settings.off), (ON_SYMBOL, on_symbol))
        if words
    ]


def run_trace(
    settings: TraceSettings,
    listener: Listener,
    output: Destination | None = None,
    tell: Callable[[str], None] | None = None,
    shows: Instrument | None = None,
) -> TraceOutcome:
    """Trace a command to its end. See `TraceRun` for the arguments.

    Raises UsageError, LaunchError, AgentError and RecordingError before the command runs.
    Afterwards it only raises what `listener` raises, and then the command goes on untraced.
    """
    return TraceRun(settings, listener, output, tell, shows).run()
