# SPDX-License-Identifier: Apache-2.0
"""Make control blocks from the settings and from what the instruments of a session hook."""

from __future__ import annotations

from soscope.control.instrument import Hooks, Instrument
from soscope.control.room import Room
from soscope.control.settings import WHEN_FULL, SessionSettings
from soscope.errors import UsageError
from soscope.select.automaton import Automaton, pack_patterns
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import (
    InstrumentPlan,
    Plan,
    add_functions,
    ask_no_more,
    renumber_patterns,
    replace_functions,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FUNCTION_ROOM = 1 << 18  # bytes for prototypes from debug information, beside known ones
_LATER_ROOM = 1 << 18  # the same for images that are loaded later
# instruments that stand before (0) or behind (2, 3) the others (1)
_PLACES = {
    layout.INSTRUMENT_OPEN: 0,
    layout.INSTRUMENT_INJECT: 2,
    layout.INSTRUMENT_CLOSE: 3,
}
_PREFAULT = 1 << 20  # bytes of the ring that are paged in before the target starts


class Blocks:
    """Makes the control block of each program of one session.

    `gate` is the initial state of a new program's gate (see `SessionSettings`). `await_exec` is
    called with a process that is about to execute another program, and with the address of that
    program's name.
    """

    __slots__ = (
        "_firsts",
        "_has_made",
        "_hooks",
        "_patches",
        "_patterns",
        "_settings",
        "await_exec",
        "gate",
    )

    def __init__(self, settings: SessionSettings, instruments: Sequence[Instrument]) -> None:
        """Order the hooks. Raise UsageError if there are none, or some cannot be combined."""
        self._settings = settings
        self.gate = settings.gate
        self.await_exec: Callable[[int, int], None] = lambda *_: None
        tables = [each.patches for each in instruments if each.patches is not None]
        self._patches = tables[0] if tables else None
        hooking = [(each.name, each.hooks) for each in instruments if each.hooks]
        if not hooking and self._patches is None:
            raise UsageError("no instrument hooks calls")
        self._hooks = _in_order(hooking)
        patterns: list[Automaton] = []
        self._firsts: list[int] = []  # number of each instrument's first pattern
        for hooks in self._hooks:
            self._firsts.append(len(patterns))
            patterns += hooks.patterns
        self._patterns = pack_patterns(patterns)
        self._has_made = False

    def make(
        self, path: str, descriptors: tuple[int, ...] | None = None, pid: int = 0
    ) -> ControlBlock:
        """Make the block for a program that process `pid` executes.

        `pid` is 0 if there is no process yet. `descriptors` are those of `ControlBlock.create`.
        Raises NoSharedMemory.
        """
        settings = self._settings
        needs_ring = any(hooks.needs_ring for hooks in self._hooks)
        room = Room([hooks.kind for hooks in self._hooks], pid, needs_ring=needs_ring)
        describes = any(hooks.describes for hooks in self._hooks)
        is_later = not pid and describes
        plan = Plan(
            instruments=self._plans(pid),
            patterns=self._patterns,
            main_path=path,
            flags=self._flags(),
            when_full=WHEN_FULL.index(settings.when_full),
            string_limit=max((hooks.string_limit for hooks in self._hooks), default=0),
            chunks=settings.buffer // layout.CHUNK_SIZE if needs_ring else 0,
            spare_chunks=room.spare_chunks,
            count_arrays=room.count_arrays,
            ready_arrays=room.ready_arrays,
            strings_size=room.strings_size,
            slot_places=room.slot_places if settings.follow else 0,
            patches=self._pack_patches(),
            function_room=_LATER_ROOM * describes + (sum(self._rooms()) if is_later else 0),
            gate=self.gate,
            counts_execs=not settings.follow,
        )
        block = ControlBlock.create(plan, descriptors)
        self._tell_all(block)
        if is_later:
            block.when_loaded = lambda pid: self._describe(block, pid)
        self._has_made = True
        if plan.chunks:
            block.prefault(min(_PREFAULT, settings.buffer))
        return block

    def _flags(self) -> int:
        if self._settings.follow:
            return layout.FLAG_FOLLOW
        return layout.FLAG_EXECS

    def _describe(self, block: ControlBlock, pid: int) -> None:
        """Give the agent the prototypes of functions, now that the process's images are mapped."""
        rooms = self._rooms()
        for number, (hooks, first) in enumerate(zip(self._hooks, self._firsts, strict=True)):
            before = hooks.functions
            functions = hooks.functions_for(pid, rooms[number])
            if functions is not before:
                replace_functions(block, number, renumber_patterns(b"", functions, first)[1])
        self._tell_all(block)

    def _tell_all(self, block: ControlBlock) -> None:
        """Record which function names the tables of a new block contain."""
        for number, hooks in enumerate(self._hooks):
            if hooks.describes:
                block.told[number] = dict.fromkeys(hooks.names(), True)

    def answer(self, block: ControlBlock, pid: int, asked: int) -> bool:
        """Answer the question of a process's agent, which then lets the process go on.

        `asked` is one more than the index of an image that is being loaded, or QUESTION_EXEC.
        Return False if the block has no room for the prototypes of the image's functions.
        """
        try:
            if asked == layout.QUESTION_EXEC:
                self.await_exec(pid, block.executes)
                return True
            addr = block.image_start(asked - 1)
            fits = True
            for number, hooks in enumerate(self._hooks):
                if hooks.describes:
                    fits &= self._tell(block, number, hooks, pid, addr)
            return fits
        finally:
            block.answer()

    def _tell(self, block: ControlBlock, number: int, hooks: Hooks, pid: int, addr: int) -> bool:
        told = block.told.setdefault(number, {})
        names = hooks.look_at(pid, addr, told)
        if names is None:
            ask_no_more(block, number)
            return True
        new, asked = names
        if not new and not asked:
            return True

        def table(start: int, before: int) -> bytes:
            return hooks.later_table(new, asked, start, before)

        if not add_functions(block, number, table):
            return False
        told.update(dict.fromkeys(asked, False))
        told.update(dict.fromkeys(new, True))
        return True

    def _rooms(self) -> list[int]:
        """Return the largest size in bytes of each instrument's later table of functions."""
        return [
            len(hooks.functions) + _FUNCTION_ROOM if hooks.describes else 0 for hooks in self._hooks
        ]

    def _plans(self, pid: int) -> list[InstrumentPlan]:
        plans = []
        for hooks, first in zip(self._hooks, self._firsts, strict=True):
            functions = hooks.functions_for(pid)
            rules, functions = renumber_patterns(hooks.rules, functions, first)
            plan = InstrumentPlan(
                hooks.kind,
                rules=rules,
                functions=functions,
                flags=hooks.flags,
                own_size=hooks.own_size,
                own=hooks.own,
            )
            plans.append(plan)
        return plans

    def _pack_patches(self) -> bytes:
        """Return the table of patches for the next program. The first program must have it."""
        if self._patches is None:
            return b""
        return self._patches.pack(0 if self._has_made else layout.PATCHES_MUST)


def _in_order(hooking: list[tuple[str, Hooks]]) -> list[Hooks]:
    """Return the hooks in the order in which the instruments see a call.

    `hooking` has pairs of an instrument's name and its hooks. The instrument that records calls
    sees their real return addresses, and those behind it see its return trampolines. The
    instrument that makes calls fail stands last, so that the others see those calls as the
    program does. An instrument that opens a gate stands before all instruments that the gate
    controls, and one that closes it behind them.
    """
    if len(hooking) > layout.PLANS:
        raise UsageError(f"{len(hooking)} instruments hook calls; {layout.PLANS} can")
    seen: dict[object, str] = {}
    for name, hooks in hooking:
        what = "counts" if hooks.needs_counts else hooks.kind
        if what in seen:
            raise UsageError(f"{seen[what]} and {name} cannot hook calls in one session")
        seen[what] = name
    return sorted(
        (hooks for _, hooks in hooking),
        key=lambda hooks: (
            _PLACES.get(hooks.kind, 1),
            not hooks.needs_ring,
        ),
    )
