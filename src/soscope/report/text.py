# SPDX-License-Identifier: Apache-2.0
"""The trace as text, in ltrace's vocabulary and shape.

A call is held back until it is known what comes next: if that is its own end, both make
one line; if not, the line is closed with `<unfinished ...>` and the end becomes a line of
its own. This file is on the path of every event: it formats with as little as it can.
"""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.model.call import (
    Entry,
    Event,
    Exit,
)
from soscope.model.slot import Slot
from soscope.prototypes import Prototypes
from soscope.report.display import (
    TIME_NONE,
    Display,
)
from soscope.report.output import Output

_PADDING = RESULT_COLUMN - 1

# Functions that never return: nothing is missing if their end was not seen.
NO_RETURN = frozenset(
    "exit _exit _Exit quick_exit abort pthread_exit thrd_exit longjmp _longjmp siglongjmp "
    "__longjmp_chk __libc_longjmp __libc_siglongjmp setcontext err errx verr verrx "
    "__assert_fail __assert_perror_fail __assert __stack_chk_fail __fortify_fail __chk_fail "
    "__cxa_throw __cxa_rethrow _Unwind_Resume __libc_start_main _ZSt9terminatev".split()
)


class TextListener(Listener):
    """Writes a line for each call, signal and end of a process."""

    def __init__(self, output: Output, display: Display) -> None:
        self._output = output
        self._limit = display.string_limit
        self._durations = display.durations
        self._clock = _Clock(display.time) if display.time != TIME_NONE else None
        self._names_caller = False
        self._prototypes = Prototypes()
        self._heads: dict[Slot, str] = {}  # what stands before the arguments
        self._several = False  # more than one thread or process has appeared
        self._tid = 0  # the only thread so far
        self._open: Entry | None = None  # the call that is held back
        self._shown = ""  # what of its line is written already
        self._parts: list[str] = []  # lines to be written

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take what decides how calls look."""
        self._prototypes = prototypes
        self._names_caller = selection.names_caller

    def events(self, batch: list[Event]) -> None:
        """Add the lines of some events and write what is complete."""
        for event in batch:
            if isinstance(event, Exit):
                self._exit(event)
            elif isinstance(event, Entry):
                self._entry(event)
            else:
                self._other(event)
        self._write()

    def idle(self) -> None:
        """Show the call that the target is in, as far as it is known."""
        entry = self._open
        if entry is not None and not self._shown:
            self._shown = self._start(entry.time_ns, entry.tid) + self._begun(entry)
            self._output.write(self._shown)

    def end(self, outcome: Outcome) -> None:  # noqa: ARG002  the events have said it all
        """Close a call that is held back."""
        self._close(" <unfinished ...>")
        self._write()

    def _write(self) -> None:
        if self._parts:
            self._output.write("".join(self._parts))
            self._parts.clear()

    # ---- lines ----

    def _start(self, time_ns: int, tid: int) -> str:
        """Return what stands at the beginning of a line."""
        if tid != self._tid and not self._several:
            self._several = self._tid != 0
            self._tid = tid
        start = f"[pid {tid}] " if self._several else ""
        return start if self._clock is None else start + self._clock.text(time_ns)

    def _head(self, slot: Slot) -> str:
        """Return the name of a function up to the parenthesis, and remember it."""
        head = f"{slot.symbol}("
        if self._names_caller:
            head = f"{slot.caller.name if slot.caller else '?'}->{head}"
        self._heads[slot] = head
        return head

    def _begun(self, entry: Entry) -> str:
        """Return a call without its end: what is known before it returns."""
        slot = entry.slot
        arguments = self._prototypes.format_call(slot, entry.captured, self._limit)
        return (self._heads.get(slot) or self._head(slot)) + ", ".join(
            [argument.text for argument in arguments]
        )

    def _entry(self, entry: Entry) -> None:
        if self._open is not None:
            self._close(" <unfinished ...>")
        if not entry.entry_only:
            self._open = entry
            return
        line = self._start(entry.time_ns, entry.tid) + self._begun(entry)
        ends = " <no return ...>\n" if entry.slot.symbol in NO_RETURN else ")\n"
        self._parts.append(line + ends)

    def _exit(self, leave: Exit) -> None:
        entry = leave.entry
        if entry is not None and entry is self._open:
            if leave.ended == ENDED_EXIT:
                self._close(" <no return ...>")
                return
            if leave.ended == ENDED_KILLED:
                self._close(" <unfinished ...>")
                return
            line = self._shown or self._start(entry.time_ns, entry.tid) + self._begun(entry)
            shown = len(self._shown)
            self._open, self._shown = None, ""
        else:
            # A process that ends leaves calls open: that says nothing worth a line each.
            if leave.ended in (ENDED_EXIT, ENDED_KILLED):
                return
            if self._open is not None:
                self._close(" <unfinished ...>")
            line = f"{self._start(leave.time_ns, leave.tid)}<... {leave.slot.symbol} resumed> "
            shown = 0
        line = f"{line}) ".ljust(_PADDING) + "= " + self._result(leave)
        if self._durations and leave.duration_ns is not None:
            seconds, ns = divmod(leave.duration_ns, 1_000_000_000)
            line = f"{line} <{seconds}.{ns:09}>"
        self._parts.append(f"{line[shown:]}\n")

    def _result(self, leave: Exit) -> str:
        """Return what stands behind the equals sign."""
        if leave.ended != ENDED_RETURN:
            return f"<{leave.ended}>"
        result = self._prototypes.format_result(leave.slot, leave, leave.entry)
        if result is None:
            return "<void>"
        return result.text

    def _close(self, how: str) -> None:
        """End the line of the call that is held back, without its result."""
        entry = self._open
        if entry is None:
            return
        line = self._shown or self._start(entry.time_ns, entry.tid) + self._begun(entry)
        self._parts.append(f"{line[len(self._shown) :]}{how}\n")
        self._open, self._shown = None, ""

    def _other(self, event: Event) -> None:
        """Add the line of an event that is no call."""
        if isinstance(event, Process):
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
            self._close(" <unfinished ...>")
            self._parts.append(f"--- {plural(event.count, 'event')} dropped: {event.why} ---\n")

    def _tell(self, time_ns: int, tid: int, text: str) -> None:
        self._close(" <unfinished ...>")
        self._parts.append(f"{self._start(time_ns, tid)}{text}\n")


class _Clock:
    """Formats times; the text of a second is made once."""

    __slots__ = ("_mode", "_second", "_text")

    def __init__(self, mode: int) -> None:
        self._mode = mode
        self._second = -1
        self._text = ""

    def text(self, time_ns: int) -> str:
        """Return a time with a blank behind it."""
        second, ns = divmod(time_ns, 1_000_000_000)
        if self._mode == TIME_EPOCH:
            return f"{second}.{ns // 1000:06} "
        if second != self._second:
            self._second = second
            self._text = strftime("%H:%M:%S", localtime(second))
        if self._mode == TIME_MICROSECONDS:
            return f"{self._text}.{ns // 1000:06} "
        return f"{self._text} "
