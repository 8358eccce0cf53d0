# SPDX-License-Identifier: Apache-2.0
"""The steps of a symbol's calls, for people (one or two columns) and soscope/explain/1."""

from __future__ import annotations

import textwrap
from itertools import zip_longest

from soscope.binfmt.listing import Line
from soscope.inspect.explain.callway import (
    CALL_SITE,
    STEPS,
    CallSite,
    CallWay,
    Explanation,
    FilePart,
    Given,
    Importer,
    ProcessPart,
    Step,
)
from soscope.inspect.explain.resolvers import NEVER_LAZY, Resolver, laziness_of
from soscope.model.call import printable
from soscope.model.filemap import LAZY, MACHO, UNBOUND, FileSlot
from soscope.report.output import json_document, members
from soscope.report.words import STATIC_KINDS, STRAIGHT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.slots.code import Use


# The route of calls of a symbol, in files and in a process, for programs: soscope/explain/1.
#
# The members are the same for both. A value that only a file has is null for a process, and the
# other way round.

SCHEMA = "soscope/explain/1"


def document(explanation: Explanation) -> str:
    """Return the JSON document."""
    is_process = explanation.pid is not None
    return json_document(
        {
            "schema": SCHEMA,
            **members(explanation, "pid symbol"),
            "images": [_image(image) for image in explanation.images],
            "ways": [
                _way(index, image, way)
                for index, image in enumerate(explanation.images)
                for way in image.ways
            ],
            "other_importers": list(explanation.others) if is_process else None,
            "defined_in": list(explanation.defined_in) if is_process else None,
        }
    )


def _image(image: Importer) -> dict[str, object]:
    return {
        **members(image, "name path format arch"),
        "kind": image.kind or None,
        "loader": image.loader or None,
        "laziness": laziness_of(image.loader, image.arch),
        "symbol": image.symbol,
        "near": list(image.near),
        "partial": list(image.partial),
    }


def _way(index: int, image: Importer, way: CallWay) -> dict[str, object]:
    """Return a route of a call. `index` is the index of its image in the document."""
    return {
        "image": index,
        "importer": image.name,
        "importer_path": image.path,
        **members(way, "symbol version provider provider_reason"),
        "slot": {
            "slot": hex(way.vaddr),
            **members(way, "kind symbol version"),
            **_slot_of_file(None if way.file is None else way.file.slot),
            **_slot_of_process(way.process),
        },
        "steps": [_step(step) for step in way.steps],
        "wrong": list(way.wrong),
        **_of_file(way.file),
        **_of_process(way),
    }


def _slot_of_file(slot: FileSlot | None) -> dict[str, object]:
    if slot is None:
        names = ("offset", "section", "symbol_type", "defined_here", "binding")
        return dict.fromkeys((*names, "resolver_argument", "helper", "signed", "stubs"))
    return {
        "offset": _address(slot.offset),
        **members(slot, "section symbol_type defined_here binding resolver_argument"),
        "helper": _address(slot.helper),
        "signed": None if slot.signed is None else slot.signed._asdict(),
        "stubs": [
            {"stub": hex(stub.vaddr), **members(stub, "section kind selector")}
            for stub in slot.stubs
        ],
    }


def _slot_of_process(part: ProcessPart | None) -> dict[str, object]:
    if part is None:
        names = ("addr", "value", "state", "to_image", "to_symbol", "expected_image", "page")
        return dict.fromkeys(names)
    return {
        "addr": hex(part.addr),
        "value": hex(part.value),
        **members(part, "state to_image to_symbol expected_image page"),
    }


def _of_file(part: FilePart | None) -> dict[str, object]:
    if part is None:
        names = ("call_sites", "resolver_arguments", "resolvers")
        return dict.fromkeys((*names, "first_call_instructions", "later_call_instructions"))
    first, later = part.instructions
    return {
        "call_sites": [_site(site) for site in part.sites],
        "resolver_arguments": [_given(given) for given in part.given],
        "resolvers": [members(each, _RESOLVER) for each in part.generations],
        "first_call_instructions": first or None,
        "later_call_instructions": later,
    }


def _of_process(way: CallWay) -> dict[str, object]:
    part = way.process
    if part is None:
        names = ("namespace", "link_map", "load_bias", "relocation", "uses", "definition")
        return dict.fromkeys((*names, "is_ifunc", "hook"))
    return {
        "namespace": part.namespace,
        "link_map": hex(part.link_map),
        "load_bias": hex(part.load_bias),
        "relocation": {
            "addr": hex(part.relocation.addr),
            "table": part.relocation.table,
            "index": part.relocation.entry,
            "type": way.kind,
            "r_offset": hex(way.vaddr),
            "aimed_at": hex(part.relocation.aimed_at),
            "symbol_index": part.relocation.symbol,
        },
        "uses": [_use(use) for use in part.uses],
        "definition": _address(part.definition),
        "is_ifunc": part.is_ifunc,
        "hook": list(part.hook),
    }


