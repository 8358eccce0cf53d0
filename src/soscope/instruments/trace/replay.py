# SPDX-License-Identifier: Apache-2.0
"""Show a recording of calls, or name the requested data that the recording lacks."""

from __future__ import annotations

import os

from soscope.control.outcome import (
    STOPPED_DURATION,
    STOPPED_FULL,
    STOPPED_LIMIT,
    ChildPrograms,
    Price,
)
from soscope.errors import FormatError, SoscopeError, UsageError
from soscope.instruments.trace.choice import Choice, rules_about
from soscope.instruments.trace.filters import choose
from soscope.instruments.trace.listener import Listener, stack_remarks
from soscope.instruments.trace.outcome import (
    STOPPED_CUT,
    MergedPrograms,
    TraceOutcome,
    TraceProgramOutcome,
    explain_unmatched,
)
from soscope.instruments.trace.settings import DEFAULT_STRING_LIMIT, INSTRUMENTS, MODE_TRACE
from soscope.model.call import ENDED_RETURN, Entry, Event, Exit, Stats, Stretch, calls_in
from soscope.model.image import TracedSlot, is_error
from soscope.prototypes import Prototypes, load
from soscope.recording.names import RecordedProgram
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import batches
from soscope.select.filter import Selection, compile_selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Notes about what a reader asks for and a recording does not contain.


def lacking(choice: Choice, options: dict[str, object], recording: RecordingFile) -> list[str]:
    """Return a line for each missing thing that a choice needs.

    `options` are the options that the recording was made with.
    """
    lines = []
    if options.get("entry_only") and choice.asks_of_end:
        lines.append(
            "the recording has no ends of calls (--entry-only):"
            " what asks for results or durations chooses none"
        )
    selection = choice.selection
    if selection is None:
        return lines
    slots = recording.slots
    about = [rules_about(selection, slot) for slot in slots]
    matched = [sum(column) for column in zip(*about, strict=True)] or [0] * len(selection.words)
    missing = explain_unmatched(
        selection, matched, [slot.symbol for slot in slots], recording.images
    )
    if missing:
        made = [
            f"{option} {word}"
            for option, name in (("-e", "select"), ("--from", "from"), ("-l", "to"))
            if isinstance(words := options.get(name), list)
            for word in words
        ]
        said = f"with {' '.join(made)}" if made else "of the program's own calls"
        lines += [f"{line} (in the recording, which was made {said})" for line in missing]
    return lines


_WANTED = (STOPPED_DURATION, STOPPED_LIMIT, STOPPED_FULL)


