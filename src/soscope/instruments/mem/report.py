# SPDX-License-Identifier: Apache-2.0
"""Makes a report of a recording: what is alive, and where it was made."""

from __future__ import annotations

from soscope.control.outcome import ChildPrograms, Price, cost_lines
from soscope.errors import RecordingError
from soscope.instruments.mem.model import (
    ALIVE,
    COMPLETE,
    CUT,
    PARTIAL,
    STATES,
    EndOf,
    MemReport,
    ObjectTotals,
    RssParts,
    Survivor,
    command_of,
    judge,
    processes_of,
)
from soscope.instruments.mem.sampled import half_width
from soscope.proc.status import in_full
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import EXITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from soscope.frames.names import FrameNames

SAMPLED = "sampled"  # mode: objects were chosen by chance
_OFF = "off"  # mode: no objects
_FIELDS = 6  # fields of a survivor's row
_TOO_MANY = 1 << 64  # limit for objects and bytes; numbers below it are finite
_MORE = 2  # further fields of an estimate: expected squares of its two errors
_PAIR = 2  # [process, its parts] or [program, why it has none]


def report_of(
    recording: RecordingFile,
    native: str = ALIVE,
    *,
    older_ns: int = 0,
    names: FrameNames | None = None,
) -> MemReport:
    """Return the report of a recording of `soscope mem`. `native` chooses its native rows.

    If `older_ns` is not 0, blocks that are alive and not older are left out. `names` are names
    that were found before in the same recording. Raises RecordingError if the recording is about
    something else, or if its blocks have no ages.
    """
    recording.expect("mem")
    modes = recording.options
    objects, blocks = modes.get("objects"), modes.get("blocks")
    if not isinstance(objects, dict) and not isinstance(blocks, dict):
        raise RecordingError(f"'{recording.path}' is damaged: it does not say what was recorded")
    command = command_of(recording)
    processes = processes_of(recording)
    report = MemReport(command, processes[0].pid if processes else 0)
    report.processes = processes
    report.follows = bool(modes.get("follow"))
    _add_states(recording, report)
    if processes:
        report.exit = processes[0].exit
    if report.exit is None and recording.end is not None:
        report.exit = EndOf(recording.end.get("status"))
    if isinstance(objects, dict):
        report.objects_mode = str(objects.get("mode") or "exact")
        report.uses_qualname = bool(objects.get("qualname"))
        size = objects.get("sample_bytes")
        report.sample_bytes = size if isinstance(size, int) else None
        _add_objects(recording, report)
    if isinstance(blocks, dict):
        report.native_mode = str(blocks.get("mode") or "exact")
        size = blocks.get("sample_bytes")
        report.sample_bytes = size if isinstance(size, int) else None
        from soscope.frames.names import FrameNames
        from soscope.instruments.mem.native import add_native  # slow to import

        add_native(recording, report, native, older_ns, names or FrameNames())
        for process in processes:
            judge(recording, process)
        _add_states(recording, report)
    _add_rss(recording, report)
    _add_losses(recording, report)
    _add_untraced(recording, report)
    return report


def _add_states(recording: RecordingFile, report: MemReport) -> None:
    """Set how far the recording reaches, as far as that is known by now."""
    if report.processes:
        worst = max(report.processes, key=lambda process: STATES.index(process.state))
        report.state, report.cut = worst.state, worst.cut
    else:
        report.state = COMPLETE if recording.complete else CUT
    if report.state == COMPLETE and recording.lacking:
        report.state = PARTIAL


# ---- objects ---------------------------------------------------------------------


def _add_objects(recording: RecordingFile, report: MemReport) -> None:
    """Add the survivors, with the last data of each process."""
    newest: dict[int, list[dict[str, Any]]] = {}
    for _, said in recording.objects:
        pid = said.get("pid")
        if isinstance(pid, int):
            is_further = pid in newest and "runtime" not in said
            newest[pid] = [*newest[pid], said] if is_further else [said]
    if newest:
        add_survivors(report, newest)
    elif report.state in (COMPLETE, PARTIAL):  # none are known, which differs from zero objects
        report.objects_mode, report.sample_bytes = _OFF, None
    if report.objects_mode == SAMPLED:
        report.notes.append(
            f"objects are estimates: one in {report.sample_bytes:,} bytes was chosen by chance"
        )
    if isinstance(notes := recording.totals.get("notes"), list):
        report.notes += map(str, notes)


