# SPDX-License-Identifier: Apache-2.0
"""Reports of a profile, a check of a file, or two profiles, for people and programs."""

from __future__ import annotations

from soscope.instruments.prof import views
from soscope.instruments.prof.model import (
    COMPLETE,
    MODE_QUIET,
    MODE_SAMPLE,
    NOBODY,
    SCHEMA,
    ProfArc,
    ProfFunction,
    Profile,
    ProfSample,
    ProfSums,
)
from soscope.instruments.prof.views import (
    BY_FUNCTION,
    CALLS,
    SAMPLES,
    FlatRow,
    JoinedRow,
    function_name,
    image_name,
    sample_rows,
    tables_of,
)
from soscope.model.call import PAGE, StackFrame, importance, printable, time_text
from soscope.report.output import json_document, members
from soscope.report.words import (
    UNTOLD,
    Heading,
    TableText,
    delay_lines,
    delay_members,
    marked,
    plural,
    table_text,
    untold_line,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.diff import ProfDiff, ProfDiffRow


# A profile as one JSON document.

_NOT_KNOWN = -1  # sorts behind all known values


def document(profile: Profile, limit: int | None = None, by: str = BY_FUNCTION) -> str:
    """Return the document, schema `soscope/prof-report/1`: largest times first, in nanoseconds.

    Each list has its first `limit` rows, or all if it is None. If `by` is not BY_FUNCTION, there
    are rows of images or threads beside the rows of functions. Functions outside, of which only
    calls are known, are only in the arcs.
    """
    samples = sorted(profile.samples, key=lambda sample: -sample.weight)
    return json_document(
        {
            "schema": SCHEMA,
            "command": profile.command,
            "exit": members(profile, "status signal"),
            **members(profile, "state mode boundary sample_ns"),
            "functions": [_function(*row) for row in _ranked(profile)[:limit]],
            "arcs": [_arc(arc, profile) for arc in sorted(profile.arcs, key=_arc_rank)[:limit]],
            "sampled": [_sampled(row) for row in sample_rows(profile)[:limit]],
            "samples": [_sample(sample, profile) for sample in samples[:limit]],
            "totals": {
                **members(profile, "calls dropped"),
                "threads": profile.thread_count or None,
                **delay_members(profile.delays),
            },
            "cost": None if profile.cost is None else profile.cost.document(),
            "executed_by_children": profile.executed.document(),
            "notes": profile.notes,
        }
        | ({} if profile.processor_ns is None else {"run": _run(profile)})
        | ({} if by == BY_FUNCTION else {"groups": _groups(profile, by, limit)})
    )


def _run(profile: Profile) -> dict[str, object]:
    """Return how much of the processor time of a run the samples cover.

    `chosen` means that no option chose how to profile. `share` is without the time of soscope's
    hooks.
    """
    own, sampled = profile.own_ns, profile.sampled_ns
    return {
        "chosen": profile.is_chosen,
        **members(profile, "processor_ns hooks_ns"),
        "sampled_ns": sampled,
        "share": sampled / own if own else None,
        "not_sampled": profile.not_sampled,
    }


def _ranked(profile: Profile) -> list[tuple[ProfFunction, ProfSums]]:
    """Return the functions with known values, largest self time first."""
    rows = [
        (function, sums)
        for function, sums in zip(profile.functions, profile.sums, strict=True)
        if function.addr or any(value is not None for value in sums.values())
    ]
    whole = sum(sums.self_ns or 0 for _, sums in rows)
    rows.sort(
        key=lambda row: (
            importance(row[1].self_ns, row[1].doubt_ns, whole),
            *_function_rank(row),
        )
    )
    return rows


def _function_rank(row: tuple[ProfFunction, ProfSums]) -> tuple[object, ...]:
    function, sums = row
    return (
        *_largest(sums.self_ns, sums.total_ns, sums.calls),
        function.image,
        function.symbol,
        function.addr,
    )


def _arc_rank(arc: ProfArc) -> tuple[int, ...]:
    return _largest(arc.total_ns, arc.calls)


def _largest(*values: int | None) -> tuple[int, ...]:
    """Return a sort key: large values first, unknown ones last."""
    return tuple(-(_NOT_KNOWN if value is None else value) for value in values)


def _function(function: ProfFunction, sums: ProfSums) -> dict[str, object]:
    return {
        **members(function, "image symbol"),
        "addr": _addr(function),
        **members(function, "file line"),
        **members(sums, "calls total_ns self_ns overhead_ns doubt_ns"),
    }


def _addr(function: ProfFunction) -> str | None:
    return f"{function.addr:#x}" if function.addr else None


def _arc(arc: ProfArc, profile: Profile) -> dict[str, object]:
    caller = None if arc.caller == NOBODY else profile.functions[arc.caller]
    callee = profile.functions[arc.callee]
    return {
        "caller_image": None if caller is None else caller.image,
        "caller": None if caller is None else caller.symbol,
        "caller_addr": None if caller is None else _addr(caller),
        "callee_image": callee.image,
        "callee": callee.symbol,
        "callee_addr": _addr(callee),
        **members(arc, "calls total_ns total_doubt_ns self_ns doubt_ns"),
    }


def _sampled(row: FlatRow) -> dict[str, object]:
    return {
        **members(row.frame, "image symbol file line"),
        "samples": row.count,
        **members(row, "total_ns self_ns"),
    }


def _groups(profile: Profile, by: str, limit: int | None) -> dict[str, object]:
    """Return rows of images or of threads, from calls and from samples."""
    rows: list[dict[str, object]] = []
    for what, table in tables_of(profile, by).items():
        rows += [
            {
                "name": row.frame.symbol or row.frame.image,
                "calls": row.count if what == CALLS else None,
                "samples": row.count if what == SAMPLES else None,
                **members(row, "self_ns overhead_ns doubt_ns"),
            }
            for row in table[:limit]
        ]
    return {"by": by, "rows": rows}


def _sample(sample: ProfSample, profile: Profile) -> dict[str, object]:
    return {
        "thread": profile.threads[sample.thread].tid,
        "frames": [members(frame, "image symbol file line") for frame in sample.frames],
        "weight": sample.weight,
    }


# A profile, for people: tables of functions, images or threads, and remarks.
#
# The columns are the same as in `soscope trace -c`. A `-` stands for an unknown value.

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
    why = f"{time_text(own, PAGE)} of processor time were too little for samples"
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
        return [f"{line}: only calls, with their waits", why], line.endswith(UNTOLD)
    took = marked(time_text(calls, PAGE), calls, doubt)
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
        return f"no samples were taken: its threads ran {time_text(profile.own_ns, PAGE)} in all"
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
    return [f"times that are no larger than their error: {', '.join(names[:_NAMES])}{more}"]


def cost_lines(profile: Profile) -> list[str]:
    """Return how much of the measured time was the hooks' own, which is not in the times here."""
    known = [sums for sums in profile.sums if sums.overhead_ns is not None]
    cost = sum(sums.overhead_ns or 0 for sums in known)
    calls = sum(sums.calls or 0 for sums in known)
    if not cost or not calls:
        return []
    measured = cost + sum(sums.self_ns or 0 for sums in known)
    part = f"{time_text(cost, PAGE)} of the {time_text(measured, PAGE)} that were measured"
    without = "" if profile.delays.unknown else "; the times are without it"
    return [f"the hooks cost about {cost / calls:.0f} ns a call, {part}{without}"]


# Changes between two profiles: a table for people, and soscope/prof-diff/1.

DIFF_SCHEMA = "soscope/prof-diff/1"


def diff_document(diff: ProfDiff, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": DIFF_SCHEMA,
            "what": diff.what,
            "rows": [_member(row, diff.what) for row in diff.rows[:limit]],
            "notes": diff.notes,
        }
    )


