# SPDX-License-Identifier: Apache-2.0
"""What `soscope map --json` promises, member by member: names, order and types."""

from __future__ import annotations

from tests.support.schemas.checked import (
    NUMBER,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _address,
    _list_of,
    _object,
    _one_of,
)

MAPPING: dict[str, Check] = {"start": _address, "end": _address, "flags": TEXT, "offset": NUMBER}

SLOT: dict[str, Check] = {
    "addr": _address,
    "symbol": TEXT,
    "version": TEXT_OR_NULL,
    "value": _address,
    "state": _one_of("unbound", "bound", "interposed", "hooked"),
    "to_image": TEXT_OR_NULL,
    "to_symbol": TEXT_OR_NULL,
    "expected_image": TEXT_OR_NULL,
}

MAP: dict[str, Check] = {
    "schema": _one_of("soscope/process-map/1"),
    "pid": NUMBER,
    "images": _list_of(
        _object(
            {
                "name": TEXT,
                "path": TEXT,
                "namespace": NUMBER,
                "load_bias": _address,
                "mappings": _list_of(_object(MAPPING)),
                "slots": _list_of(_object(SLOT)),
            }
        )
    ),
}
