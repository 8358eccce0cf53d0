# SPDX-License-Identifier: Apache-2.0
"""Calls in the form that exports need: times, stacks, and slices of a thread's time."""

from __future__ import annotations

from soscope.export.profiles import ExportFrame, ExportSettings, frame_of
from soscope.frames.cppnames import CppNames
from soscope.frames.names import CallFrames, Key, Place, key_of
from soscope.instruments.prof.timeline import BEGIN, END, INSTANT, ThreadTimeline, notes_of
from soscope.instruments.trace.listener import Listener
from soscope.model.call import Entry, Event, Exit, ProcessStart, StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile, ProfThread
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.instruments.trace.replay import Replay
    from soscope.model.image import TracedSlot
    from soscope.prototypes import Prototypes
    from soscope.select.filter import Selection


# The calls of a profile that were recorded one by one, for formats with times.

__all__ = ["BEGIN", "END", "INSTANT"]  # what others import from here


class CallTimes:
    """All threads with their calls; `frames` are the frames of the profile's functions.

    `program` is the command's name. `first_ns` and `last_ns` are CLOCK_REALTIME.
    """

    def __init__(self, profile: Profile, timelines: list[ThreadTimeline]) -> None:
        self.timelines = [each for each in timelines if len(each.start)]
        self.frames: list[ExportFrame] = [frame_of(function) for function in profile.functions]
        self.program = profile.command[0].rpartition("/")[2] if profile.command else ""
        self.command = " ".join(profile.command) or "profile"
        self.first_ns = min((int(each.start[0]) for each in self.timelines), default=0)
        self.last_ns = max((int(each.end.max()) for each in self.timelines), default=0)
        self._threads = profile.threads
        self._samples = len(profile.samples)

    def thread(self, timeline: ThreadTimeline) -> ProfThread:
        """Return the thread of a timeline."""
        return self._threads[timeline.thread]

    def functions(self, timeline: ThreadTimeline) -> list[int]:
        """Return the index of the frame for each call of a thread."""
        places: list[int] = timeline.functions.tolist()
        return places

    def notes(self) -> list[str]:
        """Return notes on data that are changed or missing in the output."""
        notes = notes_of(self.timelines)
        if self._samples:
            notes.append("samples have no times, and are left out: folded or pprof has them")
        return notes


def call_times_of(profile: Profile) -> CallTimes | None:
    """Return the calls of a profile, None if they were not recorded one by one."""
    return None if profile.timeline is None else CallTimes(profile, profile.timeline)


# The stacks of calls (-k) for exports: the frames between a call and the call around it.

_MOST_KEPT = 1 << 16


