# SPDX-License-Identifier: Apache-2.0
"""Maps of files and processes for programs: soscope/map/1 and soscope/process-map/1."""

from __future__ import annotations

import json

from soscope.inspect.map.processmap import ProcessMap
from soscope.linker.image import Image, Slot
from soscope.live.images.image import LoadedImage
from soscope.model.filemap import Stub
from soscope.report.output import json_document, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# soscope/map/1: the map of files for programs, one slot a line.

FILE_SCHEMA = "soscope/map/1"
HEAD = f'{{"schema":"{FILE_SCHEMA}","images":['
TAIL = "\n]}\n"

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_quote = json.encoder.encode_basestring_ascii
_BOOL = {False: "false", True: "true"}


def image(
    image: Image, slots: Iterable[Slot], without_slot: Iterable[Stub], *, is_first: bool
) -> str:
    """Return one image of the document, with a comma before all but the first."""
    rows = ",\n".join([_slot(image, slot) for slot in slots])
    without = ",".join([_stub(stub) for stub in without_slot])
    head = _dumps(
        {
            "path": image.path,
            "format": image.format,
            "arch": image.arch,
            "bits": image.bits,
            "endian": image.endian,
            "kind": image.kind,
            "build_id": image.build_id or None,
            "needed": list(image.needed),
            "partial": list(image.partial),
        }
    )
    comma = "" if is_first else ","
    return f'{comma}\n{head[:-1]},"slots":[\n{rows}\n],"stubs_without_slot":[{without}]}}'


# There are many rows. Assembling them by hand takes a fifth of an encoder's time.


def _slot(image: Image, slot: Slot) -> str:
    provider, _, reason = image.provider(slot)
    stubs = ",".join([_stub(stub) for stub in slot.stubs])
    signed = "null" if slot.signed is None else _dumps(slot.signed._asdict())
    argument = "null" if slot.resolver_argument is None else slot.resolver_argument
    return (
        f'{{"slot":"{slot.vaddr:#x}","offset":{_address(slot.offset)},"section":{_text(slot.section)},'
        f'"kind":{_quote(slot.kind)},"symbol":{_text(slot.symbol or None)},'
        f'"version":{_text(slot.version)},"symbol_type":"{slot.symbol_type}",'
        f'"defined_here":{_BOOL[slot.defined_here]},"provider":{_text(provider)},'
        f'"provider_reason":{_text(reason)},"binding":"{slot.binding}",'
        f'"resolver_argument":{argument},"helper":{_address(slot.helper)},"signed":{signed},'
        f'"stubs":[{stubs}]}}'
    )


def _stub(stub: Stub) -> str:
    return (
        f'{{"stub":"{stub.vaddr:#x}","section":{_text(stub.section)},"kind":{_quote(stub.kind)},'
        f'"selector":{_text(stub.selector)}}}'
    )


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _address(value: int | None) -> str:
    return "null" if value is None else f'"{value:#x}"'


# The map of a process, for programs: soscope/process-map/1.

PROCESS_SCHEMA = "soscope/process-map/1"


def process_document(process_map: ProcessMap) -> str:
    """Return the JSON document."""
    value = {
        "schema": PROCESS_SCHEMA,
        "pid": process_map.pid,
        "images": [_image(process_map, image) for image in process_map.images],
    }
    return json_document(value)


def _image(process_map: ProcessMap, image: LoadedImage) -> dict[str, object]:
    return {
        **members(image, "name path namespace"),
        "load_bias": hex(image.load_bias),
        "mappings": [
            {
                "start": hex(mapping.start),
                "end": hex(mapping.end),
                **members(mapping, "flags offset"),
            }
            for mapping in process_map.mappings[image]
        ],
        "slots": [
            {
                "addr": hex(row.binding.addr),
                **members(row.binding, "symbol version"),
                "value": hex(row.binding.value),
                "state": row.binding.state,
                **members(row, "to_image to_symbol expected_image"),
            }
            for row in process_map.rows[image]
        ],
    }
