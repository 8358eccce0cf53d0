# SPDX-License-Identifier: Apache-2.0
"""Convert memory that pointers lead to from a machine's layout to x86-64's.

Recordings and prototypes only know x86-64's layout. A plan tells how many bytes are read for a
number of bytes of x86-64's layout, and how they are converted. If the layout of a type is not
known, there is no plan, and the pointer is shown as an address.
"""

from __future__ import annotations

from functools import partial

from soscope.binfmt.elf.reader import Encoding
from soscope.control.remote.constants import AS_HERE, Constants
from soscope.prototypes import compiled
from soscope.prototypes.describe import Leaf, is_wide, leaves_of
from soscope.prototypes.show import holds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeAlias

    Order = Literal["little", "big"]
    Turn: TypeAlias = "Callable[[bytes], bytes]"


_HALF, _SIGNAL_WORDS = 4, 8  # bytes
_SIGNALS = (1 << 8 * _SIGNAL_WORDS) - 1
_FAMILY = 2  # bytes of a socket address in the machine's byte order
_PLAIN = frozenset((compiled.LEADS_NOWHERE, compiled.LEADS_TO_STRING, compiled.LEADS_TO_BYTES))
_ALIKE = _PLAIN | {
    compiled.LEADS_TO_WIDE,
    compiled.LEADS_TO_STRING_AT,
}  # read by the machine's own rules


class Relaying:
    """A plan: `there` bytes of the machine become `here` bytes of x86-64, by `turned`."""

    __slots__ = ("_turn", "here", "there")

    def __init__(self, here: int, there: int, turn: Turn) -> None:
        self.here = here
        self.there = there
        self._turn = turn

    def reads(self, size: int) -> int:
        """Return how many bytes to read for `size` bytes of x86-64."""
        return size // self.here * self.there if self.here else size

    def turned(self, data: bytes) -> bytes:
        """Convert `data` to x86-64's layout. If its last element is not complete, it is omitted."""
        if not self.here:
            return self._turn(data)
        whole = range(0, len(data) - self.there + 1, self.there)
        return b"".join(self._turn(data[at : at + self.there]) for at in whole)


AS_IT_IS = Relaying(0, 0, lambda data: data)


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

        `most_aligned` is the largest alignment of a field in bytes. `constants` are those of the
        machine.
        """
        self._constants = constants
        self._coding = coding
        self._layouts = layouts
        self._known = known
        self._most_aligned = most_aligned
        self._order: Order = "little" if coding.order == "<" else "big"

    def plan(self, of: compiled.ArgumentRow, structs: compiled.Structs) -> Relaying | None:
        """Return the plan for the memory that an argument points to, None if it is not known."""
        leads, show = of[4], of[5]
        if leads in _ALIKE:
            return AS_IT_IS
        if leads == compiled.LEADS_TO_SOCKET:
            return AS_IT_IS if self._order == "little" else Relaying(0, 0, _socket)
        if leads == compiled.LEADS_TO_DESCRIPTORS:
            size = self._coding.bits // 8
            return Relaying(
                size, size, lambda data: data if self._order == "little" else data[::-1]
            )
        if show is None:
            return None
        if leads == compiled.LEADS_TO_FIELDS:
            return self.structure(show[3].partition(":")[0], show[1], structs)
        if show[0] == compiled.SHOW_STRUCT:
            return self.structure(show[3], show[1], structs)
        return self._number(of[0], show)

    def _number(self, of: str, show: compiled.Show) -> Relaying | None:
        how, size, _, _ = show
        if how == compiled.SHOW_SIGNALS:
            return Relaying(_SIGNAL_WORDS, _SIGNAL_WORDS, self._signals)
        if how in (
            compiled.SHOW_LONG_DOUBLE,
            compiled.SHOW_COMPLEX,
            compiled.SHOW_BITS,
            compiled.SHOW_TEXT,
        ):
            return None
        there = size
        if size == 8 and self._coding.bits == 32 and how != compiled.SHOW_FLOAT and not is_wide(of):
            there = _HALF
        return Relaying(size, there, partial(self._integer, show=show))

    def numbers(self, size: int, count: int) -> Relaying:
        """Return the plan for `count` numbers of one size side by side, `size` bytes in all."""
        each = size // count
        if self._order == "little":
            return Relaying(size, size, lambda data: data)
        starts = range(0, size, each)
        return Relaying(
            size, size, lambda data: b"".join(data[at : at + each][::-1] for at in starts)
        )

    def _integer(self, data: bytes, *, show: compiled.Show) -> bytes:
        _, size, is_signed, name = show
        value = int.from_bytes(data, self._order, signed=is_signed)
        if self._constants.has(name):
            value = self._constants.meant(name, value)
        return value.to_bytes(size, "little", signed=is_signed)

    def _signals(self, data: bytes) -> bytes:
        turned = data
        if self._order == "big" and self._coding.bits == 64:
            turned = data[::-1]
        elif self._order == "big":
            turned = data[:_HALF][::-1] + data[_HALF:][::-1]
        mask = int.from_bytes(turned, "little")
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

        The result is like that of `places`.
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
                compiled.SHOW_FLOAT,
                compiled.SHOW_POINTER,
                compiled.SHOW_TEXT,
            ):
                return None
            there = _HALF if how == compiled.SHOW_POINTER else size
            aligned = 1 if how == compiled.SHOW_TEXT else size
            aligned_there = 1 if how == compiled.SHOW_TEXT else min(there, self._most_aligned)
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

    def structure(self, name: str, here: int, structs: compiled.Structs) -> Relaying | None:
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
        return Relaying(here, there, partial(self._fields, here=here, moves=moves))

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
            if how == compiled.SHOW_TEXT:
                piece = piece[:wanted]
            elif how == compiled.SHOW_SIGNALS:
                piece = self._signals(piece[:_SIGNAL_WORDS])
            else:
                piece = self._integer(piece, show=leaf.show)
            made[leaf.at : leaf.at + len(piece)] = piece
        return bytes(made[:here])


def _socket(data: bytes) -> bytes:
    return data[:_FAMILY][::-1] + data[_FAMILY:]
