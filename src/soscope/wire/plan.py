# SPDX-License-Identifier: Apache-2.0
"""What a control block is made of: the answer to "what shall the agent do"."""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.wire.block import ControlBlock


STRINGS_SIZE = 64 << 20  # names of MAX_SLOTS symbols at 256 bytes; sparse


class InstrumentPlan:
    """The task of one instrument. `instrument` is an INSTRUMENT_ constant of `layout`.

    `rules` and `functions` are the instrument's parts of these sections, as bytes. Their numbers
    of patterns count from the first pattern of the whole plan. `flags` are PLAN_ constants.
    `own_size` is the size in bytes of the shared memory for the instrument's own use, and `own`
    is the initial content of that memory.
    """

    __slots__ = ("flags", "functions", "instrument", "own", "own_size", "rules")

    def __init__(
        self,
        instrument: int,
        *,
        rules: bytes,
        functions: bytes,
        flags: int = 0,
        own_size: int = 0,
        own: bytes = b"",
    ) -> None:
        self.instrument = instrument
        self.rules = rules
        self.functions = functions
        self.flags = flags
        self.own_size = own_size
        self.own = own


class Plan:
    """The content of a new control block.

    `instruments` see the calls of a slot in this order if they have chosen the slot. There are at
    most PLANS of them. `flags` and `when_full` are constants of `layout`. `chunks` is the size of
    the ring in chunks. `count_arrays` is the number of count arrays, and only instruments that
    count by thread need them. `ready_arrays` is the number of arrays that the program maps at its
    start. `strings_size` is the size of the section of names in bytes. `slot_places` is the size
    of the table in which followed children find each other's slots, 0 or SLOT_PLACES. `patterns`
    is the content of its section. `main_path` is the path of the program, and its file name is
    the name of its image.

    `patches` is a table of functions that are to be called in place of others. If it is empty,
    the present patches stay. `function_room` is the number of bytes for tables of functions that
    are added later (`plan.py`). If `gate` is not None, each process has a gate, and the
    program's gate is first open (True) or closed (False). If it is None, there are no gates, and
    all calls are recorded. If `counts_execs` is set, children that are not followed count the
    programs that they execute.
    """

    __slots__ = (
        "build_id",
        "chunks",
        "count_arrays",
        "counts_execs",
        "flags",
        "function_room",
        "gate",
        "instruments",
        "main_path",
        "patches",
        "patterns",
        "ready_arrays",
        "slot_places",
        "spare_chunks",
        "string_limit",
        "strings_size",
        "when_full",
    )

    def __init__(
        self,
        *,
        instruments: list[InstrumentPlan],
        patterns: bytes,
        main_path: str,
        flags: int = 0,
        when_full: int = layout.FULL_BLOCK,
        string_limit: int = 32,
        chunks: int = 0,
        spare_chunks: int = 0,
        count_arrays: int = 0,
        ready_arrays: int = 2,
        strings_size: int = STRINGS_SIZE,
        slot_places: int = 0,
        build_id: bytes = b"",
        patches: bytes = b"",
        function_room: int = 0,
        gate: bool | None = None,
        counts_execs: bool = False,
    ) -> None:
        self.counts_execs = counts_execs
        self.gate = gate
        self.function_room = function_room
        self.instruments = instruments
        self.flags = flags
        self.when_full = when_full
        self.string_limit = string_limit
        self.chunks = chunks
        self.spare_chunks = spare_chunks
        self.count_arrays = count_arrays
        self.ready_arrays = min(ready_arrays, count_arrays)
        self.strings_size = strings_size
        self.slot_places = slot_places
        self.patterns = patterns
        self.main_path = main_path
        self.build_id = build_id
        self.patches = patches


def renumber_patterns(rules: bytes, functions: bytes, first: int) -> tuple[bytes, bytes]:
    """Return rules and a function table with their patterns numbered from `first` on, not from 0.

    The patterns of several instruments are in one section, one instrument after the other.
    """
    if not first:
        return rules, functions
    moved, table = bytearray(rules), bytearray(functions)
    for rule in range(0, len(rules), layout.RULE.size):
        for field in ("symbol", "image"):
            at = rule + layout.RULE.offset(field)
            if int.from_bytes(moved[at : at + 2], "little") not in (
                layout.PATTERN_ANY,
                layout.PATTERN_MAIN,
            ):
                _renumber(moved, at, first)
    _, _, globs, count, *_ = layout.FUNCTION_TABLE.struct.unpack_from(table)
    for glob in range(globs, globs + count * layout.FUNCTION_GLOB.size, layout.FUNCTION_GLOB.size):
        _renumber(table, glob, first)
    families = layout.FUNCTION_TABLE.offset("family")
    for at in range(families, layout.FUNCTION_TABLE.offset("more"), 2):
        _renumber(table, at, first)
    return bytes(moved), bytes(table)


def _renumber(table: bytearray, at: int, first: int) -> None:
    number = int.from_bytes(table[at : at + 2], "little")
    table[at : at + 2] = (number + first).to_bytes(2, "little")


# Tables of functions that are added to a plan after it was made.


def replace_functions(block: ControlBlock, number: int, functions: bytes) -> bool:
    """Give instrument `number` another table of functions. Return whether there is room for it.

    This is possible only before the agent is started.
    """
    at = _append(block, functions)
    if at is None:
        return False
    block.replace_functions(number, at)
    return True


def add_functions(block: ControlBlock, number: int, build: Callable[[int, int], bytes]) -> bool:
    """Add a table of functions to instrument `number`. Return whether there is room for it.

    The agent may be running meanwhile. `build` gets two offsets from the start of the
    instrument's first table: the offset of the new table, and the offset of the table that was
    added before it (0 if there is none). Offsets in the new table also count from the start of
    the first table.
    """
    start, _ = block.section(layout.SEC_FUNCTIONS)
    first = block.functions_start(number)
    more = start + first + layout.FUNCTION_TABLE.offset("more")
    before = int.from_bytes(block.plan.read(more, 4), "little")
    at = _append(block, build(_end(block) - first, before))
    if at is None:
        return False
    return block.plan.write(more, (at - first).to_bytes(4, "little"))  # the new table is complete


def ask_no_more(block: ControlBlock, number: int) -> None:
    """Make the agent ask no more questions about functions of instrument `number`."""
    place = layout.PLAN_HEAD.offset("plan") + number * layout.PLAN.size
    place += layout.PLAN.offset("flags")
    flags = int.from_bytes(block.plan.read(place, 4), "little") & ~layout.PLAN_ASKS
    block.plan.write(place, flags.to_bytes(4, "little"))


def _end(block: ControlBlock) -> int:
    """Return the offset at which the next table begins."""
    used = block.plan.field("functions_used")
    return used + -used % 8


def _append(block: ControlBlock, functions: bytes) -> int | None:
    """Append a table behind all others. Return its offset, None if there is no room for it."""
    start, size = block.section(layout.SEC_FUNCTIONS)
    at = _end(block)
    if at + len(functions) > size or not block.plan.write(start + at, functions):
        return None
    block.plan.set_field("functions_used", at + len(functions))
    return at
