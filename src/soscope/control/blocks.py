# SPDX-License-Identifier: Apache-2.0
"""Make control blocks: the slots to hook, the size of a block, and the recording gates."""

from __future__ import annotations

import resource

from soscope.control.settings import WHEN_FULL, Hooks, Instrument, SessionSettings
from soscope.errors import UsageError
from soscope.select.patterns import Automaton, pack_patterns
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import (
    STRINGS_SIZE,
    InstrumentPlan,
    Plan,
    add_functions,
    ask_no_more,
    renumber_patterns,
    replace_functions,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Gates: whether the calls of each process of a program are recorded at this moment.
#
# The agent opens and closes the gate of its own process when the program calls certain functions.
# soscope opens and closes all gates when it gets a signal.


def toggle(blocks: Iterable[ControlBlock]) -> bool:
    """Close all gates if one is open, else open all. Return whether they are open now."""
    all_gates = []
    for block in blocks:
        used = min(block.gates or 1, layout.GATES)  # 0 if the program has not begun
        all_gates.append(block.view(layout.SEC_GATES, 0, used * 4).cast("I"))
    opens = not any(any(gates) for gates in all_gates)
    for gates in all_gates:
        for index in range(len(gates)):
            gates[index] = opens
        gates.release()
    return opens


# The size of a program's control block, in the shared file and in address spaces.
#
# Only the used part takes memory, but address space and file sizes may be limited (setrlimit(2)),
# for soscope or for the program.

_SPARE, _FEW_SPARE = 4096, 256  # chunks
# Number of threads with counters of their own. Further threads share counters.
_COUNT_ARRAYS, _FEW_COUNT_ARRAYS = 1024, 64
_STATS_ARRAYS, _FEW_STATS_ARRAYS = 288, 32
# Number of arrays that take address space of the program from its start.
_COUNT_READY, _STATS_READY, _FEW_READY = 16, 4, 2
_FEWEST_STRINGS = 4 << 20  # bytes


class Room:
    """The sizes for process `pid` under some instruments.

    `pid` is 0 if the process does not exist yet. `kinds` are INSTRUMENT_ constants of `layout`.
    `needs_ring` is set if one of them records single calls. `spare_chunks` are chunks for threads
    that find none left in the buffer. Each of the `count_arrays` serves one thread, and the
    program maps `ready_arrays` of them from its start. `strings_size` is in bytes. `slot_places`
    are for followed children. Without them each child has its own records of the images that it
    loads.
    """

    __slots__ = ("count_arrays", "ready_arrays", "slot_places", "spare_chunks", "strings_size")

    def __init__(self, kinds: Sequence[int], pid: int, *, needs_ring: bool) -> None:
        ours, its = _is_limited(0), _is_limited(pid)
        self.spare_chunks = self.count_arrays = self.ready_arrays = 0
        if needs_ring:
            self.spare_chunks = _FEW_SPARE if ours or its else _SPARE
        if layout.INSTRUMENT_COUNT in kinds:
            self.count_arrays = _FEW_COUNT_ARRAYS if ours else _COUNT_ARRAYS
            self.ready_arrays = _FEW_READY if its else _COUNT_READY
        elif layout.INSTRUMENT_STATS in kinds:
            self.count_arrays = _FEW_STATS_ARRAYS if ours else _STATS_ARRAYS
            self.ready_arrays = _FEW_READY if its else _STATS_READY
        self.strings_size = STRINGS_SIZE
        self.slot_places = layout.SLOT_PLACES
        limit = _limit(pid, resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            room = min(STRINGS_SIZE, limit // 64 & -layout.PAGE)
            self.strings_size = max(_FEWEST_STRINGS, room)
            self.slot_places = 0


def _is_limited(pid: int) -> bool:
    """Return whether a process's address space or file size is limited.

    If `pid` is 0, the process is this one.
    """
    limits = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
    return any(_limit(pid, kind) != resource.RLIM_INFINITY for kind in limits)


def _limit(pid: int, kind: int) -> int:
    """Return a soft limit of a process. If `pid` is 0, it is this process."""
    try:
        return resource.prlimit(pid, kind)[0]
    except OSError:  # the process has ended, or belongs to another user
        return 0


# Make control blocks from the settings and from what the instruments of a session hook.

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

        `pid` is 0 if there is no process yet. `descriptors` come from `ControlBlock.create`.
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
        raise UsageError(f"{len(hooking)} instruments hook calls; at most {layout.PLANS} can")
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
