# SPDX-License-Identifier: Apache-2.0
"""The contents of a control block, and the position of each part."""

from __future__ import annotations

import errno
import os

from soscope.model.record import Record
from soscope.wire import layout
from soscope.wire.sharedfile import PlanFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.model.call import Stats
    from soscope.wire.block import ControlBlock


STRINGS_SIZE = 64 << 20  # names of MAX_SLOTS symbols at 256 bytes; sparse


class InstrumentPlan(Record):
    """The task of one instrument. `instrument` is an INSTRUMENT_ constant of `layout`.

    `rules` and `functions` are the instrument's parts of these sections, as bytes. Their numbers
    of patterns count from the first pattern of the whole plan. `flags` are PLAN_ constants.
    `own_size` is the size in bytes of the shared memory for the instrument's own use, and `own`
    is the initial content of that memory.
    """

    instrument: int
    rules: bytes
    functions: bytes
    flags: int = 0
    own_size: int = 0
    own: bytes = b""


class Plan(Record, kw_only=True):
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

    instruments: list[InstrumentPlan]
    patterns: bytes
    main_path: str
    flags: int = 0
    when_full: int = layout.FULL_BLOCK
    string_limit: int = 32
    chunks: int = 0
    spare_chunks: int = 0
    count_arrays: int = 0
    ready_arrays: int = 2
    strings_size: int = STRINGS_SIZE
    slot_places: int = 0
    build_id: bytes = b""
    patches: bytes = b""
    function_room: int = 0
    gate: bool | None = None
    counts_execs: bool = False


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
    """Stop the agent's questions about functions of instrument `number`."""
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


# The sums of COUNT and STATS: an array for each thread, and one that other threads share.
#
# An array has a cell for each slot. If calls are counted by call site, the array also has a cell
# for each call site, behind the cells of the slots. The cell of call site number n has the index
# MAX_SLOTS + n. A call that is counted in the cell of its call site is not counted in the cell of
# its slot.

_TIMED = 8  # a call takes at least so many times as long to time as to count


def by_call_site(plan: Plan) -> bool:
    """Return whether an instrument of the plan counts calls by call site."""
    return any(instrument.flags & layout.PLAN_CALLERS for instrument in plan.instruments)


def size_of(plan: Plan) -> int:
    """Return the size of one array in bytes."""
    kinds = [instrument.instrument for instrument in plan.instruments]
    cells = layout.MAX_SLOTS + (layout.MAX_CALL_SITES if by_call_site(plan) else 0)
    return cells * (layout.STATS.size if layout.INSTRUMENT_STATS in kinds else 8)


