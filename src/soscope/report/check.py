# SPDX-License-Identifier: Apache-2.0
"""The findings of `soscope check`, for people and for programs: soscope/check/1."""

from __future__ import annotations

from soscope.inspect.check.check import FAULT, Checked
from soscope.model.call import printable
from soscope.report.output import members
from soscope.report.words import plural

SCHEMA = "soscope/check/1"
HEAD = f'{{\n "schema": "{SCHEMA}",\n "images": ['
TAIL = "\n ]\n}\n"


def document(checked: Checked, *, is_first: bool) -> str:
    """Return one image of the JSON document, with a comma before all but the first."""
    import json

    row = {
        **members(checked.image, "path arch"),
        "partial": list(checked.image.partial),
        "slots": len(checked.image.slots),
        "stubs_run": checked.ran,
        "stubs_not_run": None
        if checked.not_run is None
        else [{"stubs": count, "reason": why} for why, count in checked.not_run.items()],
        "faults": [
            {
                **members(fault, "slug severity message"),
                "address": None if fault.vaddr is None else hex(fault.vaddr),
                "symbol": fault.symbol,
            }
            for fault in checked.faults
        ],
    }
    indented = json.dumps(row, indent=1).replace("\n", "\n  ")
    return f"{'' if is_first else ','}\n  {indented}"


def text(checked: Checked) -> str:
    """Return a line for each fault and each remark of an image, in the format of compilers."""
    name = checked.image.path
    if checked.image.is_slice:
        name += f" ({checked.image.arch})"
    lines = [f"{name}: {fault.severity}: {fault.slug}: {fault.message}" for fault in checked.faults]
    lines += [
        f"{name}: not run: {plural(count, 'stub')}: {why}"
        for why, count in (checked.not_run or {}).items()
    ]
    lines += [f"{name}: partial: {why}" for why in checked.image.partial]
    return "".join(f"{printable(line)}\n" for line in lines)


class Totals:
    """Totals of everything that was checked."""

    def __init__(self) -> None:
        self._images = self._slots = self._faults = self._remarks = 0
        self._ran: int | None = None
        self._left = 0

    def add(self, checked: Checked) -> None:
        """Count an image."""
        self._images += 1
        self._slots += len(checked.image.slots)
        faults = sum(fault.severity == FAULT for fault in checked.faults)
        self._faults += faults
        self._remarks += len(checked.faults) - faults
        if checked.ran is not None:
            self._ran = (self._ran or 0) + checked.ran
        self._left += sum((checked.not_run or {}).values())

    def text(self) -> str:
        """Return the last line, with the totals."""
        said = f"{plural(self._images, 'image')}, {plural(self._slots, 'slot')}"
        if self._ran is not None:
            said += f", {plural(self._ran, 'stub')} run"
            said += f", {self._left} not" if self._left else ""
        return f"{said}: {plural(self._faults, 'fault')}, {plural(self._remarks, 'remark')}\n"
