# SPDX-License-Identifier: Apache-2.0
"""A trace as JSON Lines (`--json`), with injected errors, or as a page of Markdown."""

from __future__ import annotations

import heapq
import math
from json.encoder import encode_basestring_ascii as quoted
from struct import Struct

from soscope.instruments.trace.backlog import Backlog
from soscope.instruments.trace.listener import Listener
from soscope.model.call import (
    ENDED_LOST,
    ENDED_RETURN,
    INJECTED_ITEM,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
)
from soscope.model.image import ERROR_NONE, TracedSlot, is_error
from soscope.proc.status import signal_name
from soscope.prototypes import Prototypes
from soscope.prototypes.formats import Argument
from soscope.recording.blocks import compact
from soscope.report.output import Form, Output, json_document
from soscope.report.trace.display import Display, FunctionNames
from soscope.report.trace.stretchtext import duration
from soscope.report.trace.table import head_of, totals_of
from soscope.report.trace.text import TextListener
from soscope.report.trace.tree import TreeListener
from soscope.report.words import plural
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.outcome import ChildPrograms, Price
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.recording.names import Programs
    from soscope.report.trace.adorned import CallStacks


# `--json` without a summary: JSON Lines, one object for each event, ordered by time.
#
# A call is one object, at the place where the call began, and complete when it has ended. Objects
# behind an open call have to wait for it. They are kept as text, which is moved to a file without a
# name when it gets long, so memory stays bounded however long the outermost call is open.

_MOST_SLOTS = 1 << 16  # slots are new objects when images come, so old ones are forgotten


class JsonLinesListener(Listener):
    """Writes an object for each call, further return, signal, process and loss."""

    def __init__(self, output: Output, display: Display) -> None:
        self._limit = display.string_limit
        self._names = FunctionNames(display)
        self._descriptors = display.descriptors
        self._prototypes: Prototypes
        self._slots: dict[TracedSlot, str] = {}
        self._display = display
        self._stacks: CallStacks | None = None
        self._write = output.write
        self._backlog = Backlog(output.write)

    def meet(self, programs: Programs) -> None:
        """Take the programs. They have the images in which calls return."""
        if self._display.stacks:
            from soscope.report.trace.adorned import CallStacks

            self._stacks = CallStacks(programs, self._display)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of arguments."""
        self._prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Add objects, and write the objects that no earlier call holds back."""
        backlog = self._backlog
        for event in batch:
            if isinstance(event, Entry):
                if event.entry_only:
                    backlog.add(self._call(event, None))
                else:
                    backlog.open(event)
            elif isinstance(event, Exit):
                entry = event.entry
                if entry is None:
                    continue  # the call's entry was lost, and counted as lost
                if not event.is_inherited and backlog.is_open(entry):
                    backlog.close(entry, self._call(entry, event))
                elif event.ended == ENDED_RETURN:
                    # setjmp returns again, or a forked child returns from a call of its parent
                    backlog.add(self._return(entry, event))
            else:
                backlog.add(_other(event))
        backlog.write()

    def end(self, outcome: TraceOutcome) -> None:
        """Write what is still held back. A call that is still open may have returned."""
        for entry in self._backlog.still_open():
            self._backlog.close(entry, self._call(entry, None, ended=ENDED_LOST))
        self._backlog.write(everything=True)
        if outcome.executed.count:
            self._write(_executed(outcome.executed))
        if outcome.cost is not None:
            self._write(_cost(outcome.cost))

    def _slot(self, slot: TracedSlot) -> str:
        """Return the members about a function, and remember them."""
        caller = slot.caller.name if slot.caller else None
        callee = slot.callee.name if slot.callee else ""
        text = (
            f'"caller":{_string_or_null(caller)},"callee":{quoted(callee)},'
            f'"symbol":{quoted(slot.symbol)},"version":{quoted(slot.version)}'
        )
        demangled = self._names.full(slot.symbol)
        if demangled is not None:
            text += f',"demangled":{quoted(demangled)}'
        if len(self._slots) > _MOST_SLOTS:
            self._slots.clear()
        self._slots[slot] = text
        return text

    def _call(self, entry: Entry, leave: Exit | None, *, ended: str | None = None) -> str:
        """Return the object of a call, without its end if only the entry is recorded."""
        slot = entry.slot
        arguments = self._prototypes.format_call(slot, entry.captured, self._limit, leave)
        if self._descriptors is not None:
            self._descriptors.mark(entry, arguments)
        shown = ",".join([_argument(argument) for argument in arguments])
        head = (
            f'{{"type":"call","time_ns":{entry.time_ns},"pid":{entry.pid},"tid":{entry.tid},'
            f'{self._slots.get(slot) or self._slot(slot)},"depth":{entry.depth},"args":[{shown}],'
        )
        if self._stacks is not None:
            head += self._stacks.members(entry)
        return head + self._end(leave, entry.return_addr, ended)

    def _return(self, entry: Entry, leave: Exit) -> str:
        """Return the object of a return that is not the end of its call."""
        slot = leave.slot
        head = (
            f'{{"type":"return","time_ns":{leave.time_ns},"pid":{leave.pid},"tid":{leave.tid},'
            f"{self._slots.get(slot) or self._slot(slot)},"
            f'"call_pid":{entry.pid},"call_tid":{entry.tid},"call_time_ns":{entry.time_ns},'
        )
        return head + self._end(leave, entry.return_addr, None)

    def _end(self, leave: Exit | None, return_addr: int, ended: str | None) -> str:
        """Return the members about the end of a call."""
        failed = ""
        result = errno = duration = "null"
        prototypes = self._prototypes
        if leave is not None:
            ended = leave.ended
            if leave.duration_ns is not None:
                duration = str(leave.duration_ns)
            if ended == ENDED_RETURN:
                value = prototypes.format_result(leave.slot, leave, leave.entry, self._limit)
                if value is not None and self._descriptors is not None:
                    value.text = self._descriptors.mark_result(leave, value.text)
                result = "null" if value is None else _argument(value, is_result=True)
                code = prototypes.failure_errno(leave.slot, leave)
                errno = quoted(prototypes.errno_name(code)) if code else "null"
                rule = leave.slot.error_rule
                if rule and leave.result is not None and is_error(rule, leave.result):
                    failed = ',"failed":true'
        return (
            f'"result":{result},"errno":{errno},"duration_ns":{duration},'
            f'"return_addr":"0x{return_addr:x}","ended":{_string_or_null(ended)}{failed}}}\n'
        )


