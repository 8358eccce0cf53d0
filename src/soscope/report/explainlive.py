# SPDX-License-Identifier: Apache-2.0
"""The way of a call, step by step: text for people, soscope/explain/1 for programs."""

from __future__ import annotations

from soscope.inspect.explainlive import Explanation, Way, table_name, type_name
from soscope.process.slots.bindings import HOOKED, INTERPOSED, UNBOUND
from soscope.process.slots.slotuses import STUB, Use, instruction
from soscope.report.words import json_document, plural, printable

SCHEMA = "soscope/explain/1"

_INDENT = 14
_MOST_USES = 6


def text(found: Explanation) -> str:
    """Return the text."""
    lines = [f"{found.symbol} in process {found.pid} ({found.path})"]
    for way in found.ways:
        lines += ["", *_way(way)]
    if found.others:
        names = ", ".join(found.others)
        lines += ["", f"also imported by {names}: --from chooses"]
    return "\n".join(map(printable, lines)) + "\n"


def _step(name: str, *lines: str) -> list[str]:
    head, *rest = lines
    return [f"  {name:{_INDENT}}{head}", *(f"  {'':{_INDENT}}{line}" for line in rest)]


def _way(way: Way) -> list[str]:
    one = way.binding
    image = way.importer
    name = one.symbol if one.version is None else f"{one.symbol}@{one.version}"
    relocation = one.relocation
    space = f" of namespace {image.namespace}" if image.namespace else ""
    aimed = []
    if way.aimed_at != one.addr:
        aimed = [f"aimed at {way.aimed_at:#x} now: the loader is to bind there"]
    return [
        f"from {image.name}",
        *_step(
            "link map",
            f"entry {image.link_map:#x}, {way.order} of {way.of}{space}: load bias"
            f" {image.load_bias:#x}, dynamic section at {image.dynamic:#x}",
            f"{image.path}",
        ),
        *_step(
            "relocation",
            f"{table_name(one)}[{way.relocation_index}] at {way.relocation_addr:#x}:"
            f" {type_name(one)}, symbol {relocation.symbol}, {name}",
            f"r_offset {relocation.vaddr:#x} + load bias {image.load_bias:#x} = slot {one.addr:#x}",
            *aimed,
        ),
        *_uses(way),
        *_slot(way),
        *_definition(way),
        *_step("a hook", *way.hook),
    ]


def _uses(way: Way) -> list[str]:
    if not way.is_searched:
        return _step("code", "not searched for what goes through the slot: it is another machine's")
    lines = []
    for use in (*way.stubs, *way.calls)[:_MOST_USES]:
        place = use.section or ("a stub" if use.kind == STUB else "its code")
        lines.append(f"{use.addr:#x} in {place}: {instruction(use)}")
    left = len(way.stubs) + len(way.calls) - len(lines)
    if left > 0:
        lines.append(f"and {left:,} more")
    loads = len(way.uses) - len(way.stubs) - len(way.calls)
    if loads:
        taken = ": the address is taken" if way.is_native else ", or go through another table"
        lines.append(f"{plural(loads, 'instruction')} may load it{taken}")
    if not lines:
        lines.append("no code that goes through the slot was found")
    return _step("stub" if way.stubs else "code", *lines)


def _slot(way: Way) -> list[str]:
    one = way.binding
    how = {
        UNBOUND: "unbound: the next call goes to the loader, which will bind it",
        INTERPOSED: f"interposed: {way.row.to_image} comes before {way.row.expected_image}",
        HOOKED: f"hooked: it leads to {way.row.to_image}",
    }.get(one.state, f"bound to {way.row.to_image}" if way.row.to_image else "bound to nothing")
    lines = [f"{one.addr:#x} ({way.page}) holds {one.value:#x}: {how}"]
    if one.sites:
        sites = plural(len(one.sites), "instruction")
        lines.append(f"{sites} re-aimed, to {one.target:#x}: {way.row.to_image}")
    return _step("slot", *lines)


def _definition(way: Way) -> list[str]:
    one = way.binding
    image = one.expected if one.state != INTERPOSED else one.to_image
    if way.definition is None or image is None:
        return _step("definition", "none in the scope of the image")
    what = "an IFUNC's resolver, which chose what the slot holds"
    if not way.is_resolver:
        what = one.symbol
    return _step(
        "definition",
        f"{way.definition:#x}: {what} in {image.name}+{way.definition - image.load_bias:#x}",
        f"found in image {way.place} of {way.places} in which the loader looks",
    )


def document(found: Explanation) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "pid": found.pid,
        "symbol": found.symbol,
        "ways": [_way_object(way) for way in found.ways],
        "other_importers": found.others,
        "defined_in": found.defined_in,
    }
    return json_document(value)


def _way_object(way: Way) -> dict[str, object]:
    one = way.binding
    image = way.importer
    return {
        "importer": image.name,
        "importer_path": image.path,
        "namespace": image.namespace,
        "link_map": hex(image.link_map),
        "load_bias": hex(image.load_bias),
        "relocation": {
            "addr": hex(way.relocation_addr),
            "table": table_name(one),
            "index": way.relocation_index,
            "type": type_name(one),
            "r_offset": hex(one.relocation.vaddr),
            "aimed_at": hex(way.aimed_at),
            "symbol_index": one.relocation.symbol,
        },
        "uses": [_use_object(use) for use in way.uses],
        "slot": {
            "addr": hex(one.addr),
            "value": hex(one.value),
            "state": one.state,
            "to_image": way.row.to_image,
            "to_symbol": way.row.to_symbol,
            "expected_image": way.row.expected_image,
            "page": way.page,
        },
        "symbol": one.symbol,
        "version": one.version,
        "definition": None if way.definition is None else hex(way.definition),
        "is_ifunc": way.is_resolver,
        "hook": way.hook,
    }


def _use_object(use: Use) -> dict[str, object]:
    return {
        "kind": use.kind,
        "addr": hex(use.addr),
        "displacement": hex(use.displacement),
        "section": use.section,
        "code": use.code.hex(),
    }