def _member(row: ProfDiffRow, what: str) -> dict[str, object]:
    frame = row.frame
    is_nameless = frame.symbol is None and frame.offset is not None
    counted = "samples" if what == SAMPLES else "calls"
    counts = what == CALLS
    said: dict[str, object] = {
        "image": frame.image,
        "symbol": frame.symbol,
        "addr": f"{frame.offset:#x}" if is_nameless else None,
        "file": frame.file,
        "why": row.why or None,
        "change_calls": row.change if counts else None,
        "change_ns": None if counts else row.change,
        "doubt_ns": row.doubt_ns,
    }
    for side, of in (("a", row.a), ("b", row.b)):
        said |= {
            f"{side}_{counted}": None if of is None else of.count,
            f"{side}_self_ns": None if of is None else of.self_ns,
            f"{side}_total_ns": None if of is None else of.total_ns,
            f"{side}_doubt_ns": None if of is None else of.doubt_ns,
        }
    return said


def diff_text(diff: ProfDiff, limit: int | None = None) -> str:
    """Return a table of changes, largest change first."""
    rows = [row for row in diff.rows if row.why]
    most = ROWS if limit is None else limit
    shown = "".join(
        f"{name}: {printable(path)}: {_amount(total, diff.what)}\n"
        for name, path, total in zip("AB", diff.paths, (diff.total_a, diff.total_b), strict=True)
    )
    if rows:
        table = _table(diff, rows, most)
        shown += f"\n{table}"
        if table.has_marks:
            shown += f"{untold_line()}\n"
    same = len(diff.rows) - len(rows)
    return f"{shown}{plural(same, 'function')} unchanged\n" if same else shown


