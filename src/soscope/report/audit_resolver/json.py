# SPDX-License-Identifier: Apache-2.0
"""The audit of a dynamic linker, for programs: soscope/audit-resolver/1."""

from __future__ import annotations

from soscope.inspect.audit import audit as a
from soscope.report.jsontext import json_document

SCHEMA = "soscope/audit-resolver/1"


def document(audit: a.Audit) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "path": audit.path,
            "loader": audit.loader,
            "version": audit.version or None,
            "arch": audit.arch,
            "bits": audit.bits,
            "build_id": audit.build_id,
            "binds_lazily": audit.binds_lazily,
            "verdict": audit.verdict,
            "variants": [_variant_json(variant) for variant in audit.variants],
        }
    )


def _variant_json(variant: a.Variant) -> dict[str, object]:
    path = variant.path
    return {
        "kind": variant.kind,
        "vaddr": hex(variant.vaddr),
        "name": variant.name or None,
        "condition": variant.condition,
        "saved_by": variant.how or "moves",
        "alignment": variant.alignment,
        "verdict": variant.verdict,
        "registers": [
            {
                "name": each.name,
                "role": each.role,
                "fate": each.fate,
                "site": None
                if each.site is None
                else {
                    "vaddr": hex(each.site.vaddr),
                    "function": each.site.function,
                    "instruction": each.site.text,
                    "count": each.site.times,
                },
            }
            for each in variant.registers
        ],
        "path": {
            "start": hex(path.start),
            "name": path.name or None,
            "functions": path.functions,
            "instructions": path.instructions,
            "undecoded": path.undecoded,
            "unknown_calls": [
                {"vaddr": hex(way.vaddr), "function": way.function, "through": way.through or None}
                for way in path.ways
            ],
        },
    }
