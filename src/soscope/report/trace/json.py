# SPDX-License-Identifier: Apache-2.0
"""`--json` without a summary: JSON Lines, one object for each event, ordered by time.

A call is one object, at the place where the call began, and complete when it has ended. Objects
behind an open call have to wait for it. They are kept as text, which is moved to a file without a
name when it gets long, so memory stays bounded however long the outermost call is open.
"""

from __future__ import annotations

import math
from json.encoder import encode_basestring_ascii as quoted

from soscope.instruments.trace.backlog import Backlog
from soscope.instruments.trace.listener import Listener
from soscope.model.call import (
    ENDED_LOST,
    ENDED_RETURN,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
)
from soscope.model.image import TracedSlot, is_error
from soscope.proc.status import signal_name
from soscope.prototypes import Prototypes
from soscope.prototypes.formats import Argument
from soscope.recording.blocks import compact
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.cost import Price
    from soscope.control.outcome import ChildPrograms
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.recording.names import Programs
    from soscope.report.trace.callstacks import CallStacks

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
        """Take the programs, which have the places of calls."""
        if self._display.stacks:
            from soscope.report.trace.callstacks import CallStacks

            self._stacks = CallStacks(programs, self._display)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of arguments."""
        self._prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Add objects, and write those that no earlier call holds back."""
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
