# SPDX-License-Identifier: Apache-2.0
"""A profile, for people: tables of functions, images or threads, and remarks.

The columns are the same as in `soscope trace -c`. A `-` stands for an unknown value.
"""

from __future__ import annotations

from soscope.instruments.prof import views
from soscope.instruments.prof.model import COMPLETE, MODE_QUIET, MODE_SAMPLE, Profile
from soscope.instruments.prof.views import FlatRow, JoinedRow
from soscope.model.call import StackFrame, printable
from soscope.report.delays import delay_lines
from soscope.report.markdown.values import time_text
from soscope.report.tabletext import Heading, TableText, table_text
from soscope.report.words import UNTOLD, marked, plural, untold_line

ROWS = 20  # rows by default

_SECONDS = 11
_MS = 1_000_000  # nanoseconds
_NAMES = 3  # names shown of many functions
_SHORT_NS = 100_000_000  # shorter run times are shown in microseconds


def text(profile: Profile, limit: int | None = None, by: str = views.BY_FUNCTION) -> str:
    """Return tables of the first `limit` rows (None for the default), and remarks about them.

    `by` is one of flat.GROUPS.
    """
    most = ROWS if limit is None else limit
    tables = {what: rows for what, rows in views.tables_of(profile, by).items() if rows}
    is_joined = profile.is_chosen and len(tables) > 1
    if is_joined:
        parts = [_joined_table(views.joined(tables), most, by=by)]
    else:
        parts = [table(what, rows, most, by=by) for what, rows in tables.items()]
    if not parts:
        parts.append(TableText(f"{_nothing(profile, by)}\n", has_marks=False))
    shares, is_marked = share_lines(profile, is_joined=is_joined)
    has_marks = is_marked or any(part.has_marks for part in parts)
    said = remarks(profile, has_marks=has_marks)
    return _lines(shares) + "\n".join(parts) + _lines(said)


