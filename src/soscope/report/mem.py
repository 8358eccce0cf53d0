# SPDX-License-Identifier: Apache-2.0
"""Reports of `soscope mem`: tables for people, documents for programs, flame graphs."""

from __future__ import annotations

import datetime as dt
import shlex

from soscope.frames.cppnames import CppNames
from soscope.frames.names import MAPPING_APIS
from soscope.instruments.mem.diff import BLOCKS, OBJECTS
from soscope.instruments.mem.groups import THREAD as GROUPS_THREAD
from soscope.instruments.mem.groups import TIME, Group
from soscope.instruments.mem.model import (
    COMPLETE,
    SCHEMA,
    EndOf,
    MemProcess,
    MemReport,
    NativeRow,
    NativeTotals,
    RssParts,
    Survivor,
)
from soscope.model.call import printable, time_text
from soscope.report.output import json_document, members
from soscope.report.words import attached_lines, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.interpreter import Trimmed
    from soscope.control.outcome import Outcome
    from soscope.inspect.memory import Look, RssPart, Verdict
    from soscope.instruments.mem.diff import DiffRow, MemDiff
    from soscope.instruments.mem.live import Growth


# The result of `soscope mem attach`: soscope/mem-attach/1.

ATTACHED = "soscope/mem-attach/1"


def attached(pid: int, notes: list[str], *, did_before: bool) -> str:
    """Return the document of a process that counts its objects from now on.

    `did_before` means that it counted them before.
    """
    return json_document(
        {
            "schema": ATTACHED,
            "pid": pid,
            "what": "objects",
            "did_before": did_before,
            "notes": notes,
        }
    )


def recorded(pid: int, path: str, outcome: Outcome) -> str:
    """Return the document of a process whose blocks were recorded in the file `path`.

    `recording` is null if there is none, and `dropped` is a number of events.
    """
    return json_document(
        {
            "schema": ATTACHED,
            "pid": pid,
            "what": "blocks",
            "recording": None if outcome.record is None else path,
            "dropped": sum(count for count, _ in outcome.dropped),
            "executed_by_children": outcome.executed.document(),
            "notes": [*outcome.executed.lines(), *outcome.remarks, *attached_lines(outcome)]
            + [f"{count:,} events lost: {why}" for count, why in outcome.dropped],
        }
    )


# The report of a recording of memory, as one JSON document.


def document(
    report: MemReport, limit: int | None = None, groups: dict[str, object] | None = None
) -> str:
    """Return the document, with the first `limit` survivors and native rows (None for all).

    `groups` are the same rows added up, None if they were not asked for.
    """
    return json_document(
        {
            "schema": SCHEMA,
            **members(report, "command pid"),
            "exit": members(report.exit or EndOf(), "status signal"),
            "runtime": {
                name: report.runtime.get(name) for name in ("name", "version", "libpython")
            },
            "state": report.state,
            "cut": _or_null(report.cut, "at_byte by"),
            "objects": report.objects_mode,
            **members(report, "native_mode sample_bytes"),
            "survivors": [_survivor(row, report) for row in report.survivors[:limit]],
            "native": [_native(row, report) for row in report.native[:limit]],
            "totals": {
                "objects": _or_null(report.object_totals, "live live_bytes created destroyed"),
                "native": _or_null(report.native_totals, _TOTALS),
                "mapped": _or_null(report.mapped_totals, _TOTALS),
                "younger": _or_null(report.younger, "than_ns count bytes"),
                "rss": _or_null(report.rss, " ".join(("total", *RssParts.__slots__))),
                "dropped": report.dropped,
            },
            "processes": [_process(process) for process in report.processes],
            "cost": None if report.cost is None else report.cost.document(),
            "executed_by_children": report.executed.document(),
            "notes": report.notes,
        }
        | ({} if groups is None else {"groups": groups})
    )


_TOTALS = "live live_bytes allocations frees allocated_bytes peak peak_bytes peak_time_ns temporary"


def _or_null(record: object, names: str) -> dict[str, object] | None:
    return None if record is None else members(record, names)


def _survivor(row: Survivor, report: MemReport) -> dict[str, object]:
    return {
        **members(row, "file line"),
        "type": _type(row, report),
        **members(row, "count bytes error_count error_bytes"),
        **(members(row, "pid") if report.follows else {}),
    }


def _native(row: NativeRow, report: MemReport) -> dict[str, object]:
    return {
        **members(row, "api count bytes error_bytes thread"),
        "frames": [members(frame, _FRAME) for frame in row.frames],
        **({} if row.sizes is None else {"sizes": list(row.sizes)}),
        **(members(row, "pid") if report.follows else {}),
    }


