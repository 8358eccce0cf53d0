# SPDX-License-Identifier: Apache-2.0
"""The route of calls of a symbol, in files and in a process, for programs: soscope/explain/1.

The members are the same for both. A value that only a file has is null for a process, and the
other way round.
"""

from __future__ import annotations

from soscope.binfmt.listing import Line
from soscope.inspect.explain.callway import (
    CallSite,
    CallWay,
    Explanation,
    FilePart,
    Given,
    Importer,
    ProcessPart,
    Step,
)
from soscope.inspect.explain.resolvers import Resolver, laziness_of
from soscope.model.filemap import FileSlot
from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.slots.code import Use

SCHEMA = "soscope/explain/1"


def document(explanation: Explanation) -> str:
    """Return the JSON document."""
    is_process = explanation.pid is not None
    return json_document(
        {
            "schema": SCHEMA,
            "pid": explanation.pid,
            "symbol": explanation.symbol,
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
        "name": image.name,
        "path": image.path,
        "format": image.format,
        "arch": image.arch,
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
        "symbol": way.symbol,
        "version": way.version,
        "provider": way.provider,
        "provider_reason": way.provider_reason,
        "slot": {
            "slot": hex(way.vaddr),
            "kind": way.kind,
            "symbol": way.symbol,
            "version": way.version,
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
        members = ("offset", "section", "symbol_type", "defined_here", "binding")
        return dict.fromkeys((*members, "resolver_argument", "helper", "signed", "stubs"))
    return {
        "offset": _address(slot.offset),
        "section": slot.section,
        "symbol_type": slot.symbol_type,
        "defined_here": slot.defined_here,
        "binding": slot.binding,
        "resolver_argument": slot.resolver_argument,
        "helper": _address(slot.helper),
        "signed": None if slot.signed is None else slot.signed._asdict(),
        "stubs": [
            {
                "stub": hex(stub.vaddr),
                "section": stub.section,
                "kind": stub.kind,
                "selector": stub.selector,
            }
            for stub in slot.stubs
        ],
    }


def _slot_of_process(part: ProcessPart | None) -> dict[str, object]:
    if part is None:
        members = ("addr", "value", "state", "to_image", "to_symbol", "expected_image", "page")
        return dict.fromkeys(members)
    return {
        "addr": hex(part.addr),
        "value": hex(part.value),
        "state": part.state,
        "to_image": part.to_image,
        "to_symbol": part.to_symbol,
        "expected_image": part.expected_image,
        "page": part.page,
    }


def _of_file(part: FilePart | None) -> dict[str, object]:
    if part is None:
        members = ("call_sites", "resolver_arguments", "resolvers")
        return dict.fromkeys((*members, "first_call_instructions", "later_call_instructions"))
    first, later = part.instructions
    return {
        "call_sites": [_site(site) for site in part.sites],
        "resolver_arguments": [_given(given) for given in part.given],
        "resolvers": [_resolver(resolver) for resolver in part.generations],
        "first_call_instructions": first or None,
        "later_call_instructions": later,
    }


def _of_process(way: CallWay) -> dict[str, object]:
    part = way.process
    if part is None:
        members = ("namespace", "link_map", "load_bias", "relocation", "uses", "definition")
        return dict.fromkeys((*members, "is_ifunc", "hook"))
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
        "step": step.step,
        "title": step.title,
        "where": step.where,
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


def _resolver(resolver: Resolver) -> dict[str, object]:
    return {
        "name": resolver.name,
        "versions": resolver.versions,
        "calls": resolver.calls,
        "saves": resolver.saves,
        "vectors": resolver.vectors,
        "aligns": resolver.aligns,
        "source": resolver.source,
    }


def _address(value: int | None) -> str | None:
    return None if value is None else hex(value)