def _string_or_null(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _argument(argument: Argument, *, is_result: bool = False) -> str:
    """Return the object of an argument or a result."""
    value = argument.value
    if value is None:
        shown = "null"
    elif isinstance(value, str):
        shown = quoted(value)
    elif isinstance(value, float):
        shown = repr(value) if math.isfinite(value) else "null"
    elif argument.is_address and value >= 0:
        shown = f'"{value:#x}"'
    else:
        shown = str(int(value))
    more = ',"cut":true' if argument.cut else ""
    if argument.data is not None and not _is_utf8(argument.data):
        more += f',"bytes":"{argument.data.hex()}"'
    if argument.guess:
        more += ',"guess":true'
    if argument.out is not None:
        more += f',"out":{_argument(argument.out)}'
    name = "" if is_result else f'"name":{_string_or_null(argument.name or None)},'
    return (
        f'{{{name}"type":{quoted(argument.type)},"text":{quoted(argument.text)},'
        f'"value":{shown}{more}}}'
    )


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _executed(executed: ChildPrograms) -> str:
    """Return the object with programs that children have executed, not followed."""
    return compact({"type": "executed_by_children", **executed.document()}).decode() + "\n"


def _cost(cost: Price) -> str:
    """Return the object with the cost of tracing."""
    return compact({"type": "cost", **cost.document()}).decode() + "\n"


def _other(event: Event) -> str:
    """Return the object of an event that is no call."""
    if isinstance(event, Signal):
        return (
            f'{{"type":"signal","time_ns":{event.time_ns},"pid":{event.pid},"tid":{event.tid},'
            f'"signal":{quoted(signal_name(event.signal))}}}\n'
        )
    if isinstance(event, ProcessStart):
        parent = "null" if event.parent is None else event.parent
        arch, engine = (_string_or_null(each or None) for each in (event.arch, event.engine))
        return (
            f'{{"type":"process","time_ns":{event.time_ns},"pid":{event.pid},'
            f'"event":{quoted(event.event)},"parent":{parent},'
            f'"program":{quoted(event.program)},"arch":{arch},"engine":{engine}}}\n'
        )
    if isinstance(event, ProcessExit):
        status = "null" if event.status is None else event.status
        signal = None if event.signal is None else signal_name(event.signal)
        return (
            f'{{"type":"exit","time_ns":{event.time_ns},"pid":{event.pid},"status":{status},'
            f'"signal":{_string_or_null(signal)}}}\n'
        )
    if isinstance(event, Dropped):
        return f'{{"type":"dropped","count":{event.count},"why":{quoted(event.why)}}}\n'
    raise TypeError(f"unknown event {type(event).__name__}")


# The calls of a trace as a page of Markdown: functions, failures, and slow calls.
#
# Memory does not grow with the number of calls.

SCHEMA = "soscope/trace-calls/1"
_FIRST = 20  # number of calls
_SLOWEST = 10
_MOST_FAILURES = 1000  # different lines of failed calls


class PageListener(TextListener):
    """Writes the page at the end of the trace."""

    takes_stretches = False

    def __init__(self, output: Output, display: Display, form: Form) -> None:
        super().__init__(output, display)
        self._form = form
        self.wants_durations = True
        self._calls = 0
        self._functions: dict[TracedSlot, list[int]] = {}  # calls, errors, ns, returns
        self._first: list[tuple[Entry, str, int | None]] = []
        self._slowest: list[tuple[int, int, str]] = []  # a heap, fastest first
        self._failures: dict[str, int] = {}
        self._more_failures = 0

    def events(self, batch: list[Event]) -> None:
        """Take entries and exits of calls."""
        for event in batch:
            if isinstance(event, Entry):
                self._calls += 1
                self._cell(event.slot)[0] += 1
                if event.entry_only or event.slot.entry_only:
                    self._keep_first(event, f"{self._call(event, None)}", None)
            elif isinstance(event, Exit) and event.entry is not None and not event.is_inherited:
                self._ended(event, event.entry)
            else:
                assert not isinstance(event, Stretch)  # this listener does not take stretches

    def caught_up(self, time_ns: int) -> None:
        """Do nothing, as nothing is shown before the end."""

    def end(self, outcome: TraceOutcome) -> None:
        """Write the page."""
        self._output.write(self._form.shaped(json_document(self._document(outcome))))

    def _document(self, outcome: TraceOutcome) -> dict[str, object]:
        """Return the document that the page is made from."""
        return {
            "schema": SCHEMA,
            **head_of(outcome),
            "totals": totals_of(outcome, self._calls),
            "functions": self._rows(),
            "failed": [
                {"call": call, "count": count}
                for call, count in sorted(self._failures.items(), key=lambda each: -each[1])
            ],
            "not_told_apart": self._more_failures or None,
            "slowest": [
                {"duration_ns": spent, "call": call}
                for spent, _, call in sorted(self._slowest, reverse=True)
            ],
            "first": [
                {"duration_ns": spent, "call": call}
                for entry, call, spent in sorted(self._first, key=lambda each: each[0].time_ns)
            ],
        }

    def _ended(self, leave: Exit, entry: Entry) -> None:
        cell, slot, spent = self._cell(entry.slot), entry.slot, leave.duration_ns
        text = ""
        if leave.ended == ENDED_RETURN:
            cell[3] += 1
            cell[2] += max(spent or 0, 0)
            if leave.result is not None and is_error(slot.error_rule, leave.result):
                cell[1] += 1
                text = self._call(entry, leave)
                if text in self._failures or len(self._failures) < _MOST_FAILURES:
                    self._failures[text] = self._failures.get(text, 0) + 1
                else:
                    self._more_failures += 1
        if len(self._first) < _FIRST:
            text = text or self._call(entry, leave)
            self._keep_first(entry, text, spent)
        if spent is not None and (len(self._slowest) < _SLOWEST or spent > self._slowest[0][0]):
            text = text or self._call(entry, leave)
            push = heapq.heappush if len(self._slowest) < _SLOWEST else heapq.heappushpop
            push(self._slowest, (spent, -self._calls, text))

    def _keep_first(self, entry: Entry, text: str, spent: int | None) -> None:
        if len(self._first) < _FIRST:
            self._first.append((entry, text, spent))

    def _call(self, entry: Entry, leave: Exit | None) -> str:
        """Return the line of a call."""
        shown = ", ".join(self._texts(entry, leave))
        start = f"{self._heads.get(entry.slot) or self._head(entry.slot)}{shown})"
        return start if leave is None else f"{start} = {self._result(leave)}"

    def _cell(self, slot: TracedSlot) -> list[int]:
        cell = self._functions.get(slot)
        if cell is None:
            cell = self._functions[slot] = [0] * 4
        return cell

    def _rows(self) -> list[dict[str, object]]:
        """Return a row for each caller, callee and symbol, most time first."""
        merged: dict[tuple[str, str, str], list[int]] = {}
        known: set[tuple[str, str, str]] = set()
        for slot, cell in self._functions.items():
            caller = slot.caller.name if slot.caller else ""
            callee = slot.callee.name if slot.callee else ""
            key = caller, callee, slot.symbol
            sums = merged.setdefault(key, [0] * 4)
            for at, value in enumerate(cell):
                sums[at] += value
            if slot.prototype is not None or slot.error_rule != ERROR_NONE:
                known.add(key)
        return [
            {
                "function": self._names.shown(key[2]),
                "calls": sums[0],
                "errors": sums[1] if key in known else None,
                "total_ns": sums[2] if sums[3] else None,
                "caller": key[0],
                "callee": key[1],
            }
            for key, sums in sorted(
                merged.items(), key=lambda each: (-each[1][2], -each[1][0], each[0])
            )
        ]


# The trace of `soscope inject`: lines of a trace that also show the injection.

PAGE_SCHEMA = "soscope/inject/1"
_INJECTED = Struct("<Ii")  # the agent's struct sosc_injected
_RETURN, _ERRNO = 1, 2  # the agent's enum sosc_inject_flag
_TAIL = "}\n"  # end of a JSON object

# The last line of JSON Lines: the seed, and the rules with their counts.
Summary = dict[str, object]


def make(
    output: Output, display: Display, summary: Callable[[], Summary], *, form: Form
) -> Listener:
    """Return the listener that shows injected calls on `output`."""
    if form.is_markdown:
        return InjectedPageListener(output, display, summary, form)
    if form:
        return InjectedJsonListener(output, display, summary)
    if display.tree:
        return InjectedTreeListener(output, display)
    return InjectedTextListener(output, display)


def rule_notes(summary: Summary) -> list[str]:
    """Return a line for each rule: how often it was applied."""
    rules = summary.get("rules")
    return [
        f"{rule.get('rule')}: {rule.get('injected'):,} of {plural(calls, 'call')} injected"
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, dict)
        and isinstance(calls := rule.get("calls"), int)
        and isinstance(rule.get("injected"), int)
    ]


