# SPDX-License-Identifier: Apache-2.0
"""The life of one call in a file, as text: one column, or two of them side by side."""

from __future__ import annotations

import textwrap
from itertools import zip_longest

from soscope.binfmt.listing.base import Line
from soscope.inspect.callsteps import CALL_SITE, STEPS, Site, Step, Way
from soscope.inspect.explainfile import Subject
from soscope.inspect.resolvers import NEVER_LAZY, Resolver, laziness_of
from soscope.model.filemap import LAZY, MACHO, UNBOUND
from soscope.report.words import printable

NARROW = 100  # columns below which nothing stands side by side
_MOST = 100  # columns of a text that stands alone
_BETWEEN = " │ "
_LEAST_CODE = 23  # columns of eight bytes
_FORMATS = {MACHO: "Mach-O"}

Block = tuple[str, list[str]]


def text(subjects: list[Subject], width: int) -> str:
    """Return the text; `width` is the terminal's."""
    if len(subjects) == 2 and width >= NARROW:
        lines = _side_by_side(subjects[0], subjects[1], width)
    else:
        lines = []
        for one in subjects:
            lines += [*([""] if lines else []), *_alone(one, min(width, _MOST))]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def title(subject: Subject) -> list[str]:
    """Return the head of a column: the symbol, and what kind of file it is in."""
    name = _FORMATS.get(subject.format, subject.format.upper())
    return [subject.symbol, f"{subject.path}: {name} {subject.arch}, {subject.kind}"]


# ---- columns ----


def _alone(subject: Subject, width: int) -> list[str]:
    lines = [line for part in title(subject) for line in _wrapped(part, width, "")]
    if not subject.ways:
        lines += ["", *_wrapped(nothing(subject), width, "  ")]
    for index, way in enumerate(subject.ways):
        lines += ["", *_head(subject, index, width)]
        for head, body in numbered([way], [subject])[0]:
            lines += [*(piece for one in (head, *body) for piece in _fit(one, width)), ""]
        del lines[-1]
    return lines


def _side_by_side(left: Subject, right: Subject, width: int) -> list[str]:
    column = (width - len(_BETWEEN)) // 2
    lines = _zipped(
        [piece for one in title(left) for piece in _wrapped(one, column, "")],
        [piece for one in title(right) for piece in _wrapped(one, column, "")],
        column,
    )
    lines.append("─" * column + "─┼─" + "─" * column)
    for index, (one, other) in enumerate(zip_longest(left.ways or (None,), right.ways or (None,))):
        if index:
            lines += ["─" * column + "─┼─" + "─" * column]
        heads = [
            _head(subject, index, column) if way is not None else []
            for subject, way in ((left, one), (right, other))
        ]
        if any(heads):
            lines += _zipped(heads[0], heads[1], column)
        blocks = numbered([one, other], [left, right])
        for (head, body), (other_head, other_body) in zip(blocks[0], blocks[1], strict=True):
            lines += _zipped(
                [piece for line in (head, *body) for piece in _fit(line, column)],
                [piece for line in (other_head, *other_body) for piece in _fit(line, column)],
                column,
            )
            lines.append(" " * column + _BETWEEN)
        del lines[-1]
    return lines


def _zipped(left: list[str], right: list[str], column: int) -> list[str]:
    return [
        f"{printable(one):{column}}{_BETWEEN}{other}"
        for one, other in zip_longest(left, right, fillvalue="")
    ]


def _head(subject: Subject, index: int, width: int) -> list[str]:
    if len(subject.ways) < 2:
        return []
    slot = subject.ways[index].slot
    return _wrapped(f"slot {index + 1} of {len(subject.ways)}, at {slot.vaddr:#x}", width, "")


def nothing(subject: Subject) -> str:
    """Say that a file has no slot of the symbol."""
    said = f"no slot for '{subject.symbol}'"
    if subject.near:
        said += f"; near to it: {', '.join(subject.near)}"
    return said


# ---- steps ----