class ExportStacks(CallFrames):
    """The stacks of a recording, outermost frame first.

    With `names`, C++ functions have demangled names.
    """

    def __init__(self, replay: Replay, names: CppNames | None) -> None:
        super().__init__(replay.recording.programs)
        self._cpp = names
        self._written: dict[Key, list[Place]] = {}
        self._between: dict[tuple[Key, Key, TracedSlot], list[StackFrame]] = {}

    def places(self, key: Key) -> list[Place]:
        """Return frames and their addresses, innermost first, [] if nothing is known."""
        linked = super().places(key)
        if self._cpp is None or not linked:
            return linked
        known = self._written.get(key)
        if known is None:
            if len(self._written) > _MOST_KEPT:
                self._written.clear()
            known = self._written[key] = [
                (_named(frame, self._cpp), addr) for frame, addr in linked
            ]
        return known

    def whole(self, key: Key) -> list[StackFrame]:
        """Return all frames of a stack, [] if it is not known."""
        return [frame for frame, _ in reversed(self.places(key))]

    def inside(self, entry: Entry, around: Entry | None) -> list[StackFrame]:
        """Return the frames between a call and the call around it, if there is one."""
        if around is None:
            return self.whole(key_of(entry))
        return self.between(key_of(entry), key_of(around), around.slot)

    def between(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        """Return the frames of a stack inside the call of `slot`, whose own stack is `around`.

        If that call's stack is not part of this one, because a coroutine has a stack of its own,
        return all frames.
        """
        asked = key, around, slot
        known = self._between.get(asked)
        if known is None:
            if len(self._between) > _MOST_KEPT:
                self._between.clear()
            known = self._between[asked] = self._made(*asked)
        return known

    def _made(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        inner = self.places(key)
        mine = [(addr, *frame.values()) for frame, addr in inner]
        theirs = [(addr, *frame.values()) for frame, addr in self.places(around)]
        for count in range(len(mine)):
            if theirs and mine[count:] == theirs[: len(mine) - count]:
                break
        else:
            return self.whole(key)
        frames = [frame for frame, _ in reversed(inner[:count])]
        callee = slot.callee.name if slot.callee else None
        symbol = slot.symbol if self._cpp is None else self._cpp.written(slot.symbol)
        if frames and (frames[0].symbol, frames[0].image) == (symbol, callee):
            del frames[0]  # the outer call has a frame of its own
        return frames


def _named(frame: StackFrame, names: CppNames) -> StackFrame:
    if frame.symbol is None:
        return frame
    symbol = names.written(frame.symbol)
    return StackFrame(frame.image, symbol, frame.offset, frame.file, frame.line)


def stacks_of(replay: Replay, names: CppNames | None = None) -> ExportStacks | None:
    """Return the ExportStacks of a recording, None if it has no stacks."""
    return ExportStacks(replay, names) if replay.stack_depth else None


# Calls as slices of their threads' time: each ends before the call around it.
#
# Viewers of traces only support such slices. But a coroutine may leave a call open while others of
# its thread end, and events may have been lost. Then the inner calls end together with the outer
# one, and are counted in `overlapping`.

Thread = tuple[int, int]  # pid, tid


class Timeline(Listener):
    """Takes events, and reports beginnings and ends of calls to `opened` and `closed`.

    `first_ns` and `last_ns` are the times of the first and the last event, CLOCK_REALTIME. `cpp`
    demangles C++ names, and `stacks` has the stacks of calls, None if there are none. `programs`
    has the name of each process's program.
    """

    def __init__(self, replay: Replay, settings: ExportSettings) -> None:
        self.cpp = CppNames()
        self.stacks = stacks_of(replay, self.cpp)
        self.limit = settings.string_limit
        self.programs: dict[int, str] = {}
        self.overlapping = 0
        self.unended = 0
        self.first_ns = 0
        self.last_ns = 0
        self.calls = 0
        self.prototypes: Prototypes
        self._open: dict[Thread, list[Entry]] = {}
        self._latest: dict[Thread, int] = {}

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of arguments."""
        self.prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Report the calls that begin and end."""
        for event in batch:
            if isinstance(event, Entry):
                self._seen(event.time_ns)
                self.calls += 1
                thread = event.pid, event.tid
                if event.entry_only:
                    self.instant(thread, event, self._forward(thread, event.time_ns))
                else:
                    self._open.setdefault(thread, []).append(event)
                    self.opened(thread, event, self._forward(thread, event.time_ns))
            elif isinstance(event, Exit):
                if event.entry is not None and not event.is_inherited:
                    self._end(event.entry, event)
            elif isinstance(event, ProcessStart):
                self._seen(event.time_ns)
                self.started(event.pid, event.program.rpartition("/")[2])

    def end(self, outcome: TraceOutcome) -> None:
        """End the calls that are still open."""
        for thread, calls in self._open.items():
            while calls:
                self.unended += 1
                self.closed(thread, calls.pop(), None, self.last_ns)
        self.finished()

    def _seen(self, time_ns: int) -> None:
        if not self.first_ns:
            self.first_ns = time_ns
        self.last_ns = max(self.last_ns, time_ns)

    def _forward(self, thread: Thread, time_ns: int) -> int:
        """Return the time of a thread's next event, never earlier than the one before.

        Times are converted from ticks, each with its own error.
        """
        self._latest[thread] = time_ns = max(time_ns, self._latest.get(thread, 0))
        return time_ns

    def _end(self, entry: Entry, leave: Exit) -> None:
        thread = entry.pid, entry.tid
        calls = self._open.get(thread, [])
        if not any(entry is call for call in reversed(calls)):
            return  # an outer call has ended it already
        time_ns = self._forward(thread, leave.time_ns)
        self._seen(time_ns)
        while calls[-1] is not entry:
            self.overlapping += 1
            self.closed(thread, calls.pop(), None, time_ns)
        self.closed(thread, calls.pop(), leave, time_ns)

    # ---- overridden by formats ----

    def started(self, pid: int, program: str) -> None:
        """Handle the start of a program in a process."""
        self.programs[pid] = program

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Handle a call whose end could not be seen."""

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Handle the beginning of a call."""

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        """Handle the end of a call, the innermost open call of its thread.

        `leave` is None if its end is not known.
        """

    def finished(self) -> None:
        """Write the rest, after all calls have ended."""

    def notes(self) -> list[str]:
        """Return notes on data that are changed in the output."""
        notes = [] if self.cpp.lacks is None else [self.cpp.lacks]
        if self.overlapping:
            notes.append(
                f"{self.overlapping:,} calls overlap others of their thread, as coroutines do: "
                "they are shown to end with the calls around them"
            )
        if self.unended:
            notes.append(f"{self.unended:,} calls had not ended: they are shown to last to the end")
        return notes


def texts(
    prototypes: Prototypes, entry: Entry, leave: Exit | None, limit: int
) -> tuple[str, str, str]:
    """Return arguments, result and errno name of a call, as a trace prints them."""
    arguments = prototypes.format_call(entry.slot, entry.captured, limit, leave)
    result = errno = ""
    if leave is not None and leave.result is not None:
        value = prototypes.format_result(leave.slot, leave, entry, limit)
        result = "" if value is None else value.text
        code = prototypes.failure_errno(leave.slot, leave)
        errno = prototypes.errno_name(code) if code else ""
    return ", ".join([argument.shown for argument in arguments]), result, errno


def names(entry: Entry) -> tuple[str, str]:
    """Return the names of caller and callee, "" if they are not known."""
    slot = entry.slot
    return slot.caller.name if slot.caller else "", slot.callee.name if slot.callee else ""
