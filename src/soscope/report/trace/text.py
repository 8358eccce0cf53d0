# SPDX-License-Identifier: Apache-2.0
"""The trace as text, in the form of ltrace.

A call is held back until it is known what comes next. If that is its own end, both become one
line. If not, the line is closed with `<unfinished ...>` and the end becomes a line of its own.
This file processes every event, so it formats with as little work as possible.
"""

from __future__ import annotations

from time import localtime, strftime

from soscope.instruments.trace.settings import Listener
from soscope.model.call import (
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_RETURN,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
    printable,
)
from soscope.model.image import TracedSlot, is_error
from soscope.proc.status import signal_name
from soscope.prototypes import Prototypes
from soscope.report.output import Output
from soscope.report.trace.display import (
    TIME_EPOCH,
    TIME_MICROSECONDS,
    TIME_NONE,
    Display,
    FunctionNames,
    wants_colour,
)
from soscope.report.trace.stretchtext import StretchText, duration
from soscope.report.words import ending, plural, signal_text
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.recording.names import Programs
    from soscope.report.trace.adorned import Adorned


# The times at the beginning of lines.


class LineClock:
    """Formats the times of lines. The text of a second is made once.

    `mode` is one of the TIME_ constants of `display`. With `relative`, the time since the line
    before comes first.
    """

    __slots__ = ("_before", "_mode", "_relative", "_second", "_text")

    def __init__(self, mode: int, *, relative: bool = False) -> None:
        self._mode = mode
        self._relative = relative
        self._before = -1  # ns of the line before
        self._second = -1
        self._text = ""

    def text(self, time_ns: int) -> str:
        """Return the time of a line, followed by a blank."""
        if not self._relative:
            return self._time(time_ns)
        # A filter may show a call after calls inside of it, whose times are later.
        spent = max(time_ns - self._before, 0) if self._before >= 0 else 0
        self._before = time_ns
        seconds, ns = divmod(spent, 1_000_000_000)
        rest = "" if self._mode == TIME_NONE else self._time(time_ns)
        return f"{seconds:3}.{ns // 1000:06} {rest}"

    def _time(self, time_ns: int) -> str:
        second, ns = divmod(time_ns, 1_000_000_000)
        if self._mode == TIME_EPOCH:
            return f"{second}.{ns // 1000:06} "
        if second != self._second:
            self._second = second
            self._text = strftime("%H:%M:%S", localtime(second))
        if self._mode == TIME_MICROSECONDS:
            return f"{self._text}.{ns // 1000:06} "
        return f"{self._text} "


_MOST_HEADS = 1 << 16  # slots are new objects when images come, so old ones are forgotten

LONG = 100_000_000  # nanoseconds; longer calls are shown before they end
_UNFINISHED = " <unfinished ...>"
_NO_RETURN = " <no return ...>"

# Functions that never return, so nothing is missing if their end was not seen.
NO_RETURN = frozenset(
    "exit _exit _Exit quick_exit abort pthread_exit thrd_exit longjmp _longjmp siglongjmp "
    "__longjmp_chk __libc_longjmp __libc_siglongjmp setcontext err errx verr verrx "
    "__assert_fail __assert_perror_fail __assert __stack_chk_fail __fortify_fail __chk_fail "
    "__cxa_throw __cxa_rethrow _Unwind_Resume __libc_start_main _ZSt9terminatev".split()
)


