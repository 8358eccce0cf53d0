# SPDX-License-Identifier: Apache-2.0
"""Convert values in memory from another machine's layout to x86-64's layout."""

from __future__ import annotations

import re
from functools import partial

from soscope.binfmt.elf.reader import Encoding
from soscope.entry.remote.convention import (
    COMPLEX_POINTER,
    COMPLEX_RECORD,
    COMPLEX_SPLIT,
    COMPLEX_UNKNOWN,
    COMPLEX_WORDS,
    Convention,
)
from soscope.prototypes import catalog, describe, formats
from soscope.prototypes.describe import Leaf, is_whole, leaves_of
from soscope.prototypes.describe import is_wide as is_wide_type
from soscope.prototypes.show import holds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Repack: TypeAlias = "Callable[[bytes], bytes]"


# Convert constants whose values on a machine differ from x86-64's, which recordings use.

SIGNAL = "signal"  # name of the set of signal numbers


class Constants:
    """The sets of one machine: `flags` and `values` of its convention, by the set's name."""

    __slots__ = ("_flags", "_values")

    def __init__(self, flags: dict[str, dict[int, int]], values: dict[str, dict[int, int]]) -> None:
        self._flags = flags
        self._values = values

    def has(self, name: str) -> bool:
        """Return whether any constant of a set has another value."""
        return name in self._flags or name in self._values

    def meant(self, name: str, value: int) -> int:
        """Return x86-64's value of a constant, which belongs to the set `name`."""
        values, flags = self._values.get(name, {}), self._flags.get(name, {})
        if value in values:
            return values[value]
        there = sum(meant for bit, meant in flags.items() if value & bit)
        return value & ~sum(flags) | there

    def signals(self, mask: int) -> int:
        """Return x86-64's bits for a set of signals, one bit for each."""
        values = self._values.get(SIGNAL)
        if not values:
            return mask
        there = 0
        for bit in range(mask.bit_length()):
            if mask >> bit & 1:
                there |= 1 << values.get(bit + 1, bit + 1) - 1
        return there


AS_HERE = Constants({}, {})


# Convert memory that pointers lead to from a machine's layout to x86-64's.
#
# Recordings and prototypes only know x86-64's layout. A plan tells how many bytes are read for a
# number of bytes of x86-64's layout, and how they are converted. If the layout of a type is not
# known, there is no plan, and the pointer is shown as an address.

_HALF, _SIGNAL_WORDS = 4, 8  # bytes
_SIGNALS = (1 << 8 * _SIGNAL_WORDS) - 1
_FAMILY = 2  # bytes of a socket address in the machine's byte order
_PLAIN = frozenset((catalog.POINTS_NOWHERE, catalog.POINTS_TO_STRING, catalog.POINTS_TO_BYTES))
_ALIKE = _PLAIN | {
    catalog.POINTS_TO_WIDE,
    catalog.POINTS_TO_STRING_AT,
}  # read by the machine's own rules


class Repacking:
    """A plan: `there` bytes of the machine become `here` bytes of x86-64, by `repacked`."""

    __slots__ = ("_repack", "here", "there")

    def __init__(self, here: int, there: int, repack: Repack) -> None:
        self.here = here
        self.there = there
        self._repack = repack

    def reads(self, size: int) -> int:
        """Return how many bytes to read for `size` bytes of x86-64."""
        return size // self.here * self.there if self.here else size

    def repacked(self, data: bytes) -> bytes:
        """Convert `data` to x86-64's layout. If its last element is not complete, it is omitted."""
        if not self.here:
            return self._repack(data)
        whole = range(0, len(data) - self.there + 1, self.there)
        return b"".join(self._repack(data[at : at + self.there]) for at in whole)


AS_IT_IS = Repacking(0, 0, lambda data: data)


