# SPDX-License-Identifier: Apache-2.0
"""What a recording of memory says, for people; and memprof's lines."""

from __future__ import annotations

from soscope.frames.names import MAPPING_APIS
from soscope.instruments.mem.model import (
    COMPLETE,
    MemReport,
    NativeRow,
    NativeTotals,
    Survivor,
)
from soscope.report.frametext import frame_text
from soscope.report.words import plural, printable

ROWS = 20  # of each kind, where nobody says how many
_FRAMES = 12  # of a row

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(count: int) -> str:
    """Return bytes with a unit: `640 B`, `12.5 KiB`."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if not unit else f"{size:.1f} {_UNITS[unit]}"


def stats(report: MemReport, limit: int | None = None) -> str:
    """Return a line for each file, line and type: most first, then by name."""
    rows = sorted(
        report.survivors,
        key=lambda row: (-row.count, row.file or "?", row.line, _type(row, report)),
    )
    lines = [f"{row.count:7d} {_place(row)}:{_type(row, report)}\n" for row in rows[:limit]]
    return "".join(lines)


def text(report: MemReport, limit: int | None = None) -> str:
    """Return tables of what is alive, totals and notes."""
    most = ROWS if limit is None else limit
    lines: list[str] = []
    if report.object_totals is not None:
        totals = report.object_totals
        lines.append(
            f"objects alive: {totals.live:,} of {size_text(totals.live_bytes)}, "
            f"made at {plural(len(report.survivors), 'place')}"
        )
        for row in report.survivors[:most]:
            where = f"{_place(row)}:{_type(row, report)}"
            count = f"{row.count:9,d}{_plus_minus(row.error_count)}"
            size = f"{size_text(row.bytes):>10}{_error(row.error_bytes)}"
            lines.append(f"{count} {size}  {printable(where)}")
        lines += _rest(len(report.survivors) - most)
        lines.append("")
    lines += _totals_lines("blocks", report.native_totals)
    lines += _totals_lines("mappings", report.mapped_totals)
    if report.native_totals is not None:
        for title, rows in _native_parts(report):
            lines += ["", *title]
            for row_of_blocks in rows[:most]:
                lines += _native_lines(row_of_blocks)
            lines += _rest(len(rows) - most)
    if report.rss is not None:
        parts = ((getattr(report.rss, name), name) for name in report.rss.__slots__)
        said = " + ".join(f"{name} {size_text(size)}" for size, name in parts)
        lines.append(f"RSS: {size_text(report.rss.total)} = {said}")
    for line in (*state_lines(report), *report.notes):
        lines.append(printable(line))
    return "\n".join([*lines, ""])


def _type(row: Survivor, report: MemReport) -> str:
    return row.qualname if report.uses_qualname else row.type


def _place(row: Survivor) -> str:
    return f"{row.file or '?'}:{row.line}"


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
    """Return tables of native rows, most bytes first; each has a title where there are several."""
    largest = sorted(report.native, key=lambda row: (-row.bytes, -row.count))
    if not report.has_two_moments:
        return [([], largest)]
    mappings = [row for row in largest if row.api in MAPPING_APIS]
    blocks = [row for row in largest if row.api not in MAPPING_APIS]
    return [
        (["blocks, when most bytes of blocks were there:"], blocks),
        (["mappings, when most bytes were mapped:"], mappings),
    ]


def _native_lines(row: NativeRow) -> list[str]:
    size = f"{size_text(row.bytes):>10}{_error(row.error_bytes)}"
    sizes = "" if row.sizes is None else f" of {row.sizes[0]:,} to {row.sizes[1]:,} bytes"
    lines = [f"{row.count:9,d} {size}  {row.api}{sizes}"]
    lines += [f"{'':22}{printable(frame_text(frame))}" for frame in row.frames[:_FRAMES]]
    if len(row.frames) > _FRAMES:
        lines.append(f"{'':22}… {plural(len(row.frames) - _FRAMES, 'more frame')}")
    return lines


def state_lines(report: MemReport) -> list[str]:
    """Say that a recording is not complete, and why; nothing where it is."""
    if report.state == COMPLETE:
        return []
    by = "" if report.cut is None else f": {report.cut.by}, behind byte {report.cut.at_byte:,}"
    return [f"the recording is not complete ({report.state}){by}"]