_FRAME = "image symbol offset file line"


def _process(process: MemProcess) -> dict[str, object]:
    return {
        **members(process, "pid parent command state"),
        "cut": _or_null(process.cut, "at_byte by"),
        "exit": members(process.exit or EndOf(), "status signal"),
    }


# The report of a recording of memory, for people, and the lines of memprof.

ROWS = 20  # rows of each kind, by default
_FRAMES = 12  # frames of a row
_TYPES = "types"  # mode of objects in which their origins are not known

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(count: int) -> str:
    """Return a number of bytes with a unit: `640 B`, `12.5 KiB`."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if not unit else f"{size:.1f} {_UNITS[unit]}"


def stats(report: MemReport, limit: int | None = None) -> str:
    """Return a line for each file, line and type, most objects first, then by name.

    Processes are added up.
    """
    counts: dict[tuple[str, int, str], int] = {}
    for row in report.survivors:
        place = row.file or "?", row.line, _type(row, report)
        counts[place] = counts.get(place, 0) + row.count
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "".join(
        f"{count:7d} {file}:{line}:{kind}\n" for (file, line, kind), count in rows[:limit]
    )


def text(report: MemReport, limit: int | None = None) -> str:
    """Return tables of what is alive, totals and notes."""
    most = ROWS if limit is None else limit
    names = CppNames()
    lines: list[str] = []
    if report.object_totals is not None:
        totals = report.object_totals
        by_type = report.objects_mode == _TYPES
        count = len(report.survivors)
        of = f"of {plural(count, 'type')}" if by_type else f"made at {plural(count, 'place')}"
        lines.append(f"objects alive: {totals.live:,} of {size_text(totals.live_bytes)}, {of}")
        for row in report.survivors[:most]:
            kind = _type(row, report)
            where = kind if by_type else f"{row.file or '?'}:{row.line}:{kind}"
            where = f"{_process_text(row, report)}{where}"
            number = f"{row.count:9,d}{_plus_minus(row.error_count)}"
            size = f"{size_text(row.bytes):>10}{_error(row.error_bytes)}"
            lines.append(f"{number} {size}  {printable(where)}")
        lines += _rest(len(report.survivors) - most)
        lines.append("")
    lines += _totals_lines("blocks", report.native_totals)
    lines += _totals_lines("mappings", report.mapped_totals)
    if report.younger is not None and report.younger.count:
        young = f"{report.younger.count:,} of {size_text(report.younger.bytes)}"
        lines.append(f"{young} are younger than {time_text(report.younger.than_ns)} (--older)")
    if report.native_totals is not None:
        for title, rows in _native_parts(report):
            lines += ["", *title]
            for row_of_blocks in rows[:most]:
                lines += _native_lines(row_of_blocks, report, names)
            lines += _rest(len(rows) - most)
    if report.rss is not None:
        parts = ((getattr(report.rss, name), name) for name in report.rss.__slots__)
        said = " + ".join(f"{name} {size_text(size)}" for size, name in parts)
        lines.append(f"RSS: {size_text(report.rss.total)} = {said}")
    lacks = [] if names.lacks is None else [names.lacks]
    for line in (*state_lines(report), *report.notes, *lacks):
        lines.append(printable(line))
    return "\n".join([*lines, ""])


def _type(row: Survivor, report: MemReport) -> str:
    return row.qualname if report.uses_qualname else row.type


def _process_text(row: Survivor | NativeRow, report: MemReport) -> str:
    """Return the process of a row, if there are several processes."""
    return f"[pid {row.pid}] " if report.follows and len(report.processes) > 1 else ""


def _rest(count: int) -> list[str]:
    return [f"          … {plural(count, 'more row')}: --limit"] if count > 0 else []


def _totals_lines(what: str, totals: NativeTotals | None) -> list[str]:
    if totals is None or not totals.allocations:
        return []
    alive = f"{totals.live:,} of {size_text(totals.live_bytes)}{_error(totals.error_bytes)}"
    made = f"{totals.allocations:,} of {size_text(totals.allocated_bytes)} made"
    if totals.peak is None or totals.peak_bytes is None or totals.temporary is None:
        return [f"{what} alive: {alive}; {made}"]
    peak = f"peak: {totals.peak:,} of {size_text(totals.peak_bytes)}"
    return [f"{what} alive: {alive}; {made}, {totals.temporary:,} freed at once; {peak}"]


def _error(error: int | None) -> str:
    return f" ± {size_text(error)}" if error else ""


def _plus_minus(error: int | None) -> str:
    return f" ± {error:,d}" if error else ""


def _native_parts(report: MemReport) -> list[tuple[list[str], list[NativeRow]]]:
    """Return tables of native rows, most bytes first, with titles if there are several."""
    largest = sorted(report.native, key=lambda row: (-row.bytes, -row.count))
    if not report.has_two_moments:
        return [([], largest)]
    mappings = [row for row in largest if row.api in MAPPING_APIS]
    blocks = [row for row in largest if row.api not in MAPPING_APIS]
    return [
        (["blocks, when most bytes of blocks were there:"], blocks),
        (["mappings, when most bytes were mapped:"], mappings),
    ]


def _native_lines(row: NativeRow, report: MemReport, names: CppNames) -> list[str]:
    size = f"{size_text(row.bytes):>10}{_error(row.error_bytes)}"
    sizes = "" if row.sizes is None else f" of {row.sizes[0]:,} to {row.sizes[1]:,} bytes"
    lines = [f"{row.count:9,d} {size}  {_process_text(row, report)}{row.api}{sizes}"]
    lines += [f"{'':22}{printable(names.frame(frame))}" for frame in row.frames[:_FRAMES]]
    if len(row.frames) > _FRAMES:
        lines.append(f"{'':22}… {plural(len(row.frames) - _FRAMES, 'more frame')}")
    return lines


def state_lines(report: MemReport) -> list[str]:
    """Return why a recording is not complete, no lines if it is."""
    if report.state == COMPLETE:
        return []
    by = "" if report.cut is None else f": {report.cut.by}, behind byte {report.cut.at_byte:,}"
    return [f"the recording is not complete ({report.state}){by}"]


# Growth between two recordings: a table for people, and soscope/mem-diff/1.

DIFF_SCHEMA = "soscope/mem-diff/1"


def diff_document(diff: MemDiff, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": DIFF_SCHEMA,
            "rows": [
                members(row, "file line type count_a count_b bytes_a bytes_b")
                for row in diff.rows[:limit]
            ],
        }
    )


def diff_text(diff: MemDiff, limit: int | None = None) -> str:
    """Return a table of changes, largest growth first."""
    rows = [row for row in diff.rows if row.growth != (0, 0)]
    most = ROWS if limit is None else limit
    lines = [
        f"{name}: {path}: {count:,} {diff.what} of {size_text(size)}"
        for name, path, (count, size) in zip(
            "AB", diff.paths, (diff.total_a, diff.total_b), strict=True
        )
    ]
    lines.append("")
    if rows:
        lines.append(f"{'growth':>10} {'of bytes':>11} {'in A':>10} {'in B':>10}  made at")
    names = CppNames()
    lines += [_diff_line(row, names) for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"{'':10} … {plural(len(rows) - most, 'more row')}: --limit")
    lines.append(f"{plural(len(diff.rows) - len(rows), 'place')} unchanged")
    return "".join(f"{printable(line)}\n" for line in lines)


def _change_text(size: int) -> str:
    return f"{'-' if size < 0 else '+'}{size_text(abs(size))}" if size else "0 B"


def _diff_line(row: DiffRow, names: CppNames) -> str:
    count, size = row.growth
    growth = _change_text(size)
    where = f"{names.place(row.file or '?')}:{row.line}:{row.type}"
    counts = f"{count:>+10,d} {growth:>11} {row.count_a:10,d} {row.count_b:10,d}"
    return f"{counts}  {where}"


# Rows of a report added up, for people.

_NS = 1_000_000_000


def text_of(report: MemReport, way: str, groups: list[Group]) -> str:
    """Return a table of groups, and notes."""
    if way in (GROUPS_THREAD, TIME):
        lines = [*map(_over_time if way == TIME else _by_thread, groups)]
    else:
        names = CppNames()
        lines = [_named(group, names) for group in groups]
    if not lines:
        lines.append("nothing is known by that")
    return "".join(f"{printable(line)}\n" for line in (*lines, *state_lines(report), *report.notes))


def _alive(group: Group) -> str:
    return f"{group['count']:9,d} {size_text(_int(group['bytes'])):>10}"


def _named(group: Group, names: CppNames) -> str:
    name = names.place(str(group["name"] or "?"))
    return f"{_alive(group)}  {group['what']:7}  {name}"


def _by_thread(group: Group) -> str:
    made = f"{group['allocations']:,} of {size_text(_int(group['allocated_bytes']))} made"
    return f"{_alive(group)}  thread {group['thread']} of process {group['pid']}: {made}"


def _over_time(group: Group) -> str:
    begin, end = _int(group["begin_ns"]), _int(group["end_ns"])
    seconds = max(end - begin, 1) / _NS
    at = dt.datetime.fromtimestamp(begin / _NS, dt.UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
    made, freed = (
        _rate(_int(group[count]) / seconds, _int(group[size]) / seconds)
        for count, size in (("allocations", "allocated_bytes"), ("frees", "freed_bytes"))
    )
    return f"{at}  made {made}  freed {freed}"


def _rate(count: float, size: float) -> str:
    return f"{count:14,.0f}/s {size_text(round(size)):>10}/s"


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


# Growth in a running process: a table for people, and soscope/mem-live/1.

LIVE_SCHEMA = "soscope/mem-live/1"

_SLACK = 2 << 20  # bytes by which a process may grow for other reasons than its own blocks
_WHAT = {OBJECTS: "objects", BLOCKS: "new blocks"}


def live_document(growth: Growth, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": LIVE_SCHEMA,
            **members(growth, "pid what"),
            "seconds": round(growth.seconds, 3),
            "rows": [
                {
                    **members(row, "file line type"),
                    "count": row.count_b,
                    "bytes": row.bytes_b,
                    "count_per_minute": round(growth.per_minute(row.growth[0]), 1),
                    "bytes_per_minute": round(growth.per_minute(row.growth[1]), 1),
                }
                | _stack(growth, row)
                for row in growth.rows[:limit]
            ],
            "notes": growth.notes,
        }
    )


def _stack(growth: Growth, row: DiffRow) -> dict[str, object]:
    """Return the stack that has grown most, if the rows are blocks."""
    if growth.what != BLOCKS:
        return {}
    frames = growth.frames.get((row.file, row.line, row.type), ())
    return {"frames": [members(frame, _FRAME) for frame in frames]}


def live_text(growth: Growth, limit: int | None = None) -> str:
    """Return a table of changes, largest growth first."""
    most = ROWS if limit is None else limit
    alive = f"{growth.live:,} {_WHAT[growth.what]} of {size_text(growth.live_bytes)}"
    lines = [f"process {growth.pid}: {alive}; changes of {growth.seconds:.1f} s", ""]
    if growth.rows:
        lines.append(f"{'a minute':>10} {'of bytes':>11} {'alive':>10}  made at")
    names = CppNames()
    lines += [_line(row, growth, names) for row in growth.rows[:most]]
    if len(growth.rows) > most:
        lines.append(f"{'':10} … {plural(len(growth.rows) - most, 'more row')}: --limit")
    if not growth.rows:
        lines.append("nothing has grown or shrunk")
    if growth.what == OBJECTS:
        lines += _next_steps(growth)
    return "".join(f"{printable(line)}\n" for line in (*lines, *growth.notes))


def _next_steps(growth: Growth) -> list[str]:
    """Return commands that tell more about what has grown."""
    steps = []
    if growth.resident - growth.grown > max(_SLACK, growth.grown):
        objects = size_text(max(growth.grown, 0))
        sizes = f"RSS grew by {size_text(growth.resident)}, objects by {objects}"
        steps.append(f"{sizes}: soscope mem live --blocks -p {growth.pid}")
    row = growth.rows[0] if growth.rows else None
    if row is not None and row.file is not None and row.line and row.growth[0] > 1:
        attach = "" if growth.goes_on else f"soscope mem attach -p {growth.pid}; "
        place = shlex.quote(f"{row.file}:{row.line}")
        steps.append(f"who holds them: {attach}soscope mem refs -p {growth.pid} {place}")
    return ["", *steps] if steps else []


def _line(row: DiffRow, growth: Growth, names: CppNames) -> str:
    count, size = row.growth
    shown = f"{count:+d} in all"  # a single thing that comes and goes is no rate
    if abs(count) != 1:
        count, size = (round(growth.per_minute(change)) for change in row.growth)
        shown = f"{count:+,d}"
    is_line = row.line or growth.what != BLOCKS
    file = names.place(row.file or "?")
    where = f"{file}:{row.line}:{row.type}" if is_line else f"{file}:{row.type}"
    return f"{shown:>10} {_change_text(size):>11} {row.count_b:10,d}  {where}"


# The result of `soscope mem trim`: a line for people, and soscope/mem-trim/1.

TRIM_SCHEMA = "soscope/mem-trim/1"
_MIB = 1 << 20


def trim_document(trimmed: Trimmed) -> str:
    """Return the JSON document. Sizes are in bytes."""
    return json_document(
        {
            "schema": TRIM_SCHEMA,
            "pid": trimmed.pid,
            "rss_before": trimmed.before,
            "rss_after": trimmed.after,
            "given_back": trimmed.given_back,
            "result": int(trimmed.gave),
            "longest_stop_ns": trimmed.longest_stop,
        }
    )


def trim_text(trimmed: Trimmed) -> str:
    """Return the line for people."""
    before, after = trimmed.before / _MIB, trimmed.after / _MIB
    given = f"{trimmed.given_back / _MIB:,.2f} MiB given back"
    said = given if trimmed.given_back else "malloc had nothing to give back"
    return f"process {trimmed.pid}: {said}; RSS was {before:,.2f} MiB and is {after:,.2f} MiB\n"


# `soscope mem where --json`: one document, schema "soscope/mem-where/1".

WHERE_SCHEMA = "soscope/mem-where/1"


def where_document(look: Look, verdict: Verdict) -> str:
    """Return the document. All sizes are in bytes."""
    pin = None
    if look.pin is not None:
        pin = {"addr": f"{look.pin[0]:#x}", "bytes": look.pin[1]}
    return json_document(
        {
            "schema": WHERE_SCHEMA,
            **members(look, "pid rss"),
            "parts": [members(part, "what name bytes") for part in look.parts],
            "arenas": [
                {"addr": f"{arena.addr:#x}", **members(arena, "in_use free top")}
                for arena in look.arenas
            ],
            **members(look, "allocator trim"),
            "pin": pin,
            **members(verdict, "verdict why next"),
        }
    )


# `soscope mem where` for people: one table that adds up, and its explanation.

_MOST_NAMED = 6  # rows of one kind
_SMALL = 200  # a part below 1 / this of RSS gets no row
_TITLES = {
    "objects": "objects",
    "blocks": "blocks in use",
    "free": "free inside malloc",
    "files": "files",
    "stacks": "stacks",
    "shared": "shared memory",
    "huge": "huge pages",
    "other": "other",
}
_HEADS = {
    "leak": "leak",
    "retention": "retention",
    "unknown": "leak or retention is not to be told",
}


def where_text(look: Look, verdict: Verdict) -> str:
    """Return the report."""
    allocator = look.allocator or "unknown"
    lines = [f"process {look.pid}: RSS {_size(look.rss).strip()} MiB, allocator: {allocator}", ""]
    lines.append(f"{'MiB':>12}  {'%':>5}")
    for what, title in _TITLES.items():
        parts = [part for part in look.parts if part.what == what]
        if parts:
            lines += _kind(look, title, parts)
    lines += [f"{_size(look.rss)}  {100.0:5.1f}  RSS", ""]
    if look.arenas:
        lines += _arenas(look)
    if look.trim is not None:
        lines.append(f"malloc_trim(0) would give back {_size(look.trim).strip()} MiB")
    if look.pin is not None:
        addr, size = look.pin
        lines.append(f"the block at {addr:#x} ({size:,} bytes) pins the top of the heap")
    lines += look.notes
    if look.moved:
        lines.append("the heap moved each time it was read: its free blocks are counted too low")
    lines += ["", f"{_HEADS[verdict.verdict]}: {verdict.why}"]
    lines += [f"  next: {step}" for step in verdict.next]
    return "".join(f"{printable(line)}\n" for line in lines)


def _kind(look: Look, title: str, parts: list[RssPart]) -> list[str]:
    """Return the rows of one kind: its sum, then the parts that are large enough."""
    total = sum(part.bytes for part in parts)
    lines = [f"{_row(look, total)}  {title}"]
    named = [part for part in parts[:_MOST_NAMED] if part.bytes * _SMALL >= look.rss]
    lines += [f"{_row(look, part.bytes)}    {part.name or title}" for part in named]
    rest = total - sum(part.bytes for part in named)
    if named and rest:
        lines.append(f"{_row(look, rest)}    {plural(len(parts) - len(named), 'other')}")
    return lines


def _arenas(look: Look) -> list[str]:
    """Return how much the arenas have in use and free, resident or not."""
    used = sum(arena.in_use for arena in look.arenas)
    free = sum(arena.free for arena in look.arenas)
    top = sum(arena.top for arena in look.arenas)
    said = (
        f"{plural(len(look.arenas), 'arena')} of malloc: {_size(used).strip()} MiB in use, "
        f"{_size(free).strip()} MiB free in bins, {_size(top).strip()} MiB at the top"
    )
    return [said]


def _row(look: Look, size: int) -> str:
    return f"{_size(size)}  {100 * size / max(1, look.rss):5.1f}"


def _size(count: int) -> str:
    return f"{count / _MIB:12,.2f}"
