# SPDX-License-Identifier: Apache-2.0
"""The result of `soscope patch`, for people and for programs: soscope/patch/1."""

from __future__ import annotations

from soscope.report.output import json_document
from soscope.report.words import library_lines, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.patch import Patched
    from soscope.wire.patches import Patch


SCHEMA = "soscope/patch/1"


def document(patched: Patched) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "pid": patched.pid,
            "replaced": [
                {
                    "symbol": patch.symbol,
                    "library": library,
                    "function": patch.name,
                    "slots": patch.slots,
                    "address_taken": patch.left,
                }
                for library, patch in patched.replaced
            ],
            "restored": patched.restored,
            "left": len(patched.left),
            "closed": patched.closed,
            "left_loaded": list(patched.left_loaded),
            "longest_stop_ns": patched.longest_stop,
        }
    )


def text(patched: Patched) -> str:
    """Return the lines for people."""
    lines = [_replaced(library, patch) for library, patch in patched.replaced]
    if patched.restored:
        lines.append(f"{plural(patched.restored, 'word')} restored")
    lines += [
        f"{addr:#x} left unchanged: another tool has set it to {value:#x}"
        for addr, value in patched.left
    ]
    lines += library_lines(patched.closed, patched.left_loaded)
    if not lines:
        lines.append("nothing to undo")
    if patched.note:
        lines.append(patched.note)
    return "".join(f"process {patched.pid}: {line}\n" for line in lines)


def _replaced(library: str, patch: Patch) -> str:
    slots = plural(patch.slots, "slot") if patch.slots else "no slot"
    line = f"{slots} of {patch.symbol} lead{'s' if patch.slots <= 1 else ''} to "
    line += f"{patch.name} of {library}"
    if patch.left:
        line += f"; {plural(patch.left, 'slot')} left: the function's address is taken there"
    return line
