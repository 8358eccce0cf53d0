# SPDX-License-Identifier: Apache-2.0
"""Which ways to record will work for a file, and what each costs a call."""

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
from soscope.model.record import Record

BOUNDARY_COUNT, BOUNDARY_TIME = "boundary count", "boundary time"

# Nanoseconds a call of an instrumented function, entry and exit, on one machine of 2023, in a loop
# that calls a small function: the order of things, not a promise for another machine. Measured
# with recorders that were put into the hooks' slots as soscope's are, but for two modes of -pg:
# `sample` is `count` and a 64th of what `time` adds; `log` is as far from `time` as for CYG.
_NS = {
    MODE_QUIET: {MCOUNT: 2.1, FENTRY: 1.9, CYG: 3.3},
    MODE_COUNT: {MCOUNT: 3.3, FENTRY: 3.3, CYG: 3.7},
    MODE_SAMPLE: {MCOUNT: 3.7, FENTRY: 3.7, CYG: 4.4},
    MODE_TIME: {MCOUNT: 29.8, FENTRY: 29.4, CYG: 22.0},
    MODE_LOG: {MCOUNT: 28.1, FENTRY: 27.7, CYG: 20.3},
}
# benchmarks/RESULTS.md, `--count-only` and `-c`: the same work at the same slots
_BOUNDARY = {BOUNDARY_COUNT: 0.5, BOUNDARY_TIME: 18.8}

_FLAGS = {
    None: "it is not instrumented",
    PATCHABLE: "it has room for hooks, and calls none: soscope changes slots, and no code",
}


class PricedMode(Record):
    """One way to record, `ns` a call. `reason` says why it does not work, None where it does."""

    __slots__ = ("mode", "ns", "reason")

    def __init__(self, mode: str, ns: float, reason: str | None) -> None:
        self.mode = mode
        self.ns = ns
        self.reason = reason

    @property
    def works(self) -> bool:
        """Say whether it works."""
        return self.reason is None


def modes_of(library: Instrumentation) -> list[PricedMode]:
    """Return all modes for instrumented files, then those at the boundary of any.

    Those that do not work have the price that they would have, for -mfentry where nothing is
    instrumented.
    """
    kind = library.kind if library.kind in _NS[MODE_COUNT] else FENTRY
    modes = [PricedMode(mode, _NS[mode][kind], _why_not(library, mode)) for mode in MODES]
    why = _no_boundary(library)
    return modes + [PricedMode(mode, ns, why) for mode, ns in _BOUNDARY.items()]


def _why_not(library: Instrumentation, mode: str) -> str | None:
    if library.kind in _FLAGS:
        return _FLAGS[library.kind]
    if not library.has_slot:
        return "it calls a hook of its own, and through no slot"
    if not _is_hookable(library):
        return _foreign(library)
    if mode == MODE_LOG:
        return "soscope prof keeps no log of single calls"
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