def numbered(ways: list[Way | None], subjects: list[Subject]) -> list[list[Block]]:
    """Return for each way its steps as (head, lines), each with the same steps as the others.

    Steps have the same numbers on both sides; a step that a way does without is said to be.
    """
    found: list[list[Block]] = [[] for _ in ways]
    number = 0
    for name in STEPS:
        steps = [None if way is None else way.step(name) for way in ways]
        if not any(steps):
            continue
        number += 1
        heading = next(one.title for one in steps if one is not None).partition(" (")[0]
        for column, step, way in zip(found, steps, ways, strict=True):
            if step is None:
                column.append(("" if way is None else f"{number:2}  no {heading}", []))
            else:
                where = f" · {step.where}" if step.where else ""
                sites = way.sites if way is not None and name == CALL_SITE else ()
                column.append((f"{number:2}  {step.title}{where}", _body(step, sites)))
    for column, way, subject in zip(found, ways, subjects, strict=True):
        if way is None:
            column.append(("", [f"    {nothing(subject)}"] if not subject.ways else []))
        else:
            head = f"{number + 1:2}  the loader"
            column.append((head, [f"    {line}" for line in _loader(subject, way)]))
    return found


def _body(step: Step, sites: tuple[Site, ...]) -> list[str]:
    wide = max((len(code_text(line)) for line in step.lines), default=0)
    address = max((len(f"{line.vaddr:#x}") for line in step.lines), default=0)
    called = sites[0].call.vaddr if sites and len(step.lines) > 1 else None
    lines = [
        f"  {'>' if line.vaddr == called else ' '} {line.vaddr:#{address}x}"
        f"  {code_text(line):{min(wide, _LEAST_CODE)}}  {said(line)}"
        for line in step.lines
    ]
    return lines + [f"    {note}" for note in step.notes]


def code_text(line: Line) -> str:
    """Return the bytes of an instruction."""
    return line.code.hex(" ")


def said(line: Line) -> str:
    """Return an instruction with the address that it refers to."""
    place = line.refer if line.refer is not None else None
    shown = "" if place is None or f"{place:#x}" in line.text else f"  # {place:#x}"
    return line.text + shown


def _loader(subject: Subject, way: Way) -> list[str]:
    lines = []
    if way.wrong:
        lines += [f"wrong: {one}" for one in way.wrong]
    told = laziness_of(subject.loader, subject.arch)
    if told is not None and subject.loader in NEVER_LAZY:
        return [*lines, told]
    if way.slot.binding == UNBOUND:
        return [*lines, "it does nothing about this slot"]
    if way.slot.binding != LAZY:
        return [*lines, f"not lazy in this file: bound {_when(way)}"]
    first, _ = way.instructions
    lines.append(told or "which loader binds it is not said in the file")
    if first:
        lines.append(f"where it is lazy, the first call takes {first} instructions to the resolver")
    for one in way.generations:
        lines += generation(one)
    return lines


def _when(way: Way) -> str:
    return {
        "now": "when the image is loaded",
        "weak": "when the image is loaded, across all images",
        "irelative": "at the start, by the image itself",
        "prelinked": "before it was ever started",
        "tlsdesc": "by the loader, when it is loaded or first used",
    }.get(way.slot.binding, way.slot.binding)


def generation(one: Resolver) -> list[str]:
    """Return what is known of one generation of a resolver."""
    return [
        f"{one.versions}: {one.name}",
        f"  calls   {one.calls}",
        f"  saves   {one.saves}",
        f"  vectors {one.vectors}",
        f"  stack   {one.aligns}",
        f"  source  {one.source}",
    ]


# ---- lines that are too long ----


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        line, max(width, 20), subsequent_indent=indent, break_on_hyphens=False
    ) or [""]


def _fit(line: str, width: int) -> list[str]:
    """Return a line in pieces that are at most `width` wide, indented as it is."""
    if len(line) <= width:
        return [line]
    rest = line.lstrip(" >")
    indent = line[: len(line) - len(rest)]
    address, _, code = rest.partition("  ")
    if address.startswith("0x") and "  " in code:  # an instruction: its text on a line of its own
        shown, _, tail = code.partition("  ")
        behind = " " * (len(indent) + len(address) + 2)
        head = f"{indent}{address}  {shown.rstrip()}"
        return [head, *_wrapped(behind + tail.strip(), width, behind + "  ")]
    key = rest.partition(" ")[0]
    hang = 8 if key in ("calls", "saves", "vectors", "stack", "source") else 2
    return _wrapped(line, width, " " * (len(indent) + hang))