class TextListener(Listener):
    """Writes a line for each call, signal and end of a process."""

    takes_stretches = True

    def __init__(self, output: Output, display: Display) -> None:
        self._output = output
        self._limit = display.string_limit
        self._names = FunctionNames(display)
        self._durations = display.durations
        is_timed = display.time != TIME_NONE or display.relative
        self.wants_durations = display.durations or is_timed
        self._clock = LineClock(display.time, relative=display.relative) if is_timed else None
        self._padding = max(display.column - 1, 0)
        self._elements = display.elements
        self._adorned: Adorned | None = None
        is_coloured = wants_colour(display.colour, output)
        if is_coloured or display.is_adorned:
            from soscope.report.trace.adorned import Adorned

            self._adorned = Adorned(display, is_coloured=is_coloured)
        self.takes_stretches = self.takes_stretches and self._adorned is None
        self._names_caller = False
        self._prototypes: Prototypes
        self._heads: dict[TracedSlot, str] = {}  # the text before the arguments
        self._several = display.several  # whether there are several threads or processes
        self._tid = 0  # the only thread so far
        self._open: Entry | None = None  # the call that is held back
        self._shown = ""  # the part of its line that is written already
        self._parts: list[str] = []  # lines to be written

    def meet(self, programs: Programs) -> None:
        """Take the programs, which have the places of calls."""
        if self._adorned is not None:
            self._adorned.programs = programs

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of calls."""
        self._prototypes = prototypes
        if self._elements is not None:
            prototypes.show_elements(self._elements)
        self._names_caller = selection.names_caller
        self._stretches = StretchText(prototypes, self._limit, self._head, self._result)

    def events(self, batch: list[Event]) -> None:
        """Add the lines of events, and write complete ones."""
        plain = self._clock is None  # lines begin with "[pid N] " at most
        heads, add, result_of = self._heads, self._parts.append, self._result
        texts_of, limit, durations = self._prototypes.format_texts, self._limit, self._durations
        padding, is_adorned = self._padding, self._adorned is not None
        for event in batch:
            if isinstance(event, Exit):
                entry = event.entry
                if (
                    entry is None
                    or entry is not self._open
                    or self._shown
                    or event.ended != ENDED_RETURN
                    or event.tid != entry.tid
                    or is_adorned
                ):
                    self._exit(event)
                    continue
                # Most calls: the end of the previous call, in one line with it.
                self._open = None
                slot = entry.slot
                texts = texts_of(slot, entry.captured, limit, event)
                line = f"{heads.get(slot) or self._head(slot)}{', '.join(texts)}) "
                if self._several or not plain or entry.tid != self._tid:
                    line = self._start(entry.time_ns, entry.tid) + line
                if durations:
                    add(f"{line:{padding}}= {result_of(event)}{_duration(event)}")
                else:
                    add(f"{line:{padding}}= {result_of(event)}\n")
            elif isinstance(event, Entry):
                if self._open is not None:
                    self._close(_UNFINISHED)
                if event.entry_only:
                    self._entry_only(event)
                else:
                    self._open = event
            elif isinstance(event, Stretch):
                self._stretch(event)
            else:
                self._other(event)
        self._write()

    def _stretch(self, stretch: Stretch) -> None:
        """Add the lines of calls each of which has returned before the next one."""
        if self._open is not None:
            self._close(_UNFINISHED)
        whose = self._whose(stretch.tid)
        time = self._clock.text if self._clock is not None else None
        self._stretches.add(
            self._parts, stretch, whose, self._padding - len(whose), time, self._durations
        )

    def caught_up(self, time_ns: int) -> None:
        """Show the open call of the target, as far as it is known."""
        entry = self._open
        if entry is not None and not self._shown and time_ns - entry.time_ns >= LONG:
            self._shown = self._begun(entry)
            self._output.write(self._shown)

    def end(self, outcome: TraceOutcome) -> None:
        """Close a call that is held back."""
        self._close(_UNFINISHED)
        self._write()

    def _write(self) -> None:
        if self._parts:
            self._output.write("".join(self._parts))
            self._parts.clear()

    # ---- parts of lines ----

    def _start(self, time_ns: int, tid: int) -> str:
        """Return the beginning of a line."""
        start = self._whose(tid)
        return start if self._clock is None else start + self._clock.text(time_ns)

    def _whose(self, tid: int) -> str:
        """Return the text for a thread, if there are several."""
        if tid != self._tid:
            self._several |= self._tid != 0
            self._tid = tid
        return f"[pid {tid}] " if self._several else ""

    def _head(self, slot: TracedSlot) -> str:
        """Return the name of a function up to the parenthesis, and remember it."""
        symbol = self._names.short(slot.symbol)
        if self._adorned is not None:
            symbol = self._adorned.symbol(symbol)
        head = f"{symbol}("
        if self._names_caller:
            head = f"{printable(slot.caller.label) if slot.caller else '?'}->{head}"
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        self._heads[slot] = head
        return head

    def _begun(self, entry: Entry) -> str:
        """Return a line up to the arguments that are known before the call returns."""
        known = self._prototypes.known_at_entry(entry.slot)
        texts = self._texts(entry, None)
        shown = ", ".join(texts[:known])
        if known and len(texts) > known:
            shown += ", "
        return f"{self._start_of(entry)}{shown}"

    def _texts(self, entry: Entry, leave: Exit | None) -> list[str]:
        """Return the arguments of a call as text."""
        arguments = self._prototypes.format_call(entry.slot, entry.captured, self._limit, leave)
        if self._adorned is not None:
            return self._adorned.texts(entry, arguments)
        return [argument.shown for argument in arguments]

    def _start_of(self, entry: Entry) -> str:
        """Return the line of a call up to its arguments."""
        slot = entry.slot
        lead = "" if self._adorned is None else self._adorned.lead(entry)
        start = self._start(entry.time_ns, entry.tid)
        return f"{start}{lead}{self._heads.get(slot) or self._head(slot)}"

    def _result(self, leave: Exit) -> str:
        """Return the text behind the equals sign."""
        text, failed = self._plain_result(leave)
        return text if self._adorned is None else self._adorned.result(leave, text, failed=failed)

    def _plain_result(self, leave: Exit) -> tuple[str, bool]:
        """Return the result of a call, and whether it means failure."""
        if leave.ended != ENDED_RETURN:
            return f"<{leave.ended}>", False
        slot, prototypes = leave.slot, self._prototypes
        result = prototypes.format_result(slot, leave, leave.entry, self._limit)
        if result is None:
            return "<void>", False
        if slot.error_rule and leave.result is not None:
            errno = prototypes.failure_errno(slot, leave)
            if errno:
                name, text = prototypes.errno_name(errno), prototypes.errno_text(errno)
                return f"{result.text} {name} ({text})", True
            return result.text, is_error(slot.error_rule, leave.result)
        return result.text, False

    # ---- lines ----

    def _entry_only(self, entry: Entry) -> None:
        """Add the line of a call whose end is not recorded."""
        shown = ", ".join(self._texts(entry, None))
        ends = _NO_RETURN if entry.slot.symbol in NO_RETURN else ")"
        line = f"{self._start_of(entry)}{shown}{self._end_of(entry, ends)}\n"
        self._parts.append(line + self._below(entry))

    def _below(self, entry: Entry) -> str:
        """Return the lines below the line of a call."""
        return "" if self._adorned is None else self._adorned.below(entry)

    def _end_of(self, entry: Entry, ends: str) -> str:
        """Return the end of the line of a call whose end is not recorded."""
        del entry
        return ends

    def _exit(self, leave: Exit) -> None:
        """Add the end of a call, behind its beginning if nothing came in between."""
        entry = leave.entry
        ended = leave.ended
        if entry is None:  # the call's entry was lost, and counted as lost
            return
        if entry is not self._open or leave.tid != entry.tid:
            # The open calls of a process that ends are not worth a line each.
            if ended != ENDED_EXIT and ended != ENDED_KILLED:  # noqa: PLR1714  on every call's path
                self._resumed(leave)
            return
        if ended in (ENDED_EXIT, ENDED_KILLED):
            self._close(_NO_RETURN if ended == ENDED_EXIT else _UNFINISHED)
            return
        slot, written = entry.slot, self._shown
        texts = self._texts(entry, leave)
        if written:
            known = self._prototypes.known_at_entry(slot)
            late = "" if known is None else ", ".join(texts[known:])
            line = f"{written}{late}"
        else:
            line = f"{self._start_of(entry)}{', '.join(texts)}"
        self._open, self._shown = None, ""
        self._finish(line, leave, len(written))
        self._parts.append(self._below(entry))

    def _resumed(self, leave: Exit) -> None:
        """Add the line of a call that ends after other lines."""
        if self._open is not None:
            self._close(_UNFINISHED)
        slot, entry, late = leave.slot, leave.entry, ""
        known = self._prototypes.known_at_entry(slot)
        if known is not None and entry is not None and not leave.is_inherited:
            late = ", ".join(self._texts(entry, leave)[known:])
        symbol, lead = self._names.short(slot.symbol), ""
        if self._adorned is not None:
            symbol = self._adorned.symbol(symbol)
            lead = "" if entry is None else self._adorned.lead(entry)
        line = f"{self._start(leave.time_ns, leave.tid)}{lead}<... {symbol} resumed> {late}"
        self._finish(line, leave, 0)

    def _finish(self, line: str, leave: Exit, written: int) -> None:
        """Add a line with its result, without the characters that are written already."""
        line = f"{line}) "
        hidden = 0 if self._adorned is None else self._adorned.hidden(line)
        line = f"{line:{self._padding + hidden}}= {self._result(leave)}"
        line += _duration(leave) if self._durations else "\n"
        self._parts.append(line[written:])

    def _close(self, how: str) -> None:
        """End the line of the call that is held back, without its result."""
        entry, written = self._open, self._shown
        if entry is not None:
            line = written or self._begun(entry)
            if line.endswith(" "):
                how = how.lstrip()
            self._parts.append(f"{line[len(written) :]}{how}\n{self._below(entry)}")
            self._open, self._shown = None, ""

    def _other(self, event: Event) -> None:
        """Add the line of an event that is no call."""
        if isinstance(event, ProcessStart):
            if event.event == "exec":
                self._tell(event.time_ns, event.pid, "--- Called exec() ---")
            elif event.event == "fork":
                self._several = True
        elif isinstance(event, Signal):
            name, text = signal_name(event.signal), signal_text(event.signal)
            self._tell(event.time_ns, event.tid, f"--- {name} ({text}) ---")
        elif isinstance(event, ProcessExit):
            self._tell(event.time_ns, event.pid, ending(event.status, event.signal))
        elif isinstance(event, Dropped):
            self._close(_UNFINISHED)
            self._parts.append(f"--- {plural(event.count, 'event')} dropped: {event.why} ---\n")

    def _tell(self, time_ns: int, tid: int, text: str) -> None:
        self._close(_UNFINISHED)
        self._parts.append(f"{self._start(time_ns, tid)}{text}\n")


def _duration(leave: Exit) -> str:
    """Return the duration of a call, if known, as the end of its line."""
    return "\n" if leave.duration_ns is None else duration(leave.duration_ns)