def _done_to(entry: Entry | None) -> tuple[int, int]:
    """Return the flags of a call's injection, and the new errno; 0 if there is none."""
    kept = entry.captured.data.get(INJECTED_ITEM) if entry is not None else None
    if kept is None or len(kept[2]) < _INJECTED.size:
        return 0, 0
    flags, errno = _INJECTED.unpack_from(kept[2])
    return flags, errno if flags & _ERRNO else 0


class _Marking(TextListener):
    """Adds to each line what was injected into the call."""

    takes_stretches = False

    def __init__(self, output: Output, display: Display, *more: Form) -> None:
        super().__init__(output, display, *more)
        self._says_durations, self._durations = self._durations, False  # it is before the mark

    def _result(self, leave: Exit) -> str:
        flags, errno = _done_to(leave.entry)
        text = super()._result(leave)
        prototypes = self._prototypes
        if errno and not leave.slot.error_rule:  # only the injection rule tells that it failed
            text += f" {prototypes.errno_name(errno)} ({prototypes.errno_text(errno)})"
        if self._says_durations and leave.duration_ns is not None:
            text += duration(leave.duration_ns).rstrip("\n")
        return text + _mark(flags)

    def _end_of(self, entry: Entry, ends: str) -> str:
        return super()._end_of(entry, ends) + _mark(_done_to(entry)[0])