def _lines(said: list[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in said)


def share_lines(profile: Profile, *, is_joined: bool) -> tuple[list[str], bool]:
    """Return how much of a program's time the table covers, if soscope chose how to profile.

    Return these lines, and whether a time in them has a mark. `is_joined` means that samples and
    calls share a table. Then the lines also tell which columns belong to which.
    """
    own, sampled = profile.own_ns, profile.sampled_ns
    if not profile.is_chosen or own is None:
        return [], False
    if not sampled:
        return _share_of_calls(profile, own)
    line = _share_line(sampled, own, "of processor time")
    if not is_joined:
        return [line], False
    count = plural(sum(sample.weight for sample in profile.samples), "sample")
    return [
        line,
        f"% time, seconds and total are by {count}; calls and ns/call, with waits, are by hooks",
    ], False


def _share_of_calls(profile: Profile, own: int) -> tuple[list[str], bool]:
    """Return how much of the elapsed time is in a table of calls, if nothing was sampled."""
    whys = profile.not_sampled or list(profile.missed_ns)
    why = f"{time_text(own)} of processor time were too little for samples"
    if not own:
        why = "its threads ran too little for samples"
    if whys:
        why = f"samples of its own code are missing: {'; '.join(whys)}"
    if not profile.sums:
        return [why], False
    calls = sum(sums.self_ns or 0 for sums in profile.sums)
    doubt = sum(sums.doubt_ns or 0 for sums in profile.sums)
    ran = 0 if profile.cost is None else profile.cost.ran_ns
    if calls <= ran:
        line = marked(_share_line(calls, ran, "that it ran"), calls, doubt)
        return [f"{line}: calls alone, with their waits", why], line.endswith(UNTOLD)
    took = marked(time_text(calls), calls, doubt)
    said = [f"calls of several threads took {took}, with their waits", why]
    return said, took.endswith(UNTOLD)


def _share_line(part: int, whole: int, of: str) -> str:
    share = 100 * part / whole if whole else 0
    digits = 3 if whole >= _SHORT_NS and (not part or part >= _MS) else 6
    of_all = f"{part / 1e9:.{digits}f} of {whole / 1e9:.{digits}f} s {of}"
    return f"{of_all} are in the table ({share:.3g} %)"


def _joined_table(rows: list[JoinedRow], most: int, *, by: str) -> TableText:
    """Return a table of samples and calls: the first `most` rows, and one for the rest."""
    whole = _joined_sum(rows, "total")
    has_total = any(row.sampled is not None and row.sampled.total_ns is not None for row in rows)
    shown = rows[:most]
    if len(rows) > most:
        shown.append(_joined_sum(rows[most:], f"({len(rows) - most:,} more)"))
    headings = [Heading("% time", 6), Heading("seconds", _SECONDS)]
    headings += [Heading("total", _SECONDS)] * has_total
    headings += [Heading("calls", 9), Heading("ns/call", 9)]
    headings += [Heading("image")] * (by == views.BY_FUNCTION)
    headings.append(Heading(by))
    lines = [_joined_cells(row, whole, has_total=has_total, by=by) for row in (*shown, whole)]
    return table_text(headings, lines[:-1], lines[-1])


def _joined_sum(rows: list[JoinedRow], label: str) -> JoinedRow:
    sampled = _sum([row.sampled for row in rows if row.sampled is not None])
    called = _sum([row.called for row in rows if row.called is not None])
    sampled.frame = called.frame = _label(label)
    return JoinedRow(sampled, called)


def _joined_cells(row: JoinedRow, whole: JoinedRow, *, has_total: bool, by: str) -> list[str]:
    of_all = whole.sampled.self_ns if whole.sampled is not None else None
    own = total = None
    if row.sampled is not None:
        own, total = row.sampled.self_ns, row.sampled.total_ns
    cells = [share_text(own, of_all), seconds_text(own)]
    cells += [seconds_text(total)] * has_total
    cells += _calls_cells(row.called, marks=row is not whole)
    name = printable(_name(row.frame, by))
    image = [printable(views.image_name(row.frame))] * (by == views.BY_FUNCTION)
    return [*cells, *image, name]


def _calls_cells(row: FlatRow | None, *, marks: bool = True) -> list[str]:
    """Return the number of calls, and the own nanoseconds of each.

    `marks` means that no share in the row has the mark of that time.
    """
    if row is None or row.count is None:
        return ["-", "-"]
    if row.self_ns is None or not row.count:
        return [str(row.count), "-"]
    each = f"{row.self_ns / row.count:.1f}"
    return [str(row.count), marked(each, row.self_ns, row.doubt_ns) if marks else each]


def _nothing(profile: Profile, by: str) -> str:
    if by == views.BY_THREAD and (profile.arcs or any(sums.calls for sums in profile.sums)):
        return "the threads were not told apart"
    if profile.mode is None and profile.boundary is None and profile.own_ns is not None:
        return f"no samples were taken: its threads ran {time_text(profile.own_ns)} in all"
    why = ": --mode quiet has hooks do nothing" if profile.mode == MODE_QUIET else ""
    return f"no calls were recorded{why}"


def table(what: str, rows: list[FlatRow], most: int, *, by: str = views.BY_FUNCTION) -> TableText:
    """Return a table of rows that count `what`: the first `most` rows, and one for the rest.

    `by` tells what the rows are.
    """
    whole = _sum(rows)
    timed = whole.self_ns is not None
    has_total = timed and any(row.total_ns is not None for row in rows)
    shown = rows[:most]
    lines = [_cells(row, what, whole, has_total=has_total, by=by) for row in shown]
    if len(rows) > most:
        rest = _sum(rows[most:])
        rest.frame = _label(f"({len(rows) - most:,} more)")
        lines.append(_cells(rest, what, whole, has_total=has_total, by=by))
    headings = [Heading("% time" if timed else f"% {what}", 6)]
    if timed:
        headings.append(Heading("seconds", _SECONDS))
    if has_total:
        headings.append(Heading("total", _SECONDS))
    headings.append(Heading(what, 9))
    if timed and what == views.CALLS:
        headings.append(Heading("ns/call", 9))
    if by == views.BY_FUNCTION:
        headings.append(Heading("image"))
    headings.append(Heading(by))
    return table_text(headings, lines, _cells(whole, what, whole, has_total=has_total, by=by))


def _label(text: str) -> StackFrame:
    return StackFrame(None, text, None)


def _sum(rows: list[FlatRow]) -> FlatRow:
    """Return the sum of rows, without a total time, as they may contain each other."""
    whole = FlatRow(_label("total"))
    for row in rows:
        whole.add(row.count, None, row.self_ns, row.overhead_ns, row.doubt_ns)
    return whole


def _cells(row: FlatRow, what: str, whole: FlatRow, *, has_total: bool, by: str) -> list[str]:
    timed = whole.self_ns is not None
    if timed:
        share, seconds = share_text(row.self_ns, whole.self_ns), seconds_text(row.self_ns)
        if row is not whole:
            share = marked(share, row.self_ns, row.doubt_ns)
        cells = [share, seconds]
    else:
        cells = [share_text(row.count, whole.count)]
    if has_total:
        cells.append(seconds_text(row.total_ns))
    cells.append("-" if row.count is None else str(row.count))
    if timed and what == views.CALLS:
        cells[-1:] = _calls_cells(row, marks=False)
    name = printable(_name(row.frame, by))
    if by == views.BY_FUNCTION:
        cells.append(printable(views.image_name(row.frame)))
    return [*cells, name]


def _name(frame: StackFrame, by: str) -> str:
    if by == views.BY_IMAGE and not frame.symbol:
        return frame.image or views.UNKNOWN
    return views.function_name(frame)


def share_text(part: int | None, whole: int | None) -> str:
    """Return a part in percent."""
    if part is None or whole is None:
        return "-"
    return f"{100 * part / whole if whole else 0:.2f}"


def seconds_text(ns: int | None) -> str:
    """Return nanoseconds as seconds."""
    return "-" if ns is None else f"{ns / 1e9:.9f}"


def remarks(profile: Profile, *, has_marks: bool = False) -> list[str]:
    """Return remarks about the cost of the profile, what is missing, and its notes.

    `has_marks` means that a printed time may be no larger than its possible error.
    """
    said = [untold_line(few=profile.mode == MODE_SAMPLE)] if has_marks else []
    said += cost_lines(profile) + delay_lines(profile.delays)
    if profile.state != COMPLETE:
        said.append(f"the recording is not complete ({profile.state})")
    if profile.dropped:
        said.append(f"{plural(profile.dropped, 'call')} dropped")
    return said + profile.notes


def untold_functions(profile: Profile) -> list[str]:
    """Return the functions whose times are not larger than their errors, for other formats."""
    names = [
        views.function_name(row.frame) for row in views.function_rows(profile) if not row.is_told
    ]
    if not names:
        return []
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return [f"times that are no more than their error: {', '.join(names[:_NAMES])}{more}"]


def cost_lines(profile: Profile) -> list[str]:
    """Return how much of the measured time was the hooks' own, which is not in the times here."""
    known = [sums for sums in profile.sums if sums.overhead_ns is not None]
    cost = sum(sums.overhead_ns or 0 for sums in known)
    calls = sum(sums.calls or 0 for sums in known)
    if not cost or not calls:
        return []
    measured = cost + sum(sums.self_ns or 0 for sums in known)
    part = f"{time_text(cost)} of the {time_text(measured)} that were measured"
    without = "" if profile.delays.unknown else "; the times are without it"
    return [f"the hooks cost about {cost / calls:.0f} ns a call, {part}{without}"]
