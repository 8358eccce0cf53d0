# SPDX-License-Identifier: Apache-2.0
"""Find the slots that stubs of position-independent 32-bit PowerPC code go through."""

from __future__ import annotations

import re
from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.stubs.finder import SlotTable, big_endian, branches, numbers, signed
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Start of functions, from the unwind tables, which stay when a file is stripped.

_STARTS_KEY = "functions"


def function_at(table: SlotTable, place: int) -> int:
    """Return the start of the function around `place`; if not known, an address behind `place`."""
    starts: list[int] | None = table.notes.get(_STARTS_KEY)
    if starts is None:
        starts = table.notes[_STARTS_KEY] = _starts(table)
    index = bisect_right(starts, place) - 1
    return starts[index] if index >= 0 else place + 1


def _starts(table: SlotTable) -> list[int]:
    """Return the function addresses in .eh_frame_hdr, none if there is no such table.

    LSB, "Exception Frame Header": a version, three encodings, an address, a count, and pairs of
    numbers that count from the start of the header.
    """
    coding = table.image.encoding
    mask = (1 << coding.bits) - 1
    for segment in table.image.segments:
        if segment.type != c.PT_GNU_EH_FRAME:
            continue
        data = table.read(segment.vaddr, segment.filesz)
        if len(data) < 12 or data[0] != 1 or data[2:4] != b"\x03\x3b":
            continue
        (count,) = coding.u32.unpack_from(data, 8)
        rows = data[12 : 12 + 8 * min(count, (len(data) - 12) // 8)]
        first = numbers(big_endian(rows, coding.order))[::2]
        return sorted({segment.vaddr + value - (value >> 31 << 32) & mask for value in first})
    return []


# Find the slots of stubs for position-independent code on 32-bit PowerPC.
#
# Such a stub counts from %r30, which each function sets for itself. So the same bytes mean one slot
# in one compilation unit and another slot in the next. Two sources tell which slot it is:
#
# - the callers of the stub: the value of %r30 in the function around a call;
# - GNU ld's order: the stubs lie in front of the branches that lazy slots lead to, in the order of
#   their slots, without gaps.
#
# If neither source decides, the stub has no slot.

# mtctr %r11; bctr. Before it: lwz %r11, distance(%r30), with nop behind; or
# addis %r11, %r30, high; lwz %r11, low(%r11)
_LEAVE = re.compile(rb"\x7d\x69\x03\xa6\x4e\x80\x04\x20")
_NEAR, _HIGH, _LOW = b"\x81\x7e", b"\x3d\x7e", b"\x81\x6b"
_NOP = b"\x60\0\0\0"
# lwz %r11, 0(%r3); lwz %r12, 4(%r3); mr %r0, %r3; cmpwi %r11, 0; add %r3, %r12, %r2; beqlr; mr
# %r3, %r0; nop: does the thread-local block exist already?
_TLS = (
    b"\x81\x63\0\0\x81\x83\0\x04\x7c\x60\x1b\x78\x2c\x0b\0\0\x7c\x6c\x12\x14\x4d\x82\0\x20"
    b"\x7c\x03\x03\x78\x60\0\0\0"
)

# start of how a function sets %r30: bcl 20, 31, .+4 or bl .+4; … mflr %r30
_HERE = re.compile(rb"\x42\x9f\0\x05|\x48\0\0\x05")
_TAKEN = re.compile(rb"\x7f\xc8\x02\xa6")
_BETWEEN = rb"(?:.{4}){0,16}?"
# … addis %r30, %r30, high; … addi %r30, %r30, low
_ADDED = re.compile(
    _BETWEEN + rb"\x3f\xde(?P<high>..)" + _BETWEEN + rb"\x3b\xde(?P<low>..)", re.DOTALL
)
# … lwz %rX, distance(%r30); … add %r30, %rX, %r30, in either order
_LOADED = re.compile(
    _BETWEEN + rb"[\x80-\x83][\x1e\x3e\x5e\x7e\x9e\xbe\xde\xfe](?P<low>..)"
    + _BETWEEN + rb"\x7f(?:[\xc0-\xdf]\xf2|\xde.)\x14",
    re.DOTALL,
)  # fmt: skip
_BEFORE = 200  # bytes from the branch to the mflr, at most
_MASK = 0xFFFF_FFFF
_LONGEST = 64  # bytes of filling between two stubs, at most
_KEY = "ppcpic"


def shapes(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, distance from %r30 to the slot) of everything like such a stub."""
    for leave in _LEAVE.finditer(data):
        start, end = leave.start() - 4, leave.end()
        if start < 0:
            continue
        distance = signed(data[start + 2 : start + 4])
        if data.startswith(_NEAR, start):
            if data.startswith(_NOP, end):
                end += 4
        elif start >= 4 and data.startswith(_LOW, start) and data.startswith(_HIGH, start - 4):
            start -= 4
            distance += signed(data[start + 2 : start + 4]) << 16
        else:
            continue
        if start >= len(_TLS) and data.startswith(_TLS, start - len(_TLS)):
            start -= len(_TLS)
        yield start, end, distance


def tied(table: SlotTable) -> dict[int, int]:
    """Return stub address -> slot of each such stub; 0 if its slot is not known."""
    known: dict[int, int] | None = table.notes.get(_KEY)
    if known is None:
        known = table.notes[_KEY] = _tie(table)
        if not all(known.values()):
            table.say("stubs that count from their callers' %r30: not all callers tell their slots")
    return known


class _Stub(Record):
    """One stub: `choices` are its possible slots, `told` the slots that its callers tell."""

    vaddr: int
    end: int
    distance: int
    choices: set[int] = fresh(set)
    told: set[int] = fresh(set)
    is_called: bool = False


def _tie(table: SlotTable) -> dict[int, int]:
    from soscope.binfmt.stubs.finder import all_code

    stubs: dict[int, _Stub] = {}
    bases: dict[int, int] = {}
    for code in all_code(table):
        for start, end, distance in shapes(code.data):
            vaddr = code.vaddr + start
            if not vaddr & 3:
                stubs[vaddr] = _Stub(vaddr, code.vaddr + end, distance)
        bases.update(_set(code.vaddr, code.data, table))
    if not stubs:
        return {}
    places = sorted(bases)
    for code in all_code(table):
        for place, target in branches(code.vaddr, code.data):
            stub = stubs.get(target)
            if stub is None:
                continue
            stub.is_called = True
            index = bisect_right(places, place) - 1
            if index >= 0 and places[index] >= function_at(table, place):
                slot = bases[places[index]] + stub.distance & _MASK
                if slot in table.slots:
                    stub.told.add(slot)
    values = set(bases.values())
    for stub in stubs.values():
        if stub.told:
            stub.choices = stub.told
        else:
            reached = {value + stub.distance & _MASK for value in values}
            stub.choices = {slot for slot in reached if slot in table.slots}
    run = _run(stubs, table)
    order = _by_order(run, table)
    for stub in stubs.values():
        if stub.vaddr not in order:
            if len(stub.told) == 1:
                order[stub.vaddr] = next(iter(stub.told))
            elif stub.is_called or stub in run:
                order[stub.vaddr] = 0
    return order


def _set(vaddr: int, data: bytes, table: SlotTable) -> Iterator[tuple[int, int]]:
    """Yield (address, value) for each address from which on a function has a value in %r30."""
    for taken in _TAKEN.finditer(data):
        at = taken.start()
        first = max(0, at - _BEFORE)
        here = [
            match.end() for match in _HERE.finditer(data, first, at) if not match.start() - at & 3
        ]
        if vaddr + at & 3 or not here:
            continue
        base = vaddr + here[-1]
        added = _ADDED.match(data, at + 4)
        if added is not None:
            value = base + (signed(added["high"]) << 16) + signed(added["low"])
            yield vaddr + added.end(), value & _MASK
            continue
        loaded = _LOADED.match(data, at + 4)
        word = None if loaded is None else table.word(base + signed(loaded["low"]))
        if loaded is not None and word is not None:
            yield vaddr + loaded.end(), base + word & _MASK


def _run(stubs: dict[int, _Stub], table: SlotTable) -> list[_Stub]:
    """Return the stubs that lie directly before the branches of lazy slots, without gaps."""
    calls = _calls(table)
    end = table.word(calls[0]) if calls else None
    run: list[_Stub] = []
    if end is None:
        return run
    for stub in sorted(stubs.values(), key=lambda stub: stub.vaddr, reverse=True):
        if stub.vaddr > end:
            continue
        if not 0 <= end - stub.end < _LONGEST:
            break
        filling = table.read(stub.end, end - stub.end)
        if filling.replace(b"\x60\0\0\0", b"").strip(b"\0"):
            break
        run.append(stub)
        end = stub.vaddr
    run.reverse()
    return run


def _calls(table: SlotTable) -> list[int]:
    return sorted(call for call in table.calls if not table.slots.get(call, True))


def _by_order(run: list[_Stub], table: SlotTable) -> dict[int, int]:
    """Return stub address -> slot if only these fit the order; empty if the order cannot hold."""
    calls = _calls(table)
    number = {slot: index for index, slot in enumerate(calls)}
    ordered = [stub for stub in run if not any(table.slots[slot] for slot in stub.choices)]
    allowed = [{number[slot] for slot in stub.choices if slot in number} for stub in ordered]
    if not allowed:
        return {}
    ways: list[set[int]] = []
    reached = {-1}
    for choices in allowed:
        reached = {choice for choice in choices if choice in reached or choice - 1 in reached} - {
            -1
        }
        if not ways:
            reached &= {0}
        ways.append(reached)
    left = ways[-1] & {len(calls) - 1}
    for index in range(len(ways) - 1, -1, -1):
        ways[index] &= left
        left = {step for way in ways[index] for step in (way, way - 1)}
    return {
        stub.vaddr: calls[next(iter(way))]
        for stub, way in zip(ordered, ways, strict=True)
        if len(way) == 1
    }
