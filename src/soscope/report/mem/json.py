# SPDX-License-Identifier: Apache-2.0
"""The report of a recording of memory, as one JSON document."""

from __future__ import annotations

from soscope.instruments.mem.model import (
    SCHEMA,
    Cut,
    EndOf,
    MemProcess,
    MemReport,
    NativeRow,
    NativeTotals,
    RssParts,
    Survivor,
    Younger,
)
from soscope.model.call import StackFrame
from soscope.report.jsontext import json_document


def document(
    report: MemReport, limit: int | None = None, groups: dict[str, object] | None = None
) -> str:
    """Return the document, with the first `limit` survivors and native rows (None for all).

    `groups` are the same rows added up, None if they were not asked for.
    """
    runtime = report.runtime
    objects = report.object_totals
    return json_document(
        {
            "schema": SCHEMA,
            "command": report.command,
            "pid": report.pid,
            "exit": _end(report.exit or EndOf()),
            "runtime": {name: runtime.get(name) for name in ("name", "version", "libpython")},
            "state": report.state,
            "cut": _cut(report.cut),
            "objects": report.objects_mode,
            "native_mode": report.native_mode,
            "sample_bytes": report.sample_bytes,
            "survivors": [_survivor(row, report) for row in report.survivors[:limit]],
            "native": [_native(row, report) for row in report.native[:limit]],
            "totals": {
                "objects": None
                if objects is None
                else {
                    "live": objects.live,
                    "live_bytes": objects.live_bytes,
                    "created": objects.created,
                    "destroyed": objects.destroyed,
                },
                "native": _totals(report.native_totals),
                "mapped": _totals(report.mapped_totals),
                "younger": _younger(report.younger),
                "rss": _rss(report.rss),
                "dropped": report.dropped,
            },
            "processes": [_process(process) for process in report.processes],
            "cost": None if report.cost is None else report.cost.document(),
            "executed_by_children": report.executed.document(),
            "notes": report.notes,
        }
        | ({} if groups is None else {"groups": groups})
    )


def _end(end: EndOf) -> dict[str, object]:
    return {"status": end.status, "signal": end.signal}


def _cut(cut: Cut | None) -> dict[str, object] | None:
    return None if cut is None else {"at_byte": cut.at_byte, "by": cut.by}


def _survivor(row: Survivor, report: MemReport) -> dict[str, object]:
    said: dict[str, object] = {
        "file": row.file,
        "line": row.line,
        "type": row.qualname if report.uses_qualname else row.type,
        "count": row.count,
        "bytes": row.bytes,
        "error_count": row.error_count,
        "error_bytes": row.error_bytes,
    }
    if report.follows:
        said["pid"] = row.pid
    return said


def _native(row: NativeRow, report: MemReport) -> dict[str, object]:
    said: dict[str, object] = {
        "api": row.api,
        "count": row.count,
        "bytes": row.bytes,
        "error_bytes": row.error_bytes,
        "thread": row.thread,
        "frames": [frame_member(frame) for frame in row.frames],
    }
    if row.sizes is not None:
        said["sizes"] = list(row.sizes)
    if report.follows:
        said["pid"] = row.pid
    return said


def frame_member(frame: StackFrame) -> dict[str, object]:
    """Return a frame as a member of a document."""
    return {
        "image": frame.image,
        "symbol": frame.symbol,
        "offset": frame.offset,
        "file": frame.file,
        "line": frame.line,
    }


def _totals(totals: NativeTotals | None) -> dict[str, object] | None:
    if totals is None:
        return None
    return {
        "live": totals.live,
        "live_bytes": totals.live_bytes,
        "allocations": totals.allocations,
        "frees": totals.frees,
        "allocated_bytes": totals.allocated_bytes,
        "peak": totals.peak,
        "peak_bytes": totals.peak_bytes,
        "peak_time_ns": totals.peak_time_ns,
        "temporary": totals.temporary,
    }


def _younger(younger: Younger | None) -> dict[str, int] | None:
    if younger is None:
        return None
    return {"than_ns": younger.than_ns, "count": younger.count, "bytes": younger.bytes}


def _rss(rss: RssParts | None) -> dict[str, int] | None:
    if rss is None:
        return None
    return {"total": rss.total} | {name: getattr(rss, name) for name in rss.__slots__}


def _process(process: MemProcess) -> dict[str, object]:
    return {
        "pid": process.pid,
        "parent": process.parent,
        "command": process.command,
        "state": process.state,
        "cut": _cut(process.cut),
        "exit": _end(process.exit or EndOf()),
    }
