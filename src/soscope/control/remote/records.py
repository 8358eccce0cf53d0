# SPDX-License-Identifier: Apache-2.0
"""Values passed or returned by value: where x86-64 and the machine have each part.

These are structures, unions and complex numbers.
"""

from __future__ import annotations

from soscope.control.breakpoints.layouts import AS_IT_IS, Planner, Relaying
from soscope.entry.remote.convention import (
    COMPLEX_POINTER,
    COMPLEX_RECORD,
    COMPLEX_SPLIT,
    COMPLEX_UNKNOWN,
    COMPLEX_WORDS,
    Convention,
)
from soscope.prototypes import compiled
from soscope.prototypes.describe import is_whole, leaves_of

_EIGHT = 8
_MIXED = 2  # fields that RISC-V passes separately
_RESULT_AT = {
    0: 0,
    1: 8,
    compiled.SECOND_FLOAT: 16,
    compiled.SECOND_FLOAT + 1: 24,
}  # offsets in OP_RESULT
_ANY = -1
_COMPLEX = (8, 16)  # bytes; complex long doubles have other sizes


class Number:
    """A field: its offset and size on the machine, and whether it is a floating-point number."""

    __slots__ = ("at", "is_float", "size")

    def __init__(self, at: int, size: int, *, is_float: bool) -> None:
        self.at = at
        self.size = size
        self.is_float = is_float


class PassedRecord:
    """One structure passed by value. `size` is its size on the machine.

    `numbers` are its fields, each offset once. `is_apart` is set if each field is passed
    separately while registers are free, and `is_split` if each field is always an argument of its
    own. `returns_apart` is set if its fields are returned in separate registers. `is_by_address`
    is set if its address is passed instead. `has_hidden` is set for a result whose address the
    caller passes.
    """

    __slots__ = (
        "alignment",
        "has_hidden",
        "is_apart",
        "is_by_address",
        "is_split",
        "numbers",
        "place",
        "places",
        "plan",
        "returns_apart",
        "size",
    )

    def __init__(
        self,
        of: compiled.ArgumentRow,
        plan: Relaying,
        numbers: list[Number],
        convention: Convention,
        *,
        is_union: bool = False,
    ) -> None:
        """`is_union` is set if several fields lie at one offset."""
        self.plan = plan
        self.size = plan.there
        self.numbers = numbers
        self.alignment = max(number.size for number in numbers)
        self.place = of[1]
        self.places: list[int] = []
        if self.place in (compiled.PLACE_REGISTERS, compiled.PLACE_RESULT):
            self.places = compiled.unpacked(of[2], plan.here)
        rules = convention.records
        may_be_apart = not is_union or rules.has_unions
        self.is_apart = may_be_apart and self._is_apart(rules.numbers, is_mixed=rules.is_mixed)
        self.is_split = False
        self.returns_apart = self.is_apart
        by_value = rules.most == _ANY or self.size <= rules.most
        if rules.sizes and self.size not in rules.sizes:
            by_value = False
        self.is_by_address = not by_value and not self.is_apart
        self.has_hidden = self.size > rules.result_most and not (
            rules.result_most and self.is_apart
        )

    def _is_apart(self, most: int, *, is_mixed: bool) -> bool:
        floats = [number for number in self.numbers if number.is_float]
        if is_mixed:
            return bool(floats) and len(self.numbers) <= _MIXED
        is_alike = len(floats) == len(self.numbers) and len({each.size for each in floats}) == 1
        return is_alike and len(floats) <= most

    def as_kept(self, data: bytes) -> bytes:
        """Return the bytes of OP_RESULT, x86-64's registers, from the bytes of a result."""
        turned = self.plan.turned(data)
        if self.place == compiled.PLACE_MEMORY:
            return turned
        kept = bytearray(4 * _EIGHT)
        for number, code in enumerate(self.places):
            piece = turned[number * _EIGHT : (number + 1) * _EIGHT]
            at = _RESULT_AT[code]
            kept[at : at + len(piece)] = piece
        return bytes(kept)


