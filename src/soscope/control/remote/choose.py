# SPDX-License-Identifier: Apache-2.0
"""Choose the engine that notices the calls of an emulated program."""

from __future__ import annotations

from soscope.binfmt.isa import part
from soscope.control.qemu.sites import DetouredSlots
from soscope.control.qemu.watches import PltWatch
from soscope.control.remote import cells
from soscope.control.remote.checked import CheckedWatch
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.poison import PoisonedSlots
from soscope.control.remote.program import ForeignProgram
from soscope.control.remote.sites import SiteWatch
from soscope.control.remote.watch import CallWatch, NoSlots, Sender
from soscope.control.settings import AUTO, ENTRIES, POISON, SITES, SLOT
from soscope.entry.breakpoint import Points
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError, UsageError
from soscope.model.arch import Arch

_WHAT = {
    POISON: "slots that fault",
    SITES: "breakpoints where stubs jump",
    ENTRIES: "breakpoints where functions begin",
    SLOT: "slots that lead to their PLT entries",
}
_DETOURS = "slots that lead to code of ours"
_ON_STARTING = "each breakpoint would slow all jumps of an emulator"
_TO_CHECK = "the other one that changes slots, for --check"


class EngineChoice:
    """The engine that sees the calls of a program which starts under an emulator.

    `beside` is the engine that it is compared with, or "". `line` describes the choice.
    """

    __slots__ = ("beside", "line", "name")

    def __init__(
        self, asked: str | None, arch: Arch, *, is_checked: bool, because: str = ""
    ) -> None:
        """Choose an engine. Raises UsageError if `asked` does not support programs of `arch`.

        `because` is the reason for the choice, if it differs from the usual ones.
        """
        self.beside = ""
        if asked == ENTRIES:
            self.name = ENTRIES
            self.line = f"engine {ENTRIES}, {_WHAT[ENTRIES]} (-x)"
            return
        detours = part(arch, "detours") is not None
        has_slot = detours or PltWatch.is_possible(arch)
        if asked == SLOT and not has_slot:
            raise UsageError(f"--engine slot: not for programs for {arch.name}")
        if asked == POISON and detours:
            raise UsageError(
                f"--engine {POISON}: not for programs for {arch.name}, as stubs cannot send their"
                f" threads on from a fault; --engine {SLOT} is"
            )
        is_left_to_us = asked in (None, AUTO)
        by_slots = SLOT if detours or (has_slot and is_checked) else POISON
        self.name = by_slots if is_left_to_us or asked is None else asked
        why = "--engine"
        if is_left_to_us:
            why = _TO_CHECK if self.name == SLOT and not detours else _ON_STARTING
        what = _WHAT | ({SLOT: _DETOURS} if detours else {})
        self.line = f"engine {self.name}, {what[self.name]} ({because or why})"
        if is_checked:
            self.beside = by_slots if self.name == SITES else SITES
            self.line += f"; beside it {self.beside}, {what[self.beside]}"
            if SLOT in (self.name, self.beside) and not detours:
                self.line += ", its resolver stepped through"


class WatchMaker:
    """Return the watch of the chosen engine. The program is at its loader's first instruction."""

    __slots__ = ("_choice", "_detours", "_foreign", "_memory", "_place", "_stub")

    def __init__(
        self,
        choice: EngineChoice,
        stub: RemoteStub,
        memory: GuestMemory,
        foreign: ForeignProgram,
        base: int,
    ) -> None:
        """Prepare the watch. `base` is the load bias of the loader. Raises RemoteError."""
        self._choice = choice
        self._stub = stub
        self._memory = memory
        self._foreign = foreign
        self._place = 0
        self._detours = part(foreign.arch, "detours")
        if self._detours is not None and SLOT in (choice.name, choice.beside):
            assert foreign.loader is not None
            self._place = cells.make(
                stub, memory, foreign.convention, foreign.loader, base, is_code=True
            )
        if POISON in (choice.name, choice.beside):
            if not PoisonedSlots.is_possible(memory):
                raise RemoteError(
                    "the program has memory at the lowest addresses, which are needed",
                    hint="--engine sites",
                )
            assert foreign.loader is not None
            self._place = cells.make(stub, memory, foreign.convention, foreign.loader, base)

    def __call__(self, points: Points) -> CallWatch:
        """Return the watch, which uses the breakpoints `points` of its engine."""
        convention = self._foreign.convention
        if self._choice.name == ENTRIES:
            return NoSlots()
        sites = SiteWatch(self._stub, self._memory, convention, points)
        if self._choice.name == SITES and not self._choice.beside:
            return sites
        by_slots = self._by_slots(points)
        if not self._choice.beside:
            return by_slots
        return CheckedWatch(sites, by_slots, self._choice.name)

    def _by_slots(self, points: Points) -> CallWatch:
        convention = self._foreign.convention
        if self._detours is not None:
            return DetouredSlots(
                self._stub,
                self._memory,
                self._detours,
                self._place,
                cells.SIZE,
                points,
                SiteWatch(self._stub, self._memory, convention, points),
            )
        sender = Sender(self._stub, convention, self._memory)
        if SLOT in (self._choice.name, self._choice.beside):
            steps = bool(self._choice.beside)
            return PltWatch(self._memory, sender, points, self._foreign.arch, steps=steps)
        words = 1 + len(convention.descriptor)
        # If `points` are in use for call sites, points at slots that are code would conflict with
        # them.
        return PoisonedSlots(
            self._memory,
            sender,
            self._place,
            cells.SIZE,
            words=words,
            points=None if self._choice.beside else points,
        )
