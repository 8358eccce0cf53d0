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

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_quote = json.encoder.encode_basestring_ascii
_BOOL = {False: "false", True: "true"}


def image(
    found: Image, slots: Iterable[Slot], without_slot: Iterable[Stub], *, is_first: bool
) -> str:
    """Return one image of the document; a comma stands before all but the first."""
    rows = ",\n".join([_slot(found, one) for one in slots])
    without = ",".join([_stub(one) for one in without_slot])
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
    return f'{comma}\n{head[:-1]},"slots":[\n{rows}\n],"stubs_without_slot":[{without}]}}'


# The rows are many: put together by hand they take a fifth of what an encoder takes.


def _slot(found: Image, one: Slot) -> str:
    provider, _, reason = found.provider(one)
    stubs = ",".join([_stub(stub) for stub in one.stubs])
    signed = "null" if one.signed is None else _dumps(one.signed._asdict())
    argument = "null" if one.resolver_argument is None else one.resolver_argument
    return (
        f'{{"slot":"{one.vaddr:#x}","offset":{_address(one.offset)},"section":{_text(one.section)},'
        f'"kind":{_quote(one.kind)},"symbol":{_text(one.symbol or None)},'
        f'"version":{_text(one.version)},"symbol_type":"{one.symbol_type}",'
        f'"defined_here":{_BOOL[one.defined_here]},"provider":{_text(provider)},'
        f'"provider_reason":{_text(reason)},"binding":"{one.binding}",'
        f'"resolver_argument":{argument},"helper":{_address(one.helper)},"signed":{signed},'
        f'"stubs":[{stubs}]}}'
    )


def _stub(one: Stub) -> str:
    return (
        f'{{"stub":"{one.vaddr:#x}","section":{_text(one.section)},"kind":{_quote(one.kind)},'
        f'"selector":{_text(one.selector)}}}'
    )


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _address(value: int | None) -> str:
    return "null" if value is None else f'"{value:#x}"'