class PassedComplex(PassedRecord):
    """A complex number passed by value: two numbers of one size."""

    __slots__ = ()

    def __init__(self, of: compiled.ArgumentRow, plan: Relaying, convention: Convention) -> None:
        half = of[3][1] // 2
        numbers = [Number(at, half, is_float=True) for at in (0, half)]
        super().__init__(of, plan, numbers, convention)
        if of[1] == compiled.PLACE_FLOAT:
            self.places = [compiled.SECOND_FLOAT]
        how = convention.complex
        if how == COMPLEX_RECORD:
            return
        self.is_split = how == COMPLEX_SPLIT
        self.is_by_address = how == COMPLEX_POINTER
        has_floats = bool(convention.floats)
        self.is_apart = False
        self.returns_apart = self.is_split or (how == COMPLEX_WORDS and has_floats)
        self.has_hidden = self.is_by_address or (not has_floats and self.size > _EIGHT)


class ClassedRecord(PassedRecord):
    """A structure passed by the classes of x86-64's psABI, whatever its fields are.

    `places` are registers as prototype rows number them. It is empty if the structure is in
    memory. `index` is then its place on the stack, in words.
    """

    __slots__ = ("index",)

    def __init__(self, of: compiled.ArgumentRow, size: int) -> None:
        self.plan = AS_IT_IS
        self.size = size
        self.numbers = []
        self.alignment = _EIGHT
        self.is_apart = self.is_by_address = self.is_split = self.returns_apart = False
        self.place, self.index = of[1], of[2]
        self.has_hidden = self.place == compiled.PLACE_MEMORY
        self.places = []
        if self.place == compiled.PLACE_INT:
            self.places = [self.index]
        elif self.place in (compiled.PLACE_REGISTERS, compiled.PLACE_RESULT):
            self.places = compiled.unpacked(self.index, size)


def _classed(of: compiled.ArgumentRow) -> ClassedRecord | None:
    """Return how x86-64 passes a value, None if x87 registers are involved."""
    made = ClassedRecord(of, of[3][1])
    is_there = made.places or made.place in (compiled.PLACE_STACK, compiled.PLACE_MEMORY)
    return None if compiled.SECOND_X87 in made.places or not is_there else made


def record_of(
    of: compiled.ArgumentRow, planner: Planner, structs: compiled.Structs, convention: Convention
) -> PassedRecord | None:
    """Return how a structure or complex number is passed or returned, None if it is not known."""
    how, here, _, name = of[3]
    if convention.records.by_class:
        return _classed(of)
    if how == compiled.SHOW_COMPLEX:
        if convention.complex == COMPLEX_UNKNOWN or here not in _COMPLEX:
            return None
        return PassedComplex(of, planner.numbers(here, 2), convention)
    leaves = leaves_of(name, structs)
    if not leaves or not is_whole(name, structs):
        return None
    if any(leaf.show[0] in (compiled.SHOW_TEXT, compiled.SHOW_SIGNALS) for leaf in leaves):
        return None
    places = planner.places(name, here, leaves)
    plan = planner.structure(name, here, structs)
    if places is None or plan is None:
        return None
    numbers: dict[int, Number] = {}
    is_union = False
    for leaf, (at, size) in zip(leaves, places[1], strict=True):
        is_float = leaf.show[0] == compiled.SHOW_FLOAT
        is_union |= any(
            at < each.at + each.size and each.at < at + size for each in numbers.values()
        )
        first = numbers.get(at)
        if first is None:
            numbers[at] = Number(at, size, is_float=is_float)
        else:
            # An offset that other fields share is no floating-point number.
            first.is_float &= is_float and first.size == size
            first.size = max(first.size, size)
    of_each = sorted(numbers.values(), key=lambda each: each.at)
    return PassedRecord(of, plan, of_each, convention, is_union=is_union)