def add_survivors(report: MemReport, by_pid: dict[int, list[dict[str, Any]]]) -> None:
    """Add the survivors from OBJECTS blocks. A process's first block has more than rows.

    Types that are shown by the same name become one row.
    """
    rows: dict[tuple[int, str | None, int, str], Survivor] = {}
    sums: dict[tuple[int, str | None, int, str], list[float]] = {}
    for pid, blocks in by_pid.items():
        runtime = blocks[0].get("runtime")
        if isinstance(runtime, dict) and not report.runtime:
            report.runtime = runtime
        said = [row for block in blocks for row in _rows(block)]
        good = [row for row in said if _is_row(row)]
        if len(good) < len(said):
            damaged = len(said) - len(good)
            report.dropped += damaged
            report.notes.append(f"{damaged:,} rows of objects are damaged, and left out")
        for file, line, kind, qualname, *numbers in good:
            path = None if file is None else str(file)
            name = str(qualname if report.uses_qualname else kind)
            key = (pid, path, int(line), name)
            rows.setdefault(key, Survivor(path, int(line), str(kind), str(qualname), 0, 0, pid))
            total = sums.setdefault(key, [0] * (2 + _MORE))
            for at, number in enumerate(numbers):
                total[at] += number
        lost = blocks[0].get("lost")
        report.dropped += lost if isinstance(lost, int) else 0
    for key, row in rows.items():
        row.count, row.bytes = round(sums[key][0]), round(sums[key][1])
        if report.objects_mode == SAMPLED:
            row.error_count, row.error_bytes = map(half_width, sums[key][2:])
    report.survivors = list(rows.values())
    report.survivors.sort(
        key=lambda row: (-row.count, -row.bytes, row.file or "", row.line, row.type)
    )
    created = [blocks[0].get("created") for blocks in by_pid.values()]
    destroyed = [blocks[0].get("destroyed") for blocks in by_pid.values()]
    report.object_totals = ObjectTotals(
        sum(row.count for row in report.survivors),
        sum(row.bytes for row in report.survivors),
        _sum(created),
        _sum(destroyed),
    )


def _rows(said: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of an OBJECTS block, of whatever form, or [] if there is no list."""
    rows = said.get("rows")
    return rows if isinstance(rows, list) else []


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) not in (_FIELDS, _FIELDS + _MORE):
        return False
    file, line, kind, qualname, *numbers = row
    return (
        isinstance(file, str | None)
        and isinstance(line, int)
        and isinstance(kind, str)
        and isinstance(qualname, str)
        and all(isinstance(number, int | float) and abs(number) < _TOO_MANY for number in numbers)
    )


def _add_rss(recording: RecordingFile, report: MemReport) -> None:
    """Add up the resident memory of all processes."""
    said = recording.totals.get("rss")
    rows = said if isinstance(said, list) else []
    parts = [row[1] for row in rows if isinstance(row, list) and len(row) == _PAIR]
    known = [part for part in parts if _is_rss(part)]
    if known:
        report.rss = RssParts(*map(sum, zip(*known, strict=True)))
    if known and len(known) < len(parts):
        missing = len(parts) - len(known)
        report.notes.append(f"of {missing:,} of {len(parts):,} processes RSS is not known")


def _is_rss(parts: object) -> bool:
    """Return whether `parts` are valid byte counts of the parts of RSS."""
    return (
        isinstance(parts, list)
        and len(parts) == len(RssParts.__slots__)
        and all(isinstance(part, int) and abs(part) < _TOO_MANY for part in parts)
    )


def _sum(counts: list[object]) -> int | None:
    """Return the sum of counts, None if one of them is not known."""
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known and len(known) == len(counts) else None


def _add_losses(recording: RecordingFile, report: MemReport) -> None:
    """Add the losses of the recording to the report."""
    losses = recording.losses
    lost = sum(losses.total(kind) for kind in range(EXITS + 1))
    report.dropped += lost + losses.file_entries + losses.spoiled
    report.cost = Price.of((recording.end or {}).get("cost"))
    report.executed = ChildPrograms.of((recording.end or {}).get("executed"))
    report.notes += [*recording.lacking, *report.executed.lines()]
    report.notes += cost_lines(report.cost, "recording")
    report.notes += [f"{count:,} lost: {why}" for count, why in losses.messages()]


def _add_untraced(recording: RecordingFile, report: MemReport) -> None:
    """Add notes about programs of which nothing was recorded."""
    untraced = (recording.end or {}).get("untraced")
    for program in untraced if isinstance(untraced, list) else []:
        if isinstance(program, list) and len(program) == _PAIR:
            path, reason = map(str, program)
            report.notes.append(f"{path}: nothing was recorded: {in_full(reason)}")
