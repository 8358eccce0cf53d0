# SPDX-License-Identifier: Apache-2.0
"""Rows of a report added up, for people."""

from __future__ import annotations

import datetime as dt

from soscope.frames.cppnames import CppNames
from soscope.instruments.mem.groups import THREAD, TIME, Group
from soscope.instruments.mem.model import MemReport
from soscope.model.call import printable
from soscope.report.mem.text import size_text, state_lines

_NS = 1_000_000_000


def text_of(report: MemReport, way: str, groups: list[Group]) -> str:
    """Return a table of groups, and notes."""
    if way in (THREAD, TIME):
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