class Replay:
    """An open recording. `mode` tells what was recorded (see settings.MODE_).

    `has_several` means that it began with more than one process. `injected` are the seed and the
    rules of an injection, None if there was none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | RecordingFile,
        prototypes: Sequence[str] | None = None,
    ) -> None:
        """Open it, or take one that is open. `prototypes` are declarations for showing calls.

        Raises FormatError, UsageError, or RecordingError, also if the recording is about
        something else.
        """
        self.recording = path if isinstance(path, RecordingFile) else RecordingFile.open(path)
        self.recording.expect("trace")
        self._options: dict[str, object] = self.recording.options
        self.mode = str(self._options.get("mode") or MODE_TRACE)
        command = self.recording.meta.get("command")
        self.command = [str(word) for word in command] if isinstance(command, list) else []
        self.selection = self._selection()
        self.has_several = len(self._words("processes")) > 1
        self.injected = self._injected()
        self._remarks: list[str] = []
        try:
            self._prototypes = self._known(prototypes or [])
        except BaseException:
            self.close()
            raise

    @property
    def has_calls(self) -> bool:
        """Return whether single calls were recorded."""
        return self.mode == MODE_TRACE

    @property
    def is_empty(self) -> bool:
        """Return whether there are no calls at all."""
        return not any(calls_in(batch) for batch in batches(self.recording, stretches=True))

    @property
    def stack_depth(self) -> int:
        """Return how many frames were kept of each call's stack, 0 if there are no stacks."""
        kept = self._options.get("stacks")
        return kept if isinstance(kept, int) else 0

    def lacks_shown(self, *, depth: int, string_limit: int, has_durations: bool) -> list[str]:
        """Return notes about missing frames (of `depth`), cut strings, or missing durations."""
        lines = []
        if depth and not self.stack_depth:
            lines.append(
                "the recording has no stacks: soscope trace -k --record FILE ... keeps them"
            )
        elif self.stack_depth < depth:
            lines.append(f"stacks were recorded with --stack-depth {self.stack_depth}")
        kept = self._options.get("string_limit")
        if isinstance(kept, int) and max(kept, DEFAULT_STRING_LIMIT) < string_limit:
            lines.append(f"strings were recorded with -s {kept}: what is behind that was not kept")
        if has_durations and self._options.get("entry_only"):
            lines.append("the recording has no ends of calls (--entry-only), so no durations")
        return lines

    def close(self) -> None:
        """Close the file."""
        self.recording.close()

    def run(
        self,
        listener: Listener,
        is_heard: Callable[[], bool] = lambda: True,
        choice: Choice | None = None,
    ) -> TraceOutcome:
        """Pass everything that `choice` chooses to `listener`. Return the outcome.

        This can be done once. Reading stops when `is_heard` returns False. Raises UsageError if
        the recording does not contain what `choice` needs.
        """
        if self.mode != MODE_TRACE:
            return self.summarize(listener, is_heard, choice)
        self._look_at_end(choice)
        listener = choose(listener, choice)
        listener.meet(self.recording.programs)
        listener.begin(self._prototypes, self._shown_selection(choice))
        outcome = self._outcome(self._events(listener, is_heard), choice)
        listener.end(outcome)
        outcome.shown = listener.shown
        return outcome

    def _events(self, listener: Listener, is_heard: Callable[[], bool]) -> int:
        """Pass all events to `listener`. Return how many calls there were."""
        calls = 0
        for batch in batches(self.recording, stretches=listener.takes_stretches):
            calls += calls_in(batch)
            listener.events(batch)
            if not is_heard():
                break
        return calls

    def summarize(
        self,
        listener: Listener,
        is_heard: Callable[[], bool] = lambda: True,
        choice: Choice | None = None,
        *,
        durations: bool = False,
    ) -> TraceOutcome:
        """Pass only the outcome to `listener`, with the statistics of the calls.

        With `durations`, it also has the distribution of durations, if single calls were
        recorded. Raises UsageError if the recording does not contain what `choice` needs.
        """
        if self.mode != MODE_TRACE and choice is not None and not choice.by_slot_alone:
            raise UsageError(
                "the recording holds sums and no calls: -e, --from and -l choose rows of them,"
                " and nothing else can be asked",
                hint="record calls: soscope trace --record FILE without -c and --count-only",
            )
        self._look_at_end(choice)
        listener.begin(self._prototypes, self._shown_selection(choice))
        stats = spent = calls = shown = None
        remarks: list[str] = []
        if choice is None or choice.by_slot_alone:
            stats, spent = self._reduced(durations=durations)
        else:
            sums = SumsListener()
            chosen = choose(sums, choice)
            chosen.begin(self._prototypes, self.selection)
            calls = self._events(chosen, is_heard)
            ended = TraceOutcome([], self.selection)
            chosen.end(ended)
            stats, shown, remarks = sums.stats(), chosen.shown, ended.remarks
            spent = sums.durations() if durations else None
            remarks.append("times are the times of whole calls: they contain the calls inside")
        outcome = self._outcome(calls, choice, stats, spent)
        outcome.remarks += remarks
        if choice is not None:
            for program in outcome.programs:
                _leave(program, choice)
        outcome.shown = shown
        listener.end(outcome)
        return outcome

    def _look_at_end(self, choice: Choice | None) -> None:
        """Set the start of the choice's last period, which counts back from the end."""
        if choice is not None and choice.last_ns is not None:
            clock = self.recording.clock
            choice.earliest_ns = max(clock.time_ns(clock.newest) - choice.last_ns, 0)

    def _shown_selection(self, choice: Choice | None) -> Selection:
        """Return the filter that determines the form of lines, the reader's own if there is one."""
        return self.selection if choice is None or choice.selection is None else choice.selection

    def _outcome(
        self,
        calls: int | None,
        choice: Choice | None,
        stats: dict[int, Stats] | None = None,
        durations: dict[int, dict[int, dict[int, int]]] | None = None,
    ) -> TraceOutcome:
        """Return `outcome`, with remarks about what `choice` needs and the recording lacks."""
        outcome = self.outcome(calls, stats, durations)
        if choice is not None:
            outcome.remarks += lacking(choice, self._options, self.recording)
        return outcome

    def _known(self, files: Sequence[str]) -> Prototypes:
        """Return soscope's prototypes, with prototypes from the recording and from files."""
        prototypes = load()
        texts = self.recording.prototypes
        if texts:
            from soscope.prototypes.sources import SourceText

            for packed in texts:
                text = SourceText.unpacked(packed)
                if text is None:  # from another version
                    continue
                try:
                    prototypes.add(text, [])
                except FormatError as error:
                    self._remarks.append(f"{self.recording.path}: declarations in it: {error}")
        if files:
            from soscope.prototypes.sources import add_files

            add_files(prototypes, files)
        return prototypes

    def _injected(self) -> dict[str, object] | None:
        said = self.recording.totals.get("inject") or self._options.get("inject")
        return said if isinstance(said, dict) else None

    def _words(self, name: str) -> list[str]:
        words = self._options.get(name)
        return [str(word) for word in words] if isinstance(words, list) else []

    def _selection(self) -> Selection:
        """Compile the recorded filter again, which determines the form of lines."""
        try:
            return compile_selection(
                self._words("select"),
                self._words("from"),
                self._words("to"),
                sets=lambda: load().groups(),
            )
        except SoscopeError:  # from another version, or damaged
            return compile_selection([], ["all"])

    def _reduced(
        self, *, durations: bool
    ) -> tuple[dict[int, Stats] | None, dict[int, dict[int, dict[int, int]]] | None]:
        """Return statistics and durations of single calls, None as described in `summarize`."""
        if self.mode != MODE_TRACE:
            return None, None
        from soscope.recording.reduce import stats_of

        if not durations:
            return stats_of(self.recording), None
        from soscope.recording.reduce import Durations

        tables: dict[int, Durations] = {}
        stats = stats_of(self.recording, durations=tables)
        return stats, {program: table.rows() for program, table in tables.items()}

    def outcome(
        self,
        calls: int | None,
        stats: dict[int, Stats] | None = None,
        durations: dict[int, dict[int, dict[int, int]]] | None = None,
    ) -> TraceOutcome:
        """Return the outcome of the trace. `stats` are statistics of the calls, in ns, by program.

        `durations` are numbers of returns, by program, slot and class.
        """
        recording = self.recording
        end = recording.end or {}
        why = recording.why
        stopped = ""
        remarks = [*recording.lacking, *self._remarks, *stack_remarks(recording.totals)]
        if not recording.complete:
            stopped = why if why in _WANTED else STOPPED_CUT
        if recording.damage is not None:
            remarks.append(f"{recording.path}: {recording.damage}")
        made = TraceOutcome(
            self.command,
            self.selection,
            status=_number(end.get("status")),
            signal=_number(end.get("signal")),
            programs=self.programs(stats, durations),
            calls=calls,
            dropped=recording.losses.messages(),
            stopped=stopped,
            remarks=remarks,
            untraced=_untraced(end.get("untraced")),
        )
        made.lacking, made.is_left = recording.lacking, bool(end.get("left"))
        made.ns_per_tick = recording.clock.rate
        made.cost = Price.of(end.get("cost"))
        made.executed = ChildPrograms.of(end.get("executed"))
        made.arch, made.engine = str(end.get("arch") or ""), str(end.get("engine") or "")
        return made

    def programs(
        self,
        stats: dict[int, Stats] | None = None,
        durations: dict[int, dict[int, dict[int, int]]] | None = None,
    ) -> list[TraceProgramOutcome]:
        """Return the outcome of each program. The arguments are the same as for `outcome`."""
        merged = MergedPrograms()
        for program in self.recording.programs.all():
            outcome = self._program(program)
            if stats is not None:
                outcome.stats = stats.get(program.index, {})
                outcome.doubt_ticks *= outcome.ns_per_tick  # ns are the ticks of statistics
                outcome.ns_per_tick = 1.0
            if durations is not None:
                outcome.durations = durations.get(program.index, {})
            merged.add(outcome)
        return merged.all()

    def _program(self, program: RecordedProgram) -> TraceProgramOutcome:
        matched = _rules_matched(program.facts)
        if self.injected is not None:  # these numbers belong to the filter of the injection
            matched = [1] * len(self.selection.words)
        stats = self.recording.stats.get(program.index)
        outcome = TraceProgramOutcome(
            program.index,
            program.path,
            list(program.images().values()),
            program.slots(),
            counts=self.recording.counts.get(program.index),
            stats=stats,
            ns_per_tick=self.recording.clock.rate,
            rules_matched=matched,
            slots_left=program.fact("slots_left"),
            loader_refused=program.fact("loader_hook") == layout.LOADER_REFUSED,
            errno_known=bool(program.fact("agent_flags") & layout.AGENT_ERRNO),
            exits_known=not program.fact("agent_flags") & layout.AGENT_NO_EXITS,
            call_ticks=program.fact("cost_outer"),
            doubt_ticks=program.fact("cost_outer"),
            records=_records(program.facts),
        )
        outcome.delays = program.delays(self.recording.clock)
        return outcome


