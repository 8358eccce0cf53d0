# SPDX-License-Identifier: Apache-2.0
"""What a control block is made of: the answer to "what shall the agent do"."""

from __future__ import annotations

from soscope.wire import layout

STRINGS_SIZE = 64 << 20  # names of MAX_SLOTS symbols at 256 bytes; sparse


class InstrumentPlan:
    """What one instrument is to see: `instrument` is an INSTRUMENT_ of `layout`.

    `rules` and `functions` are its part of those sections, as bytes; the patterns that they
    name are among those of the whole plan. `flags` are PLAN_ constants. `own_size` are the
    bytes of shared memory that it fills as it likes; `own` is what they begin with.
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
    """What a new control block is made of.

    `instruments` see the calls of a slot that they have chosen in this order, at most PLANS.
    `flags` and `when_full` are constants of `layout`; `chunks` is the size of the
    ring in chunks; `count_arrays` the number of count arrays (only instruments that count by
    thread have some), `ready_arrays` how many of them the program maps at its start.
    `strings_size` is the room for names; `slot_places` what followed children find each other's
    slots in, 0 or SLOT_PLACES. `patterns` is the content of its section, `main_path`
    is the path of the program; its file name is its image's name. `patches` is a table of
    functions that are to stand in the place of others, empty: those that stand are kept.
    `function_room` are bytes for tables of functions that come later (`latertable.py`).
    `gate`: each process has a gate, and the program's is open (True) or closed at first; None:
    there are none, and all calls are recorded. `counts_execs`: children that are not followed count
    the programs that they execute.
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
    """Return rules and a function table whose patterns are numbered from `first` on, not from 0.

    Several instruments have their patterns in one section, one behind the other's.
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
