# SPDX-License-Identifier: Apache-2.0
"""The life of one call in a file, for programs: soscope/explain-file/1."""

from __future__ import annotations

from soscope.binfmt.listing.base import Line
from soscope.inspect.callsteps import Given, Site, Step, Way
from soscope.inspect.explainfile import Subject
from soscope.inspect.resolvers import Resolver, laziness_of
from soscope.model.filemap import Slot
from soscope.report.words import json_document

SCHEMA = "soscope/explain-file/1"


def document(symbol: str, subjects: list[Subject]) -> str:
    """Return the JSON document."""
    return json_document(
        {"schema": SCHEMA, "symbol": symbol, "images": [_image(one) for one in subjects]}
    )


def _image(one: Subject) -> dict[str, object]:
    return {
        "path": one.path,
        "format": one.format,
        "arch": one.arch,
        "kind": one.kind,
        "loader": one.loader or None,
        "laziness": laziness_of(one.loader, one.arch),
        "symbol": one.symbol,
        "near": list(one.near),
        "partial": list(one.partial),
        "ways": [_way(way) for way in one.ways],
    }


def _way(way: Way) -> dict[str, object]:
    first, later = way.instructions
    return {
        "slot": _slot(way.slot),
        "provider": way.provider,
        "provider_reason": way.provider_reason,
        "call_sites": [_site(one) for one in way.sites],
        "steps": [_step(one) for one in way.steps],
        "resolver_arguments": [_given(one) for one in way.given],
        "resolvers": [_resolver(one) for one in way.generations],
        "first_call_instructions": first or None,
        "later_call_instructions": later,
        "wrong": list(way.wrong),
    }


def _slot(slot: Slot) -> dict[str, object]:
    return {
        "slot": hex(slot.vaddr),
        "offset": None if slot.offset is None else hex(slot.offset),
        "section": slot.section,
        "kind": slot.kind,
        "symbol": slot.symbol,
        "version": slot.version,
        "symbol_type": slot.symbol_type,
        "defined_here": slot.defined_here,
        "binding": slot.binding,
        "resolver_argument": slot.resolver_argument,
        "helper": None if slot.helper is None else hex(slot.helper),
        "signed": None if slot.signed is None else slot.signed._asdict(),
        "stubs": [
            {
                "stub": hex(one.vaddr),
                "section": one.section,
                "kind": one.kind,
                "selector": one.selector,
            }
            for one in slot.stubs
        ],
    }


def _site(one: Site) -> dict[str, object]:
    return {
        "vaddr": hex(one.call.vaddr),
        "flow": one.call.flow,
        "target": hex(one.call.target),
        "section": one.section,
        "function": one.function or None,
    }


def _step(one: Step) -> dict[str, object]:
    return {
        "step": one.step,
        "title": one.title,
        "where": one.where,
        "lines": [_line(line) for line in one.lines],
        "notes": list(one.notes),
    }


def _line(line: Line) -> dict[str, object]:
    return {
        "vaddr": hex(line.vaddr),
        "code": line.code.hex(),
        "text": line.text,
        "target": None if line.target is None else hex(line.target),
        "refers_to": None if line.refer is None else hex(line.refer),
    }


def _given(one: Given) -> dict[str, object]:
    return {
        "place": one.place,
        "kind": one.value.kind,
        "value": hex(one.value.number) if one.value.kind in ("number", "cell") else None,
        "meaning": one.meaning,
    }


def _resolver(one: Resolver) -> dict[str, object]:
    return {
        "name": one.name,
        "versions": one.versions,
        "calls": one.calls,
        "saves": one.saves,
        "vectors": one.vectors,
        "aligns": one.aligns,
        "source": one.source,
    }
