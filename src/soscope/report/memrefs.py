# SPDX-License-Identifier: Apache-2.0
"""The holders of objects: lines for people, and soscope/mem-refs/1."""

from __future__ import annotations

from itertools import pairwise

from soscope.instruments.mem.refs.model import (
    CLASS,
    FRAME,
    GARBAGE,
    INTERPRETER,
    MODULE,
    NATIVE,
    THREAD,
    HolderPath,
    HolderStep,
    RefsReport,
)
from soscope.model.call import printable
from soscope.report.output import json_document, members
from soscope.report.words import plural

REFS_SCHEMA = "soscope/mem-refs/1"
_ARROW = " → "
_MOST = 20  # paths
_SHOWN = 12  # steps of a path; only both ends of longer ones are shown


def refs_document(report: RefsReport, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` paths (None for all)."""
    return json_document(
        {
            "schema": REFS_SCHEMA,
            "pid": report.pid,
            "where": members(report.where, "file line type"),
            **members(report, "objects samples"),
            "paths": [
                {
                    "count": path.count,
                    "root": members(path.root, "kind name file line"),
                    "steps": [members(step, "type by") for step in path.steps],
                }
                for path in report.paths[:limit]
            ],
            "notes": report.notes,
        }
    )


def refs_text(report: RefsReport, limit: int | None = None) -> str:
    """Return a line for each shape of a path, most frequent first."""
    most = _MOST if limit is None else limit
    objects = f"{plural(report.objects, 'object')} made at {report.where}"
    looked = f"process {report.pid}: {objects}, {report.samples:,} looked at"
    lines = [looked, ""]
    lines += [f"{path.count:,} of {report.samples:,}: {_way(path)}" for path in report.paths[:most]]
    if len(report.paths) > most:
        lines.append(f"… {plural(len(report.paths) - most, 'more way')}: --limit")
    return "".join(f"{printable(line)}\n" for line in (*lines, *report.notes))


def _way(path: HolderPath) -> str:
    steps = path.steps
    held = [f"{before.type}{_by(step)}" for before, step in pairwise(steps)]
    parts = [_root(path), *held, steps[-1].type]
    if len(parts) > _SHOWN:
        half = _SHOWN // 2
        left = len(parts) - 2 * half
        parts = [*parts[:half], f"… {plural(left, 'more step')} …", *parts[-half:]]
    return _ARROW.join(parts)


def _by(step: HolderStep) -> str:
    by = step.by
    if by is None:
        return ""
    return by if by[0] in ".[" else f" {by}"


def _root(path: HolderPath) -> str:
    root, by = path.root, path.steps[0].by
    name = root.name or "?"
    if root.kind == MODULE:
        return f"{name}.{by} (module global)" if by else f"{name} (module)"
    if root.kind == CLASS:
        return f"{name}.{by} (class attribute)" if by else f"{name} (class)"
    if root.kind == FRAME:
        where = f"{root.file}:{root.line}" if root.file else "?"
        return f"{name}() at {where}, local {by}" if by else f"{name}() at {where}"
    if root.kind == THREAD:
        return f"thread {name}" + (f" {by}" if by else "")
    return {
        INTERPRETER: "the interpreter itself" + (f" ({root.name})" if root.name else ""),
        NATIVE: "held by C code (no referrer known)",
        GARBAGE: "garbage: nothing that is in use holds it",
    }[root.kind]
