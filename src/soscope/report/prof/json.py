# SPDX-License-Identifier: Apache-2.0
"""A profile as one JSON document."""

from __future__ import annotations

from soscope.instruments.prof.model import (
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
    sample_rows,
    tables_of,
)
from soscope.model.call import importance
from soscope.report.delays import delay_members
from soscope.report.jsontext import json_document

_NOT_KNOWN = -1  # sorts behind all known values


def document(profile: Profile, limit: int | None = None, by: str = BY_FUNCTION) -> str:
    """Return the document, schema `soscope/prof-report/1`: largest times first, in nanoseconds.

    Each list has its first `limit` rows, or all if it is None. If `by` is not BY_FUNCTION, there
    are rows of images or threads beside those of functions. Functions outside, of which only
    calls are known, are only in the arcs.
    """
    samples = sorted(profile.samples, key=lambda sample: -sample.weight)
    return json_document(
        {
            "schema": SCHEMA,
            "command": profile.command,
            "exit": {"status": profile.status, "signal": profile.signal},
            "state": profile.state,
            "mode": profile.mode,
            "boundary": profile.boundary,
            "sample_ns": profile.sample_ns,
            "functions": [_function(*row) for row in _ranked(profile)[:limit]],
            "arcs": [_arc(arc, profile) for arc in sorted(profile.arcs, key=_arc_rank)[:limit]],
            "sampled": [_sampled(row) for row in sample_rows(profile)[:limit]],
            "samples": [_sample(sample, profile) for sample in samples[:limit]],
            "totals": {
                "calls": profile.calls,
                "dropped": profile.dropped,
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
        "processor_ns": profile.processor_ns,
        "hooks_ns": profile.hooks_ns,
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
        "image": function.image,
        "symbol": function.symbol,
        "addr": _addr(function),
        "file": function.file,
        "line": function.line,
        "calls": sums.calls,
        "total_ns": sums.total_ns,
        "self_ns": sums.self_ns,
        "overhead_ns": sums.overhead_ns,
        "doubt_ns": sums.doubt_ns,
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
        "calls": arc.calls,
        "total_ns": arc.total_ns,
        "total_doubt_ns": arc.total_doubt_ns,
        "self_ns": arc.self_ns,
        "doubt_ns": arc.doubt_ns,
    }


def _sampled(row: FlatRow) -> dict[str, object]:
    return {
        "image": row.frame.image,
        "symbol": row.frame.symbol,
        "file": row.frame.file,
        "line": row.frame.line,
        "samples": row.count,
        "total_ns": row.total_ns,
        "self_ns": row.self_ns,
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
                "self_ns": row.self_ns,
                "overhead_ns": row.overhead_ns,
                "doubt_ns": row.doubt_ns,
            }
            for row in table[:limit]
        ]
    return {"by": by, "rows": rows}


def _sample(sample: ProfSample, profile: Profile) -> dict[str, object]:
    return {
        "thread": profile.threads[sample.thread].tid,
        "frames": [
            {
                "image": frame.image,
                "symbol": frame.symbol,
                "file": frame.file,
                "line": frame.line,
            }
            for frame in sample.frames
        ],
        "weight": sample.weight,
    }
