# SPDX-License-Identifier: Apache-2.0
"""The report of a recording of memory, for people, and the lines of memprof."""

from __future__ import annotations

from soscope.control.cost import time_text
from soscope.frames.cppnames import CppNames
from soscope.frames.names import MAPPING_APIS
from soscope.instruments.mem.model import (
    COMPLETE,
    MemReport,
    NativeRow,
    NativeTotals,
    Survivor,
)
from soscope.model.call import printable
from soscope.report.frametext import frame_text
from soscope.report.words import plural

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
            where = f"{_process(row, report)}{where}"
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


def _process(row: Survivor | NativeRow, report: MemReport) -> str:
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
    lines = [f"{row.count:9,d} {size}  {_process(row, report)}{row.api}{sizes}"]
    lines += [f"{'':22}{printable(frame_text(frame, names))}" for frame in row.frames[:_FRAMES]]
    if len(row.frames) > _FRAMES:
        lines.append(f"{'':22}… {plural(len(row.frames) - _FRAMES, 'more frame')}")
    return lines


def state_lines(report: MemReport) -> list[str]:
    """Return why a recording is not complete, no lines if it is."""
    if report.state == COMPLETE:
        return []
    by = "" if report.cut is None else f": {report.cut.by}, behind byte {report.cut.at_byte:,}"
    return [f"the recording is not complete ({report.state}){by}"]