def _use(use: Use) -> dict[str, object]:
    return {
        "kind": use.kind,
        "addr": hex(use.addr),
        "displacement": hex(use.displacement),
        "section": use.section,
        "code": use.code.hex(),
    }


def _site(site: CallSite) -> dict[str, object]:
    return {
        "vaddr": hex(site.call.vaddr),
        "flow": site.call.flow,
        "target": hex(site.call.target),
        "section": site.section,
        "function": site.function or None,
    }


def _step(step: Step) -> dict[str, object]:
    return {
        **members(step, "step title where"),
        "lines": [_line(line) for line in step.lines],
        "notes": list(step.notes),
    }


def _line(line: Line) -> dict[str, object]:
    return {
        "vaddr": hex(line.vaddr),
        "code": line.code.hex(),
        "text": line.text,
        "target": _address(line.target),
        "refers_to": _address(line.refer),
    }


def _given(given: Given) -> dict[str, object]:
    return {
        "place": given.place,
        "kind": given.value.kind,
        "value": hex(given.value.number) if given.value.kind in ("number", "cell") else None,
        "meaning": given.meaning,
    }


_RESOLVER = "name versions calls saves vectors aligns source"


def _address(value: int | None) -> str | None:
    return None if value is None else hex(value)


# The route of calls of a symbol, for people: one column, or two side by side.

NARROW = 100  # columns below which columns are not placed side by side
_MOST = 100  # columns of a single text
_BETWEEN = " │ "
_LEAST_CODE = 23  # columns of eight bytes
_FORMATS = {MACHO: "Mach-O"}

Block = tuple[str, list[str]]


def text(explanation: Explanation, width: int) -> str:
    """Return the text. `width` is the width of the terminal."""
    images = explanation.images
    if len(images) == 2 and width >= NARROW:
        lines = _side_by_side(explanation, images[0], images[1], width)
    else:
        lines = []
        for image in images:
            lines += ["", *_alone(explanation, image, min(width, _MOST))]
        del lines[:1]
    if explanation.others:
        names = ", ".join(explanation.others)
        said = f"also imported by {names}: --from chooses"
        lines += ["", *_wrapped(said, min(width, _MOST), "  ")]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def title(explanation: Explanation, image: Importer) -> list[str]:
    """Return the head of a column: the symbol, and the kind of its file or process."""
    name = _FORMATS.get(image.format, image.format.upper())
    what = f"{name} {image.arch}, {image.kind}" if image.kind else f"{name} {image.arch}"
    where = image.path
    if explanation.pid is not None:
        where = f"{image.name} in process {explanation.pid} ({explanation.path})"
    return [image.symbol, f"{where}: {what}"]


# ---- columns ----


def _alone(explanation: Explanation, image: Importer, width: int) -> list[str]:
    lines = [line for part in title(explanation, image) for line in _wrapped(part, width, "")]
    if not image.ways:
        lines += ["", *_wrapped(nothing(image), width, "  ")]
    for index, way in enumerate(image.ways):
        lines += ["", *_head(image, index, width)]
        for head, body in numbered([way], [image])[0]:
            lines += [*(piece for line in (head, *body) for piece in _fit(line, width)), ""]
        del lines[-1]
    return lines


def _side_by_side(
    explanation: Explanation, left: Importer, right: Importer, width: int
) -> list[str]:
    column = (width - len(_BETWEEN)) // 2
    lines = _zipped(
        [piece for part in title(explanation, left) for piece in _wrapped(part, column, "")],
        [piece for part in title(explanation, right) for piece in _wrapped(part, column, "")],
        column,
    )
    lines.append("─" * column + "─┼─" + "─" * column)
    for index, ways in enumerate(zip_longest(left.ways or (None,), right.ways or (None,))):
        if index:
            lines += ["─" * column + "─┼─" + "─" * column]
        heads = [
            _head(image, index, column) if way is not None else []
            for image, way in zip((left, right), ways, strict=True)
        ]
        if any(heads):
            lines += _zipped(heads[0], heads[1], column)
        blocks = numbered(list(ways), [left, right])
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
        f"{printable(line):{column}}{_BETWEEN}{other}"
        for line, other in zip_longest(left, right, fillvalue="")
    ]


def _head(image: Importer, index: int, width: int) -> list[str]:
    if len(image.ways) < 2:
        return []
    way = image.ways[index]
    place = way.vaddr if way.process is None else way.process.addr
    return _wrapped(f"slot {index + 1} of {len(image.ways)}, at {place:#x}", width, "")


