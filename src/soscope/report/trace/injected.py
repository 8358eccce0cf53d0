# SPDX-License-Identifier: Apache-2.0
"""The trace of `soscope inject`: lines of a trace that also show the injection."""

from __future__ import annotations

from struct import Struct

from soscope.instruments.trace.listener import Listener
from soscope.model.call import INJECTED_ITEM, Entry, Exit
from soscope.report.form import Form
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.json import JsonLinesListener
from soscope.report.trace.pagelistener import PageListener
from soscope.report.trace.stretchtext import duration
from soscope.report.trace.text import TextListener
from soscope.report.trace.tree import TreeListener
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome

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