class Planner:
    """Makes plans for one machine, by its `layouts` of structures.

    Structures without a layout are laid out as on x86-64, if the machine has 64 bits.
    """

    __slots__ = ("_coding", "_constants", "_known", "_layouts", "_most_aligned", "_order")

    def __init__(
        self,
        coding: Encoding,
        layouts: dict[str, tuple[int, tuple[tuple[int, int], ...]]],
        known: frozenset[str],
        *,
        most_aligned: int,
        constants: Constants = AS_HERE,
    ) -> None:
        """`known` are the structures that `layouts` would contain if their layout differed.

        `most_aligned` is the largest alignment of a field in bytes. `constants` are the
        machine's.
        """
        self._constants = constants
        self._coding = coding
        self._layouts = layouts
        self._known = known
        self._most_aligned = most_aligned
        self._order = coding.byteorder

    def plan(self, of: catalog.ArgumentRow, structs: catalog.Structs) -> Repacking | None:
        """Return the plan for the memory that an argument points to, None if it is not known."""
        leads, show = of[4], of[5]
        if leads in _ALIKE:
            return AS_IT_IS
        if leads == catalog.POINTS_TO_SOCKET:
            return AS_IT_IS if self._order == "little" else Repacking(0, 0, _socket)
        if leads == catalog.POINTS_TO_DESCRIPTORS:
            size = self._coding.bits // 8
            return Repacking(
                size, size, lambda data: data if self._order == "little" else data[::-1]
            )
        if show is None:
            return None
        if leads == catalog.POINTS_TO_FIELDS:
            return self.structure(show[3].partition(":")[0], show[1], structs)
        if show[0] == catalog.SHOW_STRUCT:
            return self.structure(show[3], show[1], structs)
        return self._number(of[0], show)

    def _number(self, of: str, show: catalog.Show) -> Repacking | None:
        how, size, _, _ = show
        if how == catalog.SHOW_SIGNALS:
            return Repacking(_SIGNAL_WORDS, _SIGNAL_WORDS, self._signals)
        if how in (
            catalog.SHOW_LONG_DOUBLE,
            catalog.SHOW_COMPLEX,
            catalog.SHOW_BITS,
            catalog.SHOW_TEXT,
        ):
            return None
        there = size
        if (
            size == 8
            and self._coding.bits == 32
            and how != catalog.SHOW_FLOAT
            and not is_wide_type(of)
        ):
            there = _HALF
        return Repacking(size, there, partial(self._integer, show=show))

    def numbers(self, size: int, count: int) -> Repacking:
        """Return the plan for `count` numbers of one size side by side, `size` bytes in all."""
        each = size // count
        if self._order == "little":
            return Repacking(size, size, lambda data: data)
        starts = range(0, size, each)
        return Repacking(
            size, size, lambda data: b"".join(data[at : at + each][::-1] for at in starts)
        )

    def _integer(self, data: bytes, *, show: catalog.Show) -> bytes:
        _, size, is_signed, name = show
        value = int.from_bytes(data, self._order, signed=is_signed)
        if self._constants.has(name):
            value = self._constants.meant(name, value)
        return value.to_bytes(size, "little", signed=is_signed)

    def _signals(self, data: bytes) -> bytes:
        repacked = data
        if self._order == "big" and self._coding.bits == 64:
            repacked = data[::-1]
        elif self._order == "big":
            repacked = data[:_HALF][::-1] + data[_HALF:][::-1]
        mask = int.from_bytes(repacked, "little")
        return (self._constants.signals(mask) & _SIGNALS).to_bytes(len(data), "little")

    def places(
        self, name: str, here: int, leaves: list[Leaf]
    ) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return a structure's size on the machine, and each field's offset and size, if known."""
        told = self._layouts.get(name)
        if told is not None:  # unless it is another structure of that name
            return told if len(told[1]) == len(leaves) else None
        same = tuple((leaf.at, leaf.show[1]) for leaf in leaves)
        if self._coding.bits == 64 or name in self._known:
            return here, same
        if all(size <= _HALF for _, size in same):  # their layout is the same on all machines
            return here, same
        if not any(leaf.at for leaf in leaves):
            return self._in_one_place(here, leaves)
        return self._in_a_row(here, leaves)

    def _in_one_place(
        self, here: int, leaves: list[Leaf]
    ) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return the places of fields that all begin at offset 0, as in a union.

        The result has the form of the result of `places`.
        """
        each = [self._in_a_row(leaf.show[1], [leaf]) for leaf in leaves]
        known = [row_of_one for row_of_one in each if row_of_one is not None]
        if len(known) < len(each):
            return None
        size = max(there for there, _ in known)
        aligned = max(min(there, self._most_aligned) for there, _ in known)
        is_padded = here > max(leaf.show[1] for leaf in leaves)  # for a field that is not shown
        places = tuple(places[0] for _, places in known)
        return None if is_padded else (size + -size % aligned, places)

    def _in_a_row(
        self, here: int, leaves: list[Leaf]
    ) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return the places of fields if each follows the last one at its own alignment.

        Return None if a field does not on x86-64, or if a field is an integer of 64 bits there,
        because it may be a `long`.
        """
        end = end_there = all_aligned = 0
        places = []
        for leaf in leaves:
            how, size, _, _ = leaf.show
            if size > _HALF and how not in (
                catalog.SHOW_FLOAT,
                catalog.SHOW_POINTER,
                catalog.SHOW_TEXT,
            ):
                return None
            there = _HALF if how == catalog.SHOW_POINTER else size
            aligned = 1 if how == catalog.SHOW_TEXT else size
            aligned_there = 1 if how == catalog.SHOW_TEXT else min(there, self._most_aligned)
            end += -end % aligned
            end_there += -end_there % aligned_there
            if end != leaf.at:
                return None
            places.append((end_there, there))
            end, end_there = end + size, end_there + there
            all_aligned = max(all_aligned, aligned_there)
        if not end <= here < end + 2 * _HALF:
            return None
        return end_there + -end_there % (all_aligned or 1), tuple(places)

    def structure(self, name: str, here: int, structs: catalog.Structs) -> Repacking | None:
        """Return the plan for a structure of `here` bytes on x86-64, None if it is not known."""
        leaves = leaves_of(name, structs)
        if leaves is None:
            return None
        laid = self.places(name, here, leaves)
        if laid is None or self._are_in_the_way(leaves, laid[1]):
            return None
        there, places = laid
        there = max(there, *(at + size for at, size in places)) if places else there
        moves = list(zip(leaves, places, strict=True))
        moves.sort(key=lambda move: bool(move[0].when))  # conditional fields come last
        return Repacking(here, there, partial(self._fields, here=here, moves=moves))

    def _are_in_the_way(self, leaves: list[Leaf], places: tuple[tuple[int, int], ...]) -> bool:
        """Return whether two fields share bytes that cannot be converted for both of them.

        This matters only if nothing tells which of the two is valid.
        """
        known = list(zip(leaves, places, strict=True))
        return any(
            first.when == second.when
            and first.at < second.at + second.show[1]
            and second.at < first.at + first.show[1]
            and not self._agree((first, there), (second, other))
            for number, (first, there) in enumerate(known)
            for second, other in known[:number]
        )

    def _agree(
        self, first: tuple[Leaf, tuple[int, int]], second: tuple[Leaf, tuple[int, int]]
    ) -> bool:
        (leaf, (at, size)), (other, (other_at, other_size)) = first, second
        is_wider, is_other_wider = leaf.show[1] > size, other.show[1] > other_size
        if leaf.at == other.at and at == other_at and size == other_size:
            # A field that is wider on x86-64 is extended there by its sign.
            return not (is_wider and is_other_wider) or leaf.show[2] == other.show[2]
        if self._order == "big":
            return False
        return not ((is_wider and other_size > size) or (is_other_wider and size > other_size))

    def _fields(
        self, data: bytes, *, here: int, moves: list[tuple[Leaf, tuple[int, int]]]
    ) -> bytes:
        made = bytearray(here)
        for leaf, (at, size) in moves:
            if leaf.when and not holds(leaf.when, made, 0):
                continue
            how, wanted, _, _ = leaf.show
            piece = data[at : at + size]
            if how == catalog.SHOW_TEXT:
                piece = piece[:wanted]
            elif how == catalog.SHOW_SIGNALS:
                piece = self._signals(piece[:_SIGNAL_WORDS])
            else:
                piece = self._integer(piece, show=leaf.show)
            made[leaf.at : leaf.at + len(piece)] = piece
        return bytes(made[:here])


def _socket(data: bytes) -> bytes:
    return data[:_FAMILY][::-1] + data[_FAMILY:]


# Values passed or returned by value: where x86-64 and the machine have each part.
#
# These are structures, unions and complex numbers.

_EIGHT = 8
_MIXED = 2  # fields that RISC-V passes separately
_RESULT_AT = {
    0: 0,
    1: 8,
    catalog.SECOND_FLOAT: 16,
    catalog.SECOND_FLOAT + 1: 24,
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
        of: catalog.ArgumentRow,
        plan: Repacking,
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
        if self.place in (catalog.PLACE_REGISTERS, catalog.PLACE_RESULT):
            self.places = catalog.unpacked(of[2], plan.here)
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
        repacked = self.plan.repacked(data)
        if self.place == catalog.PLACE_MEMORY:
            return repacked
        kept = bytearray(4 * _EIGHT)
        for number, code in enumerate(self.places):
            piece = repacked[number * _EIGHT : (number + 1) * _EIGHT]
            at = _RESULT_AT[code]
            kept[at : at + len(piece)] = piece
        return bytes(kept)


class PassedComplex(PassedRecord):
    """A complex number passed by value: two numbers of one size."""

    __slots__ = ()

    def __init__(self, of: catalog.ArgumentRow, plan: Repacking, convention: Convention) -> None:
        half = of[3][1] // 2
        numbers = [Number(at, half, is_float=True) for at in (0, half)]
        super().__init__(of, plan, numbers, convention)
        if of[1] == catalog.PLACE_FLOAT:
            self.places = [catalog.SECOND_FLOAT]
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

    def __init__(self, of: catalog.ArgumentRow, size: int) -> None:
        self.plan = AS_IT_IS
        self.size = size
        self.numbers = []
        self.alignment = _EIGHT
        self.is_apart = self.is_by_address = self.is_split = self.returns_apart = False
        self.place, self.index = of[1], of[2]
        self.has_hidden = self.place == catalog.PLACE_MEMORY
        self.places = []
        if self.place == catalog.PLACE_INT:
            self.places = [self.index]
        elif self.place in (catalog.PLACE_REGISTERS, catalog.PLACE_RESULT):
            self.places = catalog.unpacked(self.index, size)


def _classed(of: catalog.ArgumentRow) -> ClassedRecord | None:
    """Return how x86-64 passes a value, None if x87 registers are involved."""
    made = ClassedRecord(of, of[3][1])
    is_there = made.places or made.place in (catalog.PLACE_STACK, catalog.PLACE_MEMORY)
    return None if catalog.SECOND_X87 in made.places or not is_there else made


def record_of(
    of: catalog.ArgumentRow, planner: Planner, structs: catalog.Structs, convention: Convention
) -> PassedRecord | None:
    """Return how a structure or complex number is passed or returned, None if it is not known."""
    how, here, _, name = of[3]
    if convention.records.by_class:
        return _classed(of)
    if how == catalog.SHOW_COMPLEX:
        if convention.complex == COMPLEX_UNKNOWN or here not in _COMPLEX:
            return None
        return PassedComplex(of, planner.numbers(here, 2), convention)
    leaves = leaves_of(name, structs)
    if not leaves or not is_whole(name, structs):
        return None
    if any(leaf.show[0] in (catalog.SHOW_TEXT, catalog.SHOW_SIGNALS) for leaf in leaves):
        return None
    places = planner.places(name, here, leaves)
    plan = planner.structure(name, here, structs)
    if places is None or plan is None:
        return None
    numbers: dict[int, Number] = {}
    is_union = False
    for leaf, (at, size) in zip(leaves, places[1], strict=True):
        is_float = leaf.show[0] == catalog.SHOW_FLOAT
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


# The kinds of arguments and results, which tell how each of them is read.

Kind = str | PassedRecord
# SIGNED is a word whose sign counts. WIDE is an integer of 64 bits on any machine.
WORD, SIGNED, WIDE, DOUBLE, SINGLE, LONGEST = (
    "word",
    "signed",
    "wide",
    "double",
    "single",
    "long double",
)
_SIMPLE = (catalog.PLACE_INT, catalog.PLACE_FLOAT, catalog.PLACE_STACK)
_WIDE_NUMBERS = (b"ll", b"q", b"L", b"j")  # modifiers for 64 bits on any machine
_CONVERSION = re.compile(rb"%[-+ #0'I]*(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|q|L|j|z|Z|t)?([a-zA-Z%])")


def kinds_of(
    arguments: tuple[catalog.ArgumentRow, ...],
    record_of: Callable[[catalog.ArgumentRow], PassedRecord | None],
) -> list[Kind] | None:
    """Return the kinds of arguments, or None if one is passed in an unknown way."""
    kinds: list[Kind] = []
    for argument in arguments:
        place, (how, size, _, _) = argument[1], argument[3]
        if how == catalog.SHOW_LONG_DOUBLE:
            kinds.append(LONGEST)
        elif how in (catalog.SHOW_STRUCT, catalog.SHOW_COMPLEX):
            record = record_of(argument)
            if record is None:
                return None
            kinds.append(record)
        elif place not in _SIMPLE or size > _EIGHT:
            return None
        elif how == catalog.SHOW_FLOAT or place == catalog.PLACE_FLOAT:
            kinds.append(SINGLE if size == _EIGHT // 2 else DOUBLE)
        else:
            kinds.append(kind_of_word(argument))
    return kinds


def kind_of_result(result: catalog.ArgumentRow) -> str:
    """Return the kind of a result. It is WORD if no register holds the whole result."""
    if result[3][0] == catalog.SHOW_LONG_DOUBLE:
        return LONGEST
    if result[1] == catalog.PLACE_FLOAT:
        return SINGLE if result[3][1] == _EIGHT // 2 else DOUBLE
    return kind_of_word(result) if result[1] == catalog.PLACE_INT else WORD


def kind_of_word(argument: catalog.ArgumentRow) -> str:
    """Return WORD, SIGNED or WIDE for an integer or a pointer."""
    _, size, is_signed, _ = argument[3]
    if size == _EIGHT and not argument[0].endswith("*"):
        if describe.is_wide(argument[0]):
            return WIDE
        if is_signed:
            return SIGNED
    return WORD


def kinds_of_format(taken: list[formats.Taken], text: bytes) -> list[Kind]:
    """Return the kinds of the arguments of a format, up to the first one that is not known.

    The types of the arguments do not tell whether they are wide on any machine, but the format
    does.
    """
    wide = _wide_numbers(text)
    if len(wide) != len(taken):  # there are numbered arguments
        first = text.find(b"$")
        if first >= 0:
            return []
        wide = [False] * len(taken)
    kinds: list[Kind] = []
    for is_wide, (_, (how, size, is_signed, _), *_) in zip(wide, taken, strict=True):
        if how == catalog.SHOW_LONG_DOUBLE:
            kinds.append(LONGEST)
        elif how == catalog.SHOW_FLOAT:
            kinds.append(DOUBLE)
        elif is_wide:
            kinds.append(WIDE)
        else:
            kinds.append(SIGNED if is_signed and size == _EIGHT else WORD)
    return kinds


def _wide_numbers(text: bytes) -> list[bool]:
    """Return for each argument of a format whether it is a wide integer."""
    wide = []
    for width, precision, size, letter in _CONVERSION.findall(text):
        if letter in (b"%", b"m"):
            continue
        wide += [False] * ((width == b"*") + (precision == b"*"))
        wide.append(size in _WIDE_NUMBERS and letter in b"diouxX")
    return wide