def _amount(total: int, what: str) -> str:
    if what == CALLS:
        return plural(total, "call")
    return f"{time_text(total, PAGE)} of {'samples' if what == SAMPLES else 'calls'}"


def _table(diff: ProfDiff, rows: list[ProfDiffRow], most: int) -> TableText:
    what = diff.what
    lines = [_diff_cells(row, what) for row in rows[:most]]
    if len(rows) > most:
        change = sum(row.change for row in rows[most:])
        doubt = sum(row.doubt_ns or 0 for row in rows[most:])
        lines.append(_sums(change, doubt, "-", what, f"({len(rows) - most:,} more)"))
    change = diff.total_b - diff.total_a
    whole = _sums(change, None, _percent(change, diff.total_a), what, "total")
    counted = SAMPLES if what == SAMPLES else CALLS
    headings = [Heading("change", 9 if what == CALLS else 12), Heading("%", 7)]
    if what != CALLS:
        headings += [Heading("seconds A", 11), Heading("seconds B", 11)]
    headings += [Heading(f"{counted} A", 9), Heading(f"{counted} B", 9)]
    headings += [Heading("why"), Heading("image"), Heading("function")]
    return table_text(headings, lines, whole)


def _diff_cells(row: ProfDiffRow, what: str) -> list[str]:
    a, b = row.a, row.b
    times = [] if what == CALLS else [_seconds(a), _seconds(b)]
    percent = "-" if a is None or b is None else _percent(row.change, _base(a, what))
    return [
        marked(_change(row.change, what), row.change, row.doubt_ns),
        percent,
        *times,
        _count(a),
        _count(b),
        row.why,
        printable(image_name(row.frame)),
        printable(function_name(row.frame)),
    ]


def _base(row: FlatRow, what: str) -> int:
    return (row.count if what == CALLS else row.self_ns) or 0


def _sums(change: int, doubt_ns: int | None, percent: str, what: str, name: str) -> list[str]:
    """Return a row for several functions."""
    times = [] if what == CALLS else ["-", "-"]
    shown = marked(_change(change, what), change, doubt_ns)
    return [shown, percent, *times, "-", "-", "", "", name]


def _change(change: int, what: str) -> str:
    if what == CALLS:
        return f"{change:+d}" if change else "0"
    return f"{change / 1e9:+.9f}" if change else "0"


def _percent(change: int, before: int) -> str:
    return f"{100 * change / before:+.1f}" if before else "-"


def _seconds(row: FlatRow | None) -> str:
    if row is None:
        return "-"
    return marked(seconds_text(row.self_ns), row.self_ns, row.doubt_ns)


def _count(row: FlatRow | None) -> str:
    return "-" if row is None or row.count is None else str(row.count)
