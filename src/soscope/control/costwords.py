# SPDX-License-Identifier: Apache-2.0
"""Sentences about the cost of an observation, for every verb and every recording."""

from __future__ import annotations

from soscope.control.cost import (
    DISK,
    END,
    EXEC,
    LOOK,
    ONCE,
    PRINT,
    READER,
    RING,
    START,
    STOPS,
    Price,
)

_LEAST = 0.01  # part of the run time; a lower cost is not printed
_LEAST_NS = 1_000_000  # a cost below this is not printed
_LEAST_WAIT_NS = 100_000_000  # the same, if the cost of a call is not known
_LARGE = 0.1  # of the cost: the start is told apart
_LONG_NS = 1_000_000_000  # a wait of this length is always printed

_FOR = {
    PRINT: "for soscope to print",
    READER: "for whoever reads soscope's output",
    DISK: "for the disk",
    RING: "for soscope to empty the ring",
    START: "for soscope to hook its calls",
    END: "for soscope to look at its memory at its end",
    LOOK: "for soscope to look at its objects",
    STOPS: "while soscope had stopped it",
    EXEC: "for soscope before it executed another program",
}
_INSTEAD = {
    PRINT: "--record FILE prints nothing meanwhile",
    READER: "--record FILE waits for no reader",
    DISK: "a faster disk helps, or fewer calls",
    RING: "fewer calls help, or a larger buffer",
    STOPS: "fewer calls help",
}


def cost_lines(
    cost: Price | None, what: str, *, verbose: bool = False, note: str = ""
) -> list[str]:
    """Return the lines about the cost of an observation, none if the cost is too small to matter.

    `what` names what caused the cost ("tracing"). `note` tells what the cost does not include.
    """
    if cost is None or (cost.ran_ns <= 0 and not verbose):
        return []
    lines = []
    once = sum(cost.parts.get(what, 0) for what in ONCE)
    worth = cost.total_ns - once
    least_ns = _LEAST_NS if cost.calls_ns is not None else _LEAST_WAIT_NS
    if verbose or worth >= max(least_ns, _LEAST * cost.ran_ns):
        lines += _all(cost, what, note)
    waited = cost.waited_ns
    if waited >= _LONG_NS or (lines and waited - once >= max(_LEAST * cost.ran_ns, _LEAST_NS)):
        lines.append(_waits(cost))
    if lines and cost.stolen_share >= _LEAST:
        part = share_text(cost.stolen_share)
        lines.append(f"the host took {part} of the processors' time: times are longer by as much")
    return lines


def _all(cost: Price, what: str, note: str) -> list[str]:
    each = ""
    if cost.call_ns is not None:
        least = f"at least {cost.call_ns:.0f} ns" if cost.call_ns >= 1 else "less than 1 ns"
        each = f"{least} a call"
    if not cost.total_ns:
        return [f"{what} cost the program {each}{note}"] if each else []
    parts = [each] if each else []
    all_of_it = f"{time_text(cost.total_ns)} in all"
    if cost.calls_ns is not None and cost.waited_ns:
        all_of_it += " with its waits"
    parts.append(all_of_it)
    if cost.ran_ns > 0:
        ran = f"{share_text(cost.share)} of the time it ran"
        if cost.share > 1:  # several threads at once
            ran = f"in threads of a program that ran {time_text(cost.ran_ns)}"
        parts.append(ran)
    start = cost.parts.get(START, 0)
    if start >= _LARGE * cost.total_ns:
        parts.append(f"{time_text(start)} of it at the start")
    return [f"{what} cost the program {', '.join(parts)}{note}"]


def _waits(cost: Price) -> str:
    """Return a line with the time that threads waited, the main reason, and what would help."""
    what, most = cost.largest_wait
    waited, ran = cost.waited_ns, cost.ran_ns
    of = f"{time_text(waited)} of {time_text(ran)}"
    who = "the program waited"
    if waited > ran:
        who, of = "threads of the program waited", f"{time_text(waited)} in {time_text(ran)}"
    for_what = _FOR.get(what, f"for {what}")
    if most < waited * 0.95:
        for_what = f"{time_text(most)} of it {for_what}"
        of += ","
    line = f"{who} {of} {for_what}"
    if what in (PRINT, READER) and cost.faster_ns is not None:
        return f"{line}; --record FILE takes about {time_text(cost.faster_ns)}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def look_lines(cost: Price) -> list[str]:
    """Return the line about the wait of a program that was only looked at, if the wait was long."""
    if cost.waited_ns < _LONG_NS:
        return []
    return [f"the program waited {time_text(cost.waited_ns)} {_FOR[cost.largest_wait[0]]}"]


def waits_so_far(cost: Price) -> str:
    """Return a line about the waits of the running programs, the reason, and possible remedies."""
    what, _ = cost.largest_wait
    line = f"the program has waited {time_text(cost.waited_ns)} so far, most of it {_FOR[what]}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def share_text(part: float) -> str:
    """Return a fraction in percent."""
    return "less than 0.1 %" if part < 0.001 else f"{100 * part:.3g} %"


def time_text(ns: float) -> str:
    """Return a time with three digits: 12.3 us."""
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if ns < 999.5 * size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"
