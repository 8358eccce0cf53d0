# SPDX-License-Identifier: Apache-2.0
"""The map of a process, for programs: soscope/process-map/1."""

from __future__ import annotations

from soscope.inspect.map.processmap import ProcessMap
from soscope.live.images.image import LoadedImage
from soscope.report.jsontext import json_document

SCHEMA = "soscope/process-map/1"


def document(process_map: ProcessMap) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "pid": process_map.pid,
        "images": [_image(process_map, image) for image in process_map.images],
    }
    return json_document(value)


def _image(process_map: ProcessMap, image: LoadedImage) -> dict[str, object]:
    return {
        "name": image.name,
        "path": image.path,
        "namespace": image.namespace,
        "load_bias": hex(image.load_bias),
        "mappings": [
            {
                "start": hex(mapping.start),
                "end": hex(mapping.end),
                "flags": mapping.flags,
                "offset": mapping.offset,
            }
            for mapping in process_map.mappings[image]
        ],
        "slots": [
            {
                "addr": hex(row.binding.addr),
                "symbol": row.binding.symbol,
                "version": row.binding.version,
                "value": hex(row.binding.value),
                "state": row.binding.state,
                "to_image": row.to_image,
                "to_symbol": row.to_symbol,
                "expected_image": row.expected_image,
            }
            for row in process_map.rows[image]
        ],
    }
