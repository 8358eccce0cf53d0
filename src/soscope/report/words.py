# SPDX-License-Identifier: Apache-2.0
"""Texts that several reports print: numbers, signals, errors, tables, how processes were left."""

from __future__ import annotations

from soscope.model.call import is_told, time_text
from soscope.model.record import PlainRecord
from soscope.proc.status import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from soscope.control.outcome import AttachedOutcome, Outcome
    from soscope.model.call import Delays

# Names of signals and errors, numbers as people read them, and text that pictures take.


def shortened(name: str, most: int) -> str:
    """Return a name of at most `most` letters. More of its beginning is kept than of its end."""
    return name if len(name) <= most else f"{name[: most - 9]}…{name[-8:]}"


def escaped(text: str) -> str:
    """Return text for XML: without markup, control characters and lone surrogates."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(sign, name)
    return plain.encode("utf-8", "replace").decode()


STATIC_KINDS = ("static", "static-pie")  # kinds of static programs, in the words of `model.filemap`
STRAIGHT = "it is statically linked, so its calls go through no slots"
UNTOLD = "?"  # mark of a time that is not larger than its possible error, or of its share


def signal_text(number: int) -> str:
    """Return the meaning of a signal, as in "Terminated"."""
    import signal

    try:
        return signal.strsignal(number) or f"Signal {number}"
    except ValueError:
        return f"Signal {number}"


def plural(count: int, singular: str, more: str | None = None) -> str:
    """Return the count with its noun: `1 call`, `1,204 calls`."""
    return f"{count:,} {singular if count == 1 else more or singular + 's'}"


def marked(text: str, time_ns: float | None, doubt_ns: float | None) -> str:
    """Return the text of a time or its share, with a mark if its error is not less than it.

    All reports print the times of their rows by this. A total has no mark, as its rows have
    marks. `doubt_ns` is the possible error of `time_ns`, None if it is not known. The error of a
    difference of two times counts in both directions.

    >>> from soscope.report.words import marked
    >>> marked("12.50", 900, 300), marked("12.50", 900, 1200)
    ('12.50', '12.50?')
    """
    size = None if time_ns is None else abs(time_ns)
    return text if is_told(size, doubt_ns) else text + UNTOLD


def untold_line(*, few: bool = False) -> str:
    """Return an explanation of the mark. `few` means that not all calls were timed."""
    more = ", and what few timed calls do not tell" if few else ""
    error = f"what the hooks cost{more}"
    return f"{UNTOLD} marks times that are no larger than their error: {error}"


def ending(status: int | None, signal_number: int | None) -> str:
    """Return how a process ended, in ltrace's words."""
    if signal_number is not None:
        return f"+++ killed by {signal_name(signal_number)} +++"
    if status is not None:
        return f"+++ exited (status {status}) +++"
    return "+++ ended, unseen +++"


def library_lines(closed: list[str], left: dict[str, str]) -> list[str]:
    """Return a line for each library that is not needed any more.

    `closed` libraries were closed. `left` libraries stay loaded: path -> reason.
    """
    lines = [f"{path} closed" for path in closed]
    return lines + [f"{path} stays loaded: {why}" for path, why in left.items()]


# Lines for people about how soscope detached from processes that it had attached to.


def attached_lines(outcome: Outcome, *, verbose: bool = False) -> list[str]:
    """Return which processes were not traced, and how the others were left."""
    lines = [f"not traced: {why}" for why in outcome.not_attached]
    is_alone = len(outcome.attached) == 1
    for attachment in outcome.attached:
        about = _left(attachment, verbose=verbose)
        # With several processes, each line begins with the process.
        named = is_alone or attachment.has_ended or attachment.executed is not None
        lines += about if named else [f"process {attachment.pid}: {line}" for line in about]
    return lines


