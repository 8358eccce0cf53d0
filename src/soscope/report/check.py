# SPDX-License-Identifier: Apache-2.0
"""What `soscope check` has found: a line each for people, soscope/check/1 for programs."""

from __future__ import annotations

from collections.abc import Sequence

from soscope.inspect.check import Checked
from soscope.inspect.fault import FAULT
from soscope.report.words import json_document, plural, printable

SCHEMA = "soscope/check/1"


def text(found: Sequence[Checked]) -> str:
    """Return a line for each fault and each remark, as compilers write them, and a last one."""
    lines = []
    for one in found:
        name = one.image.path
        if one.image.is_slice:
            name += f" ({one.image.arch})"
        lines += [
            f"{name}: {fault.severity}: {fault.slug}: {fault.message}" for fault in one.faults
        ]
        lines += [
            f"{name}: not run: {plural(count, 'stub')}: {why}"
            for why, count in (one.not_run or {}).items()
        ]
        lines += [f"{name}: partial: {why}" for why in one.image.partial]
    faults = sum(fault.severity == FAULT for one in found for fault in one.faults)
    remarks = sum(len(one.faults) for one in found) - faults
    slots = sum(len(one.image.slots) for one in found)
    said = f"{plural(len(found), 'image')}, {plural(slots, 'slot')}"
    ran = sum(one.ran or 0 for one in found)
    if any(one.ran is not None for one in found):
        said += f", {plural(ran, 'stub')} run"
        left = sum(sum((one.not_run or {}).values()) for one in found)
        said += f", {left} not" if left else ""
    lines.append(f"{said}: {plural(faults, 'fault')}, {plural(remarks, 'remark')}")
    return "".join(f"{printable(line)}\n" for line in lines)


def document(found: Sequence[Checked]) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "images": [
                {
                    "path": one.image.path,
                    "arch": one.image.arch,
                    "partial": list(one.image.partial),
                    "slots": len(one.image.slots),
                    "stubs_run": one.ran,
                    "stubs_not_run": None
                    if one.not_run is None
                    else [{"stubs": count, "reason": why} for why, count in one.not_run.items()],
                    "faults": [
                        {
                            "slug": fault.slug,
                            "severity": fault.severity,
                            "message": fault.message,
                            "address": None if fault.vaddr is None else hex(fault.vaddr),
                            "symbol": fault.symbol,
                        }
                        for fault in one.faults
                    ],
                }
                for one in found
            ],
        }
    )