def nothing(image: Importer) -> str:
    """Return a message that an image has no slot of the symbol."""
    said = f"no slot for '{image.symbol}'"
    if image.kind in STATIC_KINDS:
        return f"{said}: {STRAIGHT}: soscope resolve -p PID finds functions of it"
    if image.near:
        said += f"; near to it: {', '.join(image.near)}"
    return said


# ---- steps ----


def numbered(ways: list[CallWay | None], images: list[Importer]) -> list[list[Block]]:
    """Return the steps of each route as (head, lines), with equal steps in all of them.

    Steps have the same numbers on both sides. A step that a route does not have is listed as
    missing.
    """
    columns: list[list[Block]] = [[] for _ in ways]
    number = 0
    for name in STEPS:
        steps = [None if way is None else way.step(name) for way in ways]
        if not any(steps):
            continue
        number += 1
        heading = next(step.title for step in steps if step is not None).partition(" (")[0]
        for column, step, way in zip(columns, steps, ways, strict=True):
            if step is None:
                column.append(("" if way is None else f"{number:2}  no {heading}", []))
            else:
                where = f" · {step.where}" if step.where else ""
                column.append((f"{number:2}  {step.title}{where}", _body(step, _called(way, name))))
    for column, way, image in zip(columns, ways, images, strict=True):
        if way is None:
            column.append(("", [f"    {nothing(image)}"] if not image.ways else []))
        elif way.file is not None:
            head = f"{number + 1:2}  the loader"
            column.append((head, [f"    {line}" for line in _loader(image, way, way.file)]))
    return columns


def _called(way: CallWay | None, step: str) -> int | None:
    """Return the address of a step's calling instruction, None if none is marked."""
    if way is None or way.file is None or step != CALL_SITE or not way.file.sites:
        return None
    return way.file.sites[0].call.vaddr


def _body(step: Step, called: int | None) -> list[str]:
    wide = max((len(code_text(line)) for line in step.lines), default=0)
    address = max((len(f"{line.vaddr:#x}") for line in step.lines), default=0)
    called = called if len(step.lines) > 1 else None
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


def _loader(image: Importer, way: CallWay, part: FilePart) -> list[str]:
    lines = [f"wrong: {fault}" for fault in way.wrong]
    laziness = laziness_of(image.loader, image.arch)
    if laziness is not None and image.loader in NEVER_LAZY:
        return [*lines, laziness]
    if part.slot.binding == UNBOUND:
        return [*lines, "it does nothing about this slot"]
    if part.slot.binding != LAZY:
        return [*lines, f"not lazy in this file: bound {_when(part.slot.binding)}"]
    first, _ = part.instructions
    lines.append(laziness or "which loader binds it is not said in the file")
    if first:
        lines.append(f"where it is lazy, the first call takes {first} instructions to the resolver")
    for resolver in part.generations:
        lines += generation(resolver)
    return lines


def _when(binding: str) -> str:
    return {
        "now": "when the image is loaded",
        "weak": "when the image is loaded, across all images",
        "irelative": "at the start, by the image itself",
        "prelinked": "before it was ever started",
        "tlsdesc": "by the loader, when it is loaded or first used",
    }.get(binding, binding)


def generation(resolver: Resolver) -> list[str]:
    """Return the facts about one generation of a resolver."""
    return [
        f"{resolver.versions}: {resolver.name}",
        f"  calls   {resolver.calls}",
        f"  saves   {resolver.saves}",
        f"  vectors {resolver.vectors}",
        f"  stack   {resolver.aligns}",
        f"  source  {resolver.source}",
    ]


# ---- lines that are too long ----


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        line, max(width, 20), subsequent_indent=indent, break_on_hyphens=False
    ) or [""]


def _fit(line: str, width: int) -> list[str]:
    """Return a line in pieces of at most `width` columns, with its indentation."""
    if len(line) <= width:
        return [line]
    rest = line.lstrip(" >")
    indent = line[: len(line) - len(rest)]
    address, _, code = rest.partition("  ")
    if address.startswith("0x") and "  " in code:  # an instruction: its text gets a line of its own
        shown, _, tail = code.partition("  ")
        behind = " " * (len(indent) + len(address) + 2)
        head = f"{indent}{address}  {shown.rstrip()}"
        return [head, *_wrapped(behind + tail.strip(), width, behind + "  ")]
    key = rest.partition(" ")[0]
    hang = 8 if key in ("calls", "saves", "vectors", "stack", "source") else 2
    return _wrapped(line, width, " " * (len(indent) + hang))