def _left(attached: AttachedOutcome, *, verbose: bool) -> list[str]:
    """Return how a process that goes on was left, or that it has ended."""
    if attached.lacking:
        return [attached.lacking]
    if attached.has_ended and attached.is_exit_known:
        return [f"process {attached.pid} has ended"]
    if attached.has_ended:
        return [f"process {attached.pid} has ended; how is for its parent to know"]
    lines = []
    if attached.failure is not None:
        again = f"soscope detach -p {attached.pid} tries again"
        lines.append(f"its hooks are still there: {attached.failure}; {again}")
    if attached.left:
        words = plural(attached.left, "word")
        lines.append(f"{words} left as another program has changed them")
    if attached.kept:
        words = plural(attached.kept, "slot")
        lines.append(f"{words} of unwinders left: calls may still return through the agent")
    if verbose:
        stop = attached.longest_stop_ns / 1e6
        lines.append(f"{plural(attached.restored, 'word')} restored; longest stop {stop:.1f} ms")
    return lines


# Waits of threads for a processor, in words and in JSON.

_LITTLE = 0.01  # share of the traced time that is worth a line


def delay_lines(delays: Delays) -> list[str]:
    """Return how much of the traced time was waiting, and what is not known about it."""
    lines = []
    if delays.share >= _LITTLE:
        waited = f"threads waited {time_text(delays.waited_ns)} for a processor"
        part = f"{100 * delays.share:.3g} % of the traced time"
        without = "" if delays.unknown else "; the times are without it"
        lines.append(f"{waited}, {part}{without}")
    if delays.unknown:
        lines.append(
            f"{plural(delays.unknown, 'time')} a thread may have waited for a processor; the times"
            " contain this wait, whose length is unknown"
        )
    return lines


def delay_members(delays: Delays) -> dict[str, object]:
    """Return the waits as members of a JSON object."""
    return {
        "waited_ns": delays.waited_ns,
        "waited_of_ns": delays.over_ns,
        "waits_unknown": delays.unknown,
    }


# Tables as in ltrace and strace: each row is a line of words.

_LEAST = 20  # letters of the rule below the last title, if that is a name


class Heading(PlainRecord):
    """The head of a column. `width` is the least width, 0 for text in place of a number."""

    __slots__ = ("title", "width")

    def __init__(self, title: str, width: int = 0) -> None:
        self.title = title
        self.width = width


class TableText(str):
    """The text of a table. `has_marks` means that a number in it has the mark of `marked`."""

    __slots__ = ("has_marks",)

    has_marks: bool

    def __new__(cls, text: str, *, has_marks: bool) -> Self:
        """Make the string, and set `has_marks`."""
        made = super().__new__(cls, text)
        made.has_marks = has_marks
        return made


def with_outer(order: Iterable[int], above: Callable[[int], int | None], most: int) -> set[int]:
    """Return the first rows of `order`, each with all rows around it, about `most` in all.

    `above` returns the row around a row, None if there is none.
    """
    chosen: set[int] = set()
    for number in order:
        at: int | None = number
        way: list[int] = []
        while at is not None and at not in chosen:
            way.append(at)
            at = above(at)
        if chosen and len(chosen) + len(way) > most:
            break
        chosen.update(way)
    return chosen


def table_text(headings: list[Heading], rows: list[list[str]], total: list[str]) -> TableText:
    """Return rows as lines, below titles and a rule, with `total` below another rule."""
    widths = [
        max(
            each.width or _LEAST * (each is headings[-1]),
            len(each.title),
            *(len(row[at]) for row in (*rows, total)),
        )
        for at, each in enumerate(headings)
    ]

    def show(line: list[str]) -> str:
        parts = [
            text.rjust(width) if each.width else text.ljust(width)
            for text, width, each in zip(line, widths, headings, strict=True)
        ]
        return " ".join(parts).rstrip() + "\n"

    rule = " ".join("-" * width for width in widths) + "\n"
    titles = show([each.title for each in headings])
    # A name may end in the same letter.
    has_marks = any(
        each.width and text.endswith(UNTOLD)
        for row in rows
        for each, text in zip(headings, row, strict=True)
    )
    text = "".join([titles, rule, *map(show, rows), rule, show(total)])
    return TableText(text, has_marks=has_marks)