class InjectedTextListener(_Marking):
    """Writes a line for each injected call."""


class InjectedTreeListener(_Marking, TreeListener):
    """Writes injected calls as a tree."""


def _mark(flags: int) -> str:
    return " (INJECTED)" if flags & _RETURN else " (DELAYED)"


class InjectedPageListener(_Marking, PageListener):
    """Writes a page of the rules and of the injected calls."""

    def __init__(
        self, output: Output, display: Display, summary: Callable[[], Summary], form: Form
    ) -> None:
        super().__init__(output, display, form)
        self._says_durations = False  # durations have a column
        self._summary = summary

    def _document(self, outcome: TraceOutcome) -> Summary:
        document = super()._document(outcome)
        head = {name: document.pop(name) for name in ("schema", "command", "exit")}
        return {**head, "schema": PAGE_SCHEMA, **self._summary(), **document}


class InjectedJsonListener(JsonLinesListener):
    """Writes an object for each injected call, and a last one for the rules."""

    def __init__(self, output: Output, display: Display, summary: Callable[[], Summary]) -> None:
        super().__init__(output, display)
        self._output = output
        self._summary = summary

    def _call(self, entry: Entry, leave: Exit | None, *, ended: str | None = None) -> str:
        flags, errno = _done_to(entry)
        text = super()._call(entry, leave, ended=ended)
        if errno and not entry.slot.error_rule:
            name = self._prototypes.errno_name(errno)
            text = text.replace('"errno":null,"duration_ns"', f'"errno":"{name}","duration_ns"')
        done = "" if flags & _RETURN else ',"delayed":true'
        return text[: -len(_TAIL)] + f',"injected":true{done}' + _TAIL

    def end(self, outcome: TraceOutcome) -> None:
        """Write what is held back, and the results of the rules."""
        super().end(outcome)
        from json import dumps

        self._output.write(dumps({"type": "inject", **self._summary()}) + "\n")