def _leave(program: TraceProgramOutcome, choice: Choice) -> None:
    """Remove the counts of slots that are not chosen."""
    chosen = {slot.index for slot in program.slots if choice.takes_slot(slot)}
    for name in ("counts", "stats", "durations"):
        of_slots = getattr(program, name)
        if of_slots is not None:
            kept = {slot: what for slot, what in of_slots.items() if slot in chosen}
            setattr(program, name, kept)


def _untraced(value: object) -> list[tuple[str, str]]:
    """Return the programs without the agent that the file lists, as (path, reason)."""
    pairs = value if isinstance(value, list) else []
    return [
        (str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2
    ]


def _rules_matched(facts: dict[str, object]) -> list[int]:
    """Return how many slots each rule of this instrument matched, [] if that is not recorded."""
    kinds, matched = facts.get("instruments"), facts.get("rules_matched")
    if not isinstance(kinds, list) or not isinstance(matched, list):
        return []
    for kind, counts in zip(kinds, matched, strict=False):
        if kind in INSTRUMENTS.values() and isinstance(counts, list):
            return [count if type(count) is int else 0 for count in counts]
    return []


def _records(facts: dict[str, object]) -> bool:
    """Return whether each call was recorded."""
    kinds = facts.get("instruments")
    return isinstance(kinds, list) and layout.INSTRUMENT_TRACE in kinds


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


# Add up single calls by slot, for choices that arrays cannot make.


class SumsListener(Listener):
    """Takes calls and adds up their statistics as `trace -c` does, in ns.

    Own times are missing, as calls inside of them may not have been chosen.
    """

    takes_stretches = True

    def __init__(self) -> None:
        from soscope.recording.reduce import class_of  # and numpy, which other replays do without

        self._class_of = class_of
        # Numbers of calls, returns and errors, then the total, least and most nanoseconds.
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._classes: dict[tuple[int, int], dict[int, int]] = {}

    def events(self, batch: list[Event]) -> None:
        """Add entries and exits of calls."""
        for event in batch:
            if isinstance(event, Entry):
                self._cell(event.slot)[0] += 1
            elif isinstance(event, Exit):
                # A forked child's return from a call of its parent is no call of its own.
                result = None if event.is_inherited else event.result
                if event.ended == ENDED_RETURN and result is not None:
                    self._return(event.slot, event.duration_ns or 0, result)
            elif isinstance(event, Stretch):
                even = event.piece[4]
                for _, ticks, slot, _, result, *_ in event.calls:
                    self._cell(slot)[0] += 1
                    self._return(slot, int(ticks * even // 1), result)

    def stats(self) -> dict[int, Stats]:
        """Return the statistics by program, then by slot."""
        by_program: dict[int, Stats] = {}
        for (program, slot), cell in self._cells.items():
            calls, returns, errors, total, least, most = cell
            cell_of = by_program.setdefault(program, {})
            cell_of[slot] = calls, returns, errors, total, least, most, None
        return by_program

    def durations(self) -> dict[int, dict[int, dict[int, int]]]:
        """Return numbers of returns by program, slot and class of duration."""
        by_program: dict[int, dict[int, dict[int, int]]] = {}
        for (program, slot), classes in self._classes.items():
            by_program.setdefault(program, {})[slot] = classes
        return by_program

    def _cell(self, slot: TracedSlot) -> list[int]:
        key = slot.process, slot.index
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = [0] * 6
        return cell

    def _return(self, slot: TracedSlot, spent: int, result: int) -> None:
        cell = self._cell(slot)
        if not cell[1] or spent < cell[4]:
            cell[4] = spent
        cell[1] += 1
        cell[2] += is_error(slot.error_rule, result)
        cell[3] += spent
        cell[5] = max(cell[5], spent)
        classes = self._classes.setdefault((slot.process, slot.index), {})
        index = self._class_of(max(spent, 0))
        classes[index] = classes.get(index, 0) + 1
