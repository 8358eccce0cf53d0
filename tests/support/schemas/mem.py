# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem report --json` promises, and the verbs that show parts of it."""

from __future__ import annotations

from typing import Any

from tests.support.schemas.checked import (
    COST,
    EXECUTED,
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _list_of,
    _object,
    _one_of,
    wrong_members,
)

_END = _object({"status": NUMBER_OR_NULL, "signal": TEXT_OR_NULL})
_CUT = {"at_byte": NUMBER, "by": TEXT}
_TOTALS = {
    "live": NUMBER,
    "live_bytes": NUMBER,
    "allocations": NUMBER,
    "frees": NUMBER,
    "allocated_bytes": NUMBER,
    "peak": NUMBER_OR_NULL,  # of blocks that were only counted nobody knows
    "peak_bytes": NUMBER_OR_NULL,
    "peak_time_ns": NUMBER_OR_NULL,
    "temporary": NUMBER_OR_NULL,
}
_OBJECTS = {
    "live": NUMBER,
    "live_bytes": NUMBER,
    "created": NUMBER_OR_NULL,
    "destroyed": NUMBER_OR_NULL,
}
_FRAME = {
    "image": TEXT_OR_NULL,
    "symbol": TEXT_OR_NULL,
    "offset": NUMBER_OR_NULL,
    "file": TEXT_OR_NULL,
    "line": NUMBER_OR_NULL,
}
_SURVIVOR = {
    "file": TEXT_OR_NULL,
    "line": NUMBER,
    "type": TEXT,
    "count": NUMBER,
    "bytes": NUMBER,
    "error_count": NUMBER_OR_NULL,
    "error_bytes": NUMBER_OR_NULL,
}
_NATIVE = {
    "api": TEXT,
    "count": NUMBER,
    "bytes": NUMBER,
    "error_bytes": NUMBER_OR_NULL,
    "thread": NUMBER_OR_NULL,
    "frames": _list_of(_object(_FRAME)),
}
_STATE = _one_of("complete", "partial", "cut", "disk-full")


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _row(members: dict[str, Check]) -> Check:
    """Return the check of a row; some have the pid of a child, or sizes that were counted."""

    def check(value: Any) -> bool:
        more = {"sizes": _list_of(NUMBER), "pid": NUMBER}
        there = {name: check for name, check in more.items() if name in value}
        return not wrong_members(value, {**members, **there})

    return check


_PARTS = ("objects", "native", "slack", "files", "stacks", "other")


def _rss(value: Any) -> bool:
    """Return whether six parts add up to their total."""
    names = dict.fromkeys(("total", *_PARTS), NUMBER)
    return (
        not wrong_members(value, names)
        and all(value[name] >= 0 for name in _PARTS)
        and value["total"] == sum(value[name] for name in _PARTS)
    )


REPORT: dict[str, Check] = {
    "schema": _one_of("soscope/mem-report/1"),
    "command": _list_of(TEXT),
    "pid": NUMBER,
    "exit": _END,
    "runtime": _object(
        {
            "name": _one_of("python", "ruby", None),
            "version": TEXT_OR_NULL,
            "libpython": _one_of("shared", "static", None),
        }
    ),
    "state": _STATE,
    "cut": _or_null(_object(_CUT)),
    "objects": _one_of("exact", "types", "sampled", "off"),
    "native_mode": _one_of("exact", "sampled", "count", "off"),
    "sample_bytes": NUMBER_OR_NULL,
    "survivors": _list_of(_row(_SURVIVOR)),
    "native": _list_of(_row(_NATIVE)),
    "totals": _object(
        {
            "objects": _or_null(_object(_OBJECTS)),
            "native": _or_null(_object(_TOTALS)),
            "mapped": _or_null(_object(_TOTALS)),
            "younger": _or_null(_object({"than_ns": NUMBER, "count": NUMBER, "bytes": NUMBER})),
            "rss": _or_null(_rss),
            "dropped": NUMBER,
        }
    ),
    "processes": _list_of(
        _object(
            {
                "pid": NUMBER,
                "parent": NUMBER_OR_NULL,
                "command": _list_of(TEXT),
                "state": _STATE,
                "cut": _or_null(_object(_CUT)),
                "exit": _END,
            }
        )
    ),
    "cost": _or_null(_object(COST)),
    "executed_by_children": _object(EXECUTED),
    "notes": _list_of(TEXT),
}

REFS: dict[str, Check] = {
    "schema": _one_of("soscope/mem-refs/1"),
    "pid": NUMBER,
    "where": _object({"file": TEXT, "line": NUMBER, "type": TEXT_OR_NULL}),
    "objects": NUMBER,
    "samples": NUMBER,
    "paths": _list_of(
        _object(
            {
                "count": NUMBER,
                "root": _object(
                    {
                        "kind": _one_of(
                            "module",
                            "class",
                            "frame",
                            "thread",
                            "interpreter",
                            "native",
                            "garbage",
                        ),
                        "name": TEXT_OR_NULL,
                        "file": TEXT_OR_NULL,
                        "line": NUMBER_OR_NULL,
                    }
                ),
                "steps": _list_of(_object({"type": TEXT, "by": TEXT_OR_NULL})),
            }
        )
    ),
    "notes": _list_of(TEXT),
}
