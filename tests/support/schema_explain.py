# SPDX-License-Identifier: Apache-2.0
"""What `soscope explain --json FILE SYMBOL` promises, member by member: names, order and types."""

from __future__ import annotations

from tests.support.schema import (
    ADDRESS_OR_NULL,
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _address,
    _list_of,
    _object,
    _one_of,
)
from tests.support.schema_filemap import BOOL, SIGNED, STUB

STEPS = (
    *("call", "thunk", "stub", "slot", "before", "helper", "plt0", "resolver", "after", "second"),
)
LINE: dict[str, Check] = {
    "vaddr": _address,
    "code": TEXT,
    "text": TEXT,
    "target": ADDRESS_OR_NULL,
    "refers_to": ADDRESS_OR_NULL,
}
STEP: dict[str, Check] = {
    "step": _one_of(*STEPS),
    "title": TEXT,
    "where": TEXT,
    "lines": _list_of(_object(LINE)),
    "notes": _list_of(TEXT),
}
SLOT: dict[str, Check] = {
    "slot": _address,
    "offset": ADDRESS_OR_NULL,
    "section": TEXT_OR_NULL,
    "kind": TEXT,
    "symbol": TEXT,
    "version": TEXT_OR_NULL,
    "symbol_type": _one_of("function", "object", "ifunc", "tls", "section", "none", "unknown"),
    "defined_here": BOOL,
    "binding": _one_of("lazy", "now", "irelative", "weak", "prelinked", "tlsdesc", "unbound"),
    "resolver_argument": NUMBER_OR_NULL,
    "helper": ADDRESS_OR_NULL,
    "signed": lambda value: value is None or _object(SIGNED)(value),
    "stubs": _list_of(_object(STUB)),
}
SITE: dict[str, Check] = {
    "vaddr": _address,
    "flow": _one_of("call", "jump", "call-through", "through"),
    "target": _address,
    "section": TEXT,
    "function": TEXT_OR_NULL,
}
GIVEN: dict[str, Check] = {
    "place": TEXT,
    "kind": _one_of("number", "cell", "register", "unknown"),
    "value": ADDRESS_OR_NULL,
    "meaning": TEXT,
}
RESOLVER: dict[str, Check] = dict.fromkeys(
    ("name", "versions", "calls", "saves", "vectors", "aligns", "source"), TEXT
)
WAY: dict[str, Check] = {
    "slot": _object(SLOT),
    "provider": TEXT_OR_NULL,
    "provider_reason": TEXT_OR_NULL,
    "call_sites": _list_of(_object(SITE)),
    "steps": _list_of(_object(STEP)),
    "resolver_arguments": _list_of(_object(GIVEN)),
    "resolvers": _list_of(_object(RESOLVER)),
    "first_call_instructions": NUMBER_OR_NULL,
    "later_call_instructions": NUMBER,
    "wrong": _list_of(TEXT),
}
EXPLAIN_FILE: dict[str, Check] = {
    "schema": _one_of("soscope/explain-file/1"),
    "symbol": TEXT,
    "images": _list_of(
        _object(
            {
                "path": TEXT,
                "format": _one_of("elf", "mach-o"),
                "arch": TEXT,
                "kind": TEXT,
                "loader": _one_of("glibc", "musl", "bionic", "dyld", None),
                "laziness": TEXT_OR_NULL,
                "symbol": TEXT,
                "near": _list_of(TEXT),
                "partial": _list_of(TEXT),
                "ways": _list_of(_object(WAY)),
            }
        )
    ),
}
