# SPDX-License-Identifier: Apache-2.0
"""Control blocks, of what the settings say and all instruments of a session want hooked."""

from __future__ import annotations

from _collections_abc import Sequence

from soscope.control.instrument import Hooks, Instrument
from soscope.control.room import Room
from soscope.control.settings import WHEN_FULL, SessionSettings
from soscope.errors import UsageError
from soscope.select.automaton import Automaton, pack_patterns
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan, renumber_patterns

_PREFAULT = 1 << 20  # bytes of the ring that are there before the target starts


class Blocks:
    """Makes the control block of each program of one session."""

    __slots__ = ("_hooks", "_patterns", "_plans", "_settings")

    def __init__(self, settings: SessionSettings, instruments: Sequence[Instrument]) -> None:
        """Raise UsageError where no instrument hooks calls, or some do not go together."""
        self._settings = settings
        self._hooks = _in_order(
            [(instrument.name, instrument.hooks) for instrument in instruments if instrument.hooks]
        )
        patterns: list[Automaton] = []
        self._plans: list[InstrumentPlan] = []
        for hooks in self._hooks:
            rules, functions = renumber_patterns(hooks.rules, hooks.functions, len(patterns))
            patterns += hooks.patterns
            plan = InstrumentPlan(
                hooks.kind,
                rules=rules,
                functions=functions,
                flags=hooks.flags,
                own_size=hooks.own_size,
            )
            self._plans.append(plan)
        self._patterns = pack_patterns(patterns)

    def make(self, path: str, descriptor: int | None = None, pid: int = 0) -> ControlBlock:
        """Make the block for a program that process `pid` executes, 0: one to come.

        `descriptor` is a shared file that the block has to use, None: it makes one. Raises
        NoSharedMemory.
        """
        settings = self._settings
        room = Room([hooks.kind for hooks in self._hooks], pid)
        needs_ring = any(hooks.needs_ring for hooks in self._hooks)
        plan = Plan(
            instruments=self._plans,
            patterns=self._patterns,
            main_path=path,
            flags=layout.FLAG_FOLLOW if settings.follow else 0,
            when_full=WHEN_FULL.index(settings.when_full),
            string_limit=max(hooks.string_limit for hooks in self._hooks),
            chunks=settings.buffer // layout.CHUNK_SIZE if needs_ring else 0,
            spare_chunks=room.spare_chunks,
            count_arrays=room.count_arrays,
            ready_arrays=room.ready_arrays,
            strings_size=room.strings_size,
            slot_places=room.slot_places if settings.follow else 0,
        )
        block = ControlBlock.create(plan, descriptor)
        if plan.chunks:
            block.prefault(min(_PREFAULT, settings.buffer))
        return block


def _in_order(hooking: list[tuple[str, Hooks]]) -> list[Hooks]:
    """Return what is to be hooked, the instrument first whose calls come first.

    `hooking` has each by its name. The one that records calls sees their return addresses; those
    behind it see its return trampolines.
    """
    if not hooking:
        raise UsageError("no instrument hooks calls")
    if len(hooking) > layout.PLANS:
        raise UsageError(f"{len(hooking)} instruments hook calls; {layout.PLANS} can")
    seen: dict[object, str] = {}
    for name, hooks in hooking:
        what = "counts" if hooks.needs_counts else hooks.kind
        if what in seen:
            raise UsageError(f"{seen[what]} and {name} cannot hook calls in one session")
        seen[what] = name
    return sorted((hooks for _, hooks in hooking), key=lambda hooks: not hooks.needs_ring)
