# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where` for people: one table that adds up, and its explanation."""

from __future__ import annotations

from soscope.model.call import printable
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.inspect.memory import Look, RssPart, Verdict

_MOST_NAMED = 6  # rows of one kind
_SMALL = 200  # a part below 1 / this of RSS gets no row
_MIB = 1 << 20
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


def text(look: Look, verdict: Verdict) -> str:
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
