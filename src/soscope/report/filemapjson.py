# SPDX-License-Identifier: Apache-2.0
"""soscope/map/1: the map of files for programs, a slot a line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from soscope.linker.image import Image, Slot
from soscope.model.filemap import Stub

SCHEMA = "soscope/map/1"
HEAD = f'{{"schema":"{SCHEMA}","images":['
TAIL = "\n]}\n"

_dumps = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def image(found: Image, slots: Iterable[Slot], *, is_first: bool) -> str:
    """Return one image of the document; a comma stands before all but the first."""
    rows = ",\n".join([_dumps(_slot(found, one)) for one in slots])
    without = [_stub(one) for one in found.stubs_without_slot]
    head = _dumps(
        {
            "path": found.path,
            "format": found.format,
            "arch": found.arch,
            "bits": found.bits,
            "endian": found.endian,
            "kind": found.kind,
            "build_id": found.build_id or None,
            "needed": list(found.needed),
            "partial": list(found.partial),
        }
    )
    comma = "" if is_first else ","
    return f'{comma}\n{head[:-1]},"slots":[\n{rows}\n],"stubs_without_slot":{_dumps(without)}}}'


def _slot(found: Image, one: Slot) -> dict[str, object]:
    provider = found.provider(one)
    signed = one.signed
    return {
        "slot": hex(one.vaddr),
        "offset": None if one.offset is None else hex(one.offset),
        "section": one.section,
        "kind": one.kind,
        "symbol": one.symbol or None,
        "version": one.version,
        "symbol_type": one.symbol_type,
        "defined_here": one.defined_here,
        "provider": provider.name,
        "provider_reason": provider.reason,
        "binding": one.binding,
        "resolver_argument": one.resolver_argument,
        "helper": None if one.helper is None else hex(one.helper),
        "signed": None if signed is None else signed._asdict(),
        "stubs": [_stub(stub) for stub in one.stubs],
    }


def _stub(one: Stub) -> dict[str, object]:
    return {
        "stub": hex(one.vaddr),
        "section": one.section,
        "kind": one.kind,
        "selector": one.selector,
    }
