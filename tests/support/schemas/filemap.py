# SPDX-License-Identifier: Apache-2.0
"""What `soscope map --json FILE` promises, member by member: names, order and types."""

from __future__ import annotations

from tests.support.schemas.checked import (
    ADDRESS_OR_NULL,
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _address,
    _is,
    _list_of,
    _object,
    _one_of,
)

BOOL = _is(bool)
SIGNED: dict[str, Check] = {
    "key": _one_of("IA", "IB", "DA", "DB"),
    "diversity": NUMBER,
    "address_diversity": BOOL,
}

STUB: dict[str, Check] = {
    "stub": _address,
    "section": TEXT_OR_NULL,
    "kind": TEXT,
    "selector": TEXT_OR_NULL,
}

SLOT: dict[str, Check] = {
    "slot": _address,
    "offset": ADDRESS_OR_NULL,
    "section": TEXT_OR_NULL,
    "kind": TEXT,
    "symbol": TEXT_OR_NULL,
    "version": TEXT_OR_NULL,
    "symbol_type": _one_of("function", "object", "ifunc", "tls", "section", "none", "unknown"),
    "defined_here": BOOL,
    "provider": TEXT_OR_NULL,
    "provider_reason": TEXT_OR_NULL,
    "binding": _one_of("lazy", "now", "weak", "irelative", "tlsdesc", "prelinked", "unbound"),
    "resolver_argument": NUMBER_OR_NULL,
    "helper": ADDRESS_OR_NULL,
    "signed": lambda value: value is None or _object(SIGNED)(value),
    "stubs": _list_of(_object(STUB)),
}

FILE_MAP: dict[str, Check] = {
    "schema": _one_of("soscope/map/1"),
    "images": _list_of(
        _object(
            {
                "path": TEXT,
                "format": _one_of("elf", "mach-o"),
                "arch": TEXT,
                "bits": NUMBER,
                "endian": _one_of("little", "big"),
                "kind": TEXT,
                "build_id": TEXT_OR_NULL,
                "needed": _list_of(TEXT),
                "partial": _list_of(TEXT),
                "slots": _list_of(_object(SLOT)),
                "stubs_without_slot": _list_of(_object(STUB)),
            }
        )
    ),
}
