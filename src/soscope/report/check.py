# SPDX-License-Identifier: Apache-2.0
"""What `soscope check` has found: a line each for people, soscope/check/1 for programs.

Each image is put into words for itself: of many none needs to be kept.
"""

from __future__ import annotations

from soscope.inspect.check import Checked
from soscope.inspect.fault import FAULT
from soscope.report.words import plural, printable

SCHEMA = "soscope/check/1"
HEAD = f'{{\n "schema": "{SCHEMA}",\n "images": ['
TAIL = "\n ]\n}\n"


def text(one: Checked) -> str:
    """Return a line for each fault and each remark of an image, as compilers write them."""
    name = one.image.path
    if one.image.is_slice:
        name += f" ({one.image.arch})"
    lines = [f"{name}: {fault.severity}: {fault.slug}: {fault.message}" for fault in one.faults]
    lines += [
        f"{name}: not run: {plural(count, 'stub')}: {why}"
        for why, count in (one.not_run or {}).items()
    ]
    lines += [f"{name}: partial: {why}" for why in one.image.partial]
    return "".join(f"{printable(line)}\n" for line in lines)


class Totals:
    """Numbers of all that were checked."""

    def __init__(self) -> None:
        self._images = self._slots = self._faults = self._remarks = 0
        self._ran: int | None = None
        self._left = 0

    def add(self, one: Checked) -> None:
        """Count an image."""
        self._images += 1
        self._slots += len(one.image.slots)
        faults = sum(fault.severity == FAULT for fault in one.faults)
        self._faults += faults
        self._remarks += len(one.faults) - faults
        if one.ran is not None:
            self._ran = (self._ran or 0) + one.ran
        self._left += sum((one.not_run or {}).values())

    def text(self) -> str:
        """Return the last line."""
        said = f"{plural(self._images, 'image')}, {plural(self._slots, 'slot')}"
        if self._ran is not None:
            said += f", {plural(self._ran, 'stub')} run"
            said += f", {self._left} not" if self._left else ""
        return f"{said}: {plural(self._faults, 'fault')}, {plural(self._remarks, 'remark')}\n"


def document(one: Checked, *, is_first: bool) -> str:
    """Return one image of the JSON document; a comma stands before all but the first."""
    import json

    row = {
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
    indented = json.dumps(row, indent=1).replace("\n", "\n  ")
    return f"{'' if is_first else ','}\n  {indented}"