class CountArrays(Record):
    """The arrays of a control block whose file is `fd` and whose memory is `words`.

    They begin at `offset` and have `size` bytes. There are `arrays` of them, and the first `used`
    are in use. `slots` and `call_sites` are the numbers of slots and call sites. By now there can
    have been at most `most_calls` calls, each of at most `most_ticks`.
    """

    fd: int
    words: memoryview
    offset: int
    size: int
    arrays: int
    used: int
    slots: int
    call_sites: int
    most_calls: int
    most_ticks: int

    def views(self, width: int) -> Iterator[tuple[int, memoryview]]:
        """Yield (index of the first cell, view) for each written part of the arrays in use.

        A view consists of u64, `width` in each cell.
        """
        size = self.size // 8 // self.arrays if self.arrays else 0
        parts = [(0, self.slots)]
        if size > layout.MAX_SLOTS * width:
            parts.append((layout.MAX_SLOTS, self.call_sites))
        for array in range(self.used):
            for first, count in parts:
                start = self.offset // 8 + array * size + first * width
                for at, end in self._written(start, count * width):
                    yield first + at // width, self.words[start + at : start + end]

    def rest(self, width: int) -> Iterator[memoryview]:
        """Yield the written parts outside the cells in use. Nothing should have written there."""
        size = self.size // 8 // self.arrays if self.arrays else 0
        ends = [(self.slots, min(layout.MAX_SLOTS, size // width))]
        if size > layout.MAX_SLOTS * width:
            ends.append((layout.MAX_SLOTS + self.call_sites, size // width))
        for array in range(self.arrays):
            for first, end in ends if array < self.used else [(0, size // width)]:
                start = self.offset // 8 + array * size + first * width
                for at, until in self._written(start, (end - first) * width, is_known=True):
                    yield self.words[start + at : start + until]

    def _written(
        self, start: int, words: int, *, is_known: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of the written parts among the `words` words from `start` on.

        The parts consist of whole pages. Reading the other pages would allocate them, and there
        may be hundreds of arrays. If the file system cannot tell which pages were written, yield
        all words, or with `is_known` nothing.
        """
        at, end = start * 8, (start + words) * 8
        while at < end:
            try:
                first = os.lseek(self.fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO and not is_known:  # no SEEK_DATA here
                    yield at // 8 - start, words
                return  # no further written page
            if first >= end:
                return
            first = max(at, first)
            last = min(end, os.lseek(self.fd, first, os.SEEK_HOLE))
            yield first // 8 - start, last // 8 - start
            at = last


def counts(arrays: CountArrays) -> dict[int, int]:
    """Return {index: number of calls} of COUNT, without zero and impossible counts."""
    total: dict[int, int] = {}
    for first, view in arrays.views(1):
        for index, calls in enumerate(view.tolist(), first):
            if 0 < calls <= arrays.most_calls:
                total[index] = total.get(index, 0) + calls
    return total


def stats(arrays: CountArrays) -> Stats:
    """Return the sums of STATS, by index.

    The times are ticks, merged over all arrays. The minimum and the maximum are 0 if no call has
    returned. Cells without calls and impossible cells are left out.
    """
    width = layout.STATS.size // 8
    merged: dict[int, tuple[int, ...]] = {}
    for first, view in arrays.views(width):
        columns = zip(view[::width].tolist(), view[1::width].tolist(), strict=True)
        for at, words in zip(range(0, len(view), width), columns, strict=True):
            if words != (0, 0) and _can_be(arrays, view[at : at + 7].tolist()):
                calls, returns, errors, total, least, most, own = view[at : at + 7]
                index = first + at // width
                before = merged.get(index)
                if before is not None:
                    calls += before[0]
                    returns += before[1]
                    errors += before[2]
                    total += before[3]
                    least = min(least, before[4]) if least and before[4] else least or before[4]
                    most = max(most, before[5])
                    own += before[6]
                merged[index] = calls, returns, errors, total, least, most, own
    # The agent stores the minimum plus one, and 0 while there is none.
    return {
        index: (calls, returns, errors, total, max(least - 1, 0), most, own)
        for index, (calls, returns, errors, total, least, most, own) in merged.items()
    }


def _can_be(arrays: CountArrays, cell: list[int]) -> bool:
    """Return whether a cell's counts and times are possible.

    The words of a cell are not read at the same moment, so the sums may differ by one call.
    """
    calls, returns, errors, total, least, most, own = cell
    longest = arrays.most_ticks
    return (
        max(calls, returns, errors) <= arrays.most_calls // _TIMED
        and max(least, most) <= longest
        and max(total, own) <= (max(calls, returns) + 1) * longest
    )


def spoiled(arrays: CountArrays, width: int) -> int:
    """Return the number of counters that cannot be right.

    These are counters outside the cells in use that are not 0, and counters that contradict
    others.
    """
    bad = 0
    for view in arrays.rest(width):
        data = view.tobytes()
        if data.strip(b"\0"):
            bad += len(view) - view.tolist().count(0)
    if width == 1:
        for _, view in arrays.views(width):
            bad += sum(calls > arrays.most_calls for calls in view.tolist())
        return bad
    for _, view in arrays.views(width):
        columns = zip(view[::width].tolist(), view[1::width].tolist(), strict=True)
        for at, words in zip(range(0, len(view), width), columns, strict=True):
            _, returns = words  # the call itself may be in another array
            _, _, errors, total, least, most, own, rest = view[at : at + width]
            is_right = errors <= returns and max(least - 1, 0) <= most <= total and not rest
            is_right &= bool(returns) or not (total or least or own)
            bad += not (is_right and _can_be(arrays, view[at : at + 7].tolist()))
    return bad


class LaidOut:
    """The layout of the files for a plan.

    `size` is the size of the control block in bytes. `target_size` is the size of the part that
    the target maps at first, without most of the count arrays. `plan_size` is the size of the
    plan's file in bytes.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sections = [0] * (2 * layout.SECTIONS)
        functions = bytearray()
        for instrument in plan.instruments:
            functions += instrument.functions
            functions += bytes(-len(functions) % 8)
        self._main_name = len(functions)
        functions += os.fsencode(os.path.basename(plan.main_path)) + b"\0"
        self._main_path = len(functions)
        functions += os.fsencode(plan.main_path) + b"\0"
        self._functions = bytes(functions)
        rules = sum(len(instrument.rules) for instrument in plan.instruments)
        self._own: list[tuple[int, int]] = []
        self._given: list[tuple[int, int]] = []
        self.size = self._place_in_block(rules // layout.RULE.size)
        self.plan_size = self._place_in_plan(rules)
        later = max(plan.count_arrays - plan.ready_arrays, 0)
        self.target_size = self.size - later * size_of(plan)

    def _place_in_block(self, rules: int) -> int:
        plan = self._plan
        chunks = plan.chunks + plan.spare_chunks
        numbers = layout.MAX_CALL_SITES if chunks or by_call_site(plan) else 0
        chains = 0
        if numbers and plan.flags & layout.FLAG_FOLLOW:
            chains = layout.CALL_SITE_HEADS + numbers
        sizes = {
            layout.SEC_IMAGES: layout.MAX_IMAGES * layout.IMAGE.size,
            layout.SEC_SLOTS: layout.MAX_SLOTS * layout.SLOT.size,
            layout.SEC_STRINGS: plan.strings_size,
            layout.SEC_CHUNK_STATES: chunks * 4,
            layout.SEC_RING: chunks * layout.CHUNK_SIZE,
            layout.SEC_PLACES: plan.slot_places * 4,
            layout.SEC_MOVES: layout.MAX_MOVES * layout.MOVE.size,
            layout.SEC_CALL_SITES: numbers * layout.CALL_SITE.size,
            layout.SEC_CALL_SITE_CHAINS: chains * 4,
            layout.SEC_MATCHES: rules * 4,
            layout.SEC_PATCHED: len(plan.patches),
            layout.SEC_GATES: 0 if plan.gate is None else layout.GATES * 4,
            layout.SEC_COUNTS: plan.count_arrays * size_of(plan),  # must be the last
        }
        end = layout.PAGE
        for instrument in plan.instruments:
            self._own.append((end, instrument.own_size))
            end += instrument.own_size
            end += -end % layout.PAGE
        for section, size in sizes.items():
            alignment = layout.CHUNK_SIZE if section == layout.SEC_RING else layout.PAGE
            end += -end % alignment
            self._sections[2 * section : 2 * section + 2] = end, size
            end += size
        return end + -end % layout.PAGE

    def _place_in_plan(self, rules: int) -> int:
        plan = self._plan
        sizes = {
            layout.SEC_PATTERNS: len(plan.patterns),
            layout.SEC_RULES: rules,
            layout.SEC_PATCHES: len(plan.patches),
            layout.SEC_FUNCTIONS: len(self._functions) + plan.function_room,  # the end stays sparse
        }
        end = layout.PAGE
        for instrument in plan.instruments:
            self._given.append((end, len(instrument.own)))
            end += len(instrument.own) + -len(instrument.own) % 64
        for section, size in sizes.items():
            self._sections[2 * section : 2 * section + 2] = end, size
            end += size + -size % 8
        return end + -end % layout.PAGE

    def fill(self, file: PlanFile) -> None:
        """Write the content of the plan to its file."""
        plan, head = self._plan, layout.PLAN_HEAD
        rows = []
        first_rule = tables = 0
        for instrument, own, given in zip(plan.instruments, self._own, self._given, strict=True):
            count = len(instrument.rules) // layout.RULE.size
            words = (instrument.instrument, instrument.flags, first_rule, count, tables, 0)
            rows.append(layout.PLAN.struct.pack(*words, *own, *given))
            file.write(given[0], instrument.own)
            first_rule += count
            tables += len(instrument.functions)
            tables += -tables % 8
        for section, content in (
            (layout.SEC_PATTERNS, plan.patterns),
            (layout.SEC_RULES, b"".join(each.rules for each in plan.instruments)),
            (layout.SEC_FUNCTIONS, self._functions),
            (layout.SEC_PATCHES, plan.patches),
        ):
            file.write(self._sections[2 * section], content)
        for name, value in (
            ("head_size", head.size),
            ("plans", len(plan.instruments)),
            ("flags", plan.flags),
            ("string_limit", plan.string_limit),
            ("chunks", plan.chunks + plan.spare_chunks),
            ("spare_chunks", plan.spare_chunks),
            ("count_arrays", plan.count_arrays),
            ("main_name", self._main_name),
            ("main_path", self._main_path),
            ("functions_used", len(self._functions)),
            ("magic", layout.PLAN_MAGIC),
        ):
            file.set_field(name, value)
        sections = b"".join(word.to_bytes(8, "little") for word in self._sections)
        file.write(head.offset("section"), sections)
        file.write(head.offset("plan"), b"".join(rows))
