# SPDX-License-Identifier: Apache-2.0
"""The findings of `soscope check`, for programs: soscope/check/1.

Each image is formatted by itself, so that not all images need to be kept.
"""

from __future__ import annotations

from soscope.inspect.check.check import Checked

SCHEMA = "soscope/check/1"
HEAD = f'{{\n "schema": "{SCHEMA}",\n "images": ['
TAIL = "\n ]\n}\n"


def document(checked: Checked, *, is_first: bool) -> str:
    """Return one image of the JSON document, with a comma before all but the first."""
    import json

    row = {
        "path": checked.image.path,
        "arch": checked.image.arch,
        "partial": list(checked.image.partial),
        "slots": len(checked.image.slots),
        "stubs_run": checked.ran,
        "stubs_not_run": None
        if checked.not_run is None
        else [{"stubs": count, "reason": why} for why, count in checked.not_run.items()],
        "faults": [
            {
                "slug": fault.slug,
                "severity": fault.severity,
                "message": fault.message,
                "address": None if fault.vaddr is None else hex(fault.vaddr),
                "symbol": fault.symbol,
            }
            for fault in checked.faults
        ],
    }
    indented = json.dumps(row, indent=1).replace("\n", "\n  ")
    return f"{'' if is_first else ','}\n  {indented}"
