# SPDX-License-Identifier: Apache-2.0
"""The modes in which a file can be recorded, and the cost of each for a call."""

from __future__ import annotations

from soscope.instruments.prof.check.hooks import CYG, FENTRY, MCOUNT, PATCHABLE
from soscope.instruments.prof.check.look import Instrumentation
from soscope.instruments.prof.model import (
    MODE_COUNT,
    MODE_LOG,
    MODE_QUIET,
    MODE_SAMPLE,
    MODE_TIME,
    MODES,
)
from soscope.model.image import Record

BOUNDARY_COUNT, BOUNDARY_TIME = "boundary count", "boundary time"

# Nanoseconds a call, entry and exit, of a small function (`mid` in the first table of
# benchmarks/RESULTS.md). They show an order, and are no promise for other machines. Values without
# a row there, or for code that has changed since: `quiet` costs a no-operation, also for patched
# entries; `count` of -finstrument-functions costs the same as for `mcount`, as its exits call
# nothing; `sample` of other kinds is `count` and a 64th of what `time` adds; `log` of patched
# entries adds to `time` the same as for `__fentry__`, which they call; `boundary count` is from
# the second table.
_NS = {
    MODE_QUIET: {MCOUNT: 0.8, FENTRY: 0.8, CYG: 0.8, PATCHABLE: 0.8},
    MODE_COUNT: {MCOUNT: 3.8, FENTRY: 3.7, CYG: 3.8, PATCHABLE: 3.7},
    MODE_SAMPLE: {MCOUNT: 4.3, FENTRY: 4.2, CYG: 7.3, PATCHABLE: 4.3},
    MODE_TIME: {MCOUNT: 38.4, FENTRY: 38.2, CYG: 27.9, PATCHABLE: 38.9},
    MODE_LOG: {MCOUNT: 42.0, FENTRY: 41.3, CYG: 30.8, PATCHABLE: 42.0},
}
_BOUNDARY = {BOUNDARY_COUNT: 0.6, BOUNDARY_TIME: 31.5}
MEASURED = "measured in November 2026, on a virtual machine of 2 processors"


class PricedMode(Record):
    """One mode, which costs `ns` a call. `reason` tells why it does not work, None if it does."""

    __slots__ = ("mode", "ns", "reason")

    def __init__(self, mode: str, ns: float, reason: str | None) -> None:
        self.mode = mode
        self.ns = ns
        self.reason = reason

    @property
    def works(self) -> bool:
        """Return whether the mode works for the file."""
        return self.reason is None


def modes_of(library: Instrumentation) -> list[PricedMode]:
    """Return all modes for instrumented files, then the modes at the boundary of any file.

    A mode that does not work has the cost that it would have. If nothing is instrumented, that is
    the cost for -mfentry.
    """
    kind = library.kind if library.kind in _NS[MODE_COUNT] else FENTRY
    modes = [PricedMode(mode, _NS[mode][kind], _why_not(library, mode)) for mode in MODES]
    why = _no_boundary(library)
    return modes + [PricedMode(mode, ns, why) for mode, ns in _BOUNDARY.items()]


def _why_not(library: Instrumentation, mode: str) -> str | None:
    if library.kind is None:
        return "it is not instrumented"
    if library.kind == PATCHABLE and library.mapped.kind.startswith("static"):
        return "it is static: nobody loads an agent there"
    if library.kind == PATCHABLE and _is_hookable(library) and not library.rooms:
        return "no function has room for a call at its entry"
    if library.kind != PATCHABLE and not library.has_slot:
        return "it calls a hook of its own, and through no slot"
    if not _is_hookable(library):
        return _foreign(library)
    if library.only_bare and mode not in (MODE_QUIET, MODE_COUNT):
        return "its hook is called at entries alone, and told nothing"
    return None


def _no_boundary(library: Instrumentation) -> str | None:
    mapped = library.mapped
    if not _is_hookable(library):
        return _foreign(library)
    if mapped.kind.startswith("static"):
        return "it is static: its calls go through no slot, and nobody else calls it"
    if not mapped.slots and not any(
        symbol.defined_here and symbol.type in ("function", "ifunc") for symbol in mapped.symbols
    ):
        return "it has no slot, and nothing that others could call"
    return None


def _is_hookable(library: Instrumentation) -> bool:
    machine = library.mapped.machine
    return machine is not None and machine.has_agent


def _foreign(library: Instrumentation) -> str:
    return f"soscope hooks no slots in programs for {library.mapped.arch}"
