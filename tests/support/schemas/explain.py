# SPDX-License-Identifier: Apache-2.0
"""What `soscope explain --json` promises, member by member: names, order and types.

One document for files and for processes: a way has what a file tells and null for what a process
does, or the other way round.
"""

from __future__ import annotations

from tests.support.schemas.checked import (
    ADDRESS_OR_NULL,
    NONE,
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
from tests.support.schemas.filemap import BOOL, SIGNED, STUB

STEPS = (
    *("link-map", "relocation", "call", "thunk", "stub", "slot", "before", "helper", "plt0"),
    *("resolver", "after", "second", "definition", "hook"),
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
RELOCATION: dict[str, Check] = {
    "addr": _address,
    "table": _one_of(".rela.plt", ".rela.dyn", ".rel.plt", ".rel.dyn"),
    "index": NUMBER,
    "type": TEXT,
    "r_offset": _address,
    "aimed_at": _address,
    "symbol_index": NUMBER,
}
USE: dict[str, Check] = {
    "kind": _one_of("stub", "call", "jump", "load"),
    "addr": _address,
    "displacement": _address,
    "section": TEXT,
    "code": TEXT,
}

SLOT: dict[str, Check] = {
    "slot": _address,
    "kind": TEXT,
    "symbol": TEXT,
    "version": TEXT_OR_NULL,
}
SLOT_OF_FILE: dict[str, Check] = {
    "offset": ADDRESS_OR_NULL,
    "section": TEXT_OR_NULL,
    "symbol_type": _one_of("function", "object", "ifunc", "tls", "section", "none", "unknown"),
    "defined_here": BOOL,
    "binding": _one_of("lazy", "now", "irelative", "weak", "prelinked", "tlsdesc", "unbound"),
    "resolver_argument": NUMBER_OR_NULL,
    "helper": ADDRESS_OR_NULL,
    "signed": lambda value: value is None or _object(SIGNED)(value),
    "stubs": _list_of(_object(STUB)),
}
SLOT_OF_PROCESS: dict[str, Check] = {
    "addr": _address,
    "value": _address,
    "state": _one_of("unbound", "bound", "interposed", "hooked"),
    "to_image": TEXT_OR_NULL,
    "to_symbol": TEXT_OR_NULL,
    "expected_image": TEXT_OR_NULL,
    "page": TEXT,
}
WAY: dict[str, Check] = {
    "image": NUMBER,
    "importer": TEXT,
    "importer_path": TEXT,
    "symbol": TEXT,
    "version": TEXT_OR_NULL,
    "provider": TEXT_OR_NULL,
    "provider_reason": TEXT_OR_NULL,
    "slot": _is(dict),
    "steps": _list_of(_object(STEP)),
    "wrong": _list_of(TEXT),
}
WAY_OF_FILE: dict[str, Check] = {
    "call_sites": _list_of(_object(SITE)),
    "resolver_arguments": _list_of(_object(GIVEN)),
    "resolvers": _list_of(_object(RESOLVER)),
    "first_call_instructions": NUMBER_OR_NULL,
    "later_call_instructions": NUMBER,
}
WAY_OF_PROCESS: dict[str, Check] = {
    "namespace": NUMBER,
    "link_map": _address,
    "load_bias": _address,
    "relocation": _object(RELOCATION),
    "uses": _list_of(_object(USE)),
    "definition": ADDRESS_OR_NULL,
    "is_ifunc": BOOL,
    "hook": _list_of(TEXT),
}
IMAGE: dict[str, Check] = {
    "name": TEXT,
    "path": TEXT,
    "format": _one_of("elf", "mach-o"),
    "arch": TEXT,
    "kind": TEXT_OR_NULL,
    "loader": _one_of("glibc", "musl", "bionic", "dyld", None),
    "laziness": TEXT_OR_NULL,
    "symbol": TEXT,
    "near": _list_of(TEXT),
    "partial": _list_of(TEXT),
}


def _null(members: dict[str, Check]) -> dict[str, Check]:
    return dict.fromkeys(members, _is(NONE))


EXPLAIN: dict[str, Check] = {
    "schema": _one_of("soscope/explain/1"),
    "pid": _is(NONE),
    "symbol": TEXT,
    "images": _list_of(_object({**IMAGE, "kind": TEXT})),
    "ways": _list_of(
        _object(
            {
                **WAY,
                "slot": _object({**SLOT, **SLOT_OF_FILE, **_null(SLOT_OF_PROCESS)}),
                **WAY_OF_FILE,
                **_null(WAY_OF_PROCESS),
            }
        )
    ),
    "other_importers": _is(NONE),
    "defined_in": _is(NONE),
}
EXPLAIN_PROCESS: dict[str, Check] = {
    **EXPLAIN,
    "pid": NUMBER,
    "images": _list_of(_object(IMAGE)),
    "ways": _list_of(
        _object(
            {
                **WAY,
                "slot": _object({**SLOT, **_null(SLOT_OF_FILE), **SLOT_OF_PROCESS}),
                **_null(WAY_OF_FILE),
                **WAY_OF_PROCESS,
            }
        )
    ),
    "other_importers": _list_of(TEXT),
    "defined_in": _list_of(TEXT),
}
