# SPDX-License-Identifier: Apache-2.0
"""Read arguments as the architecture passes them, and store them as x86-64 would pass them.

Recordings and prototypes only know the x86-64 convention. So the arguments of a call are read
value by value, in order, and put where x86-64 would have the same value: in one of six words, one
of eight floating-point numbers, or on the stack.
"""

from __future__ import annotations

from soscope.control.remote import longdoubles
from soscope.control.remote.floats import as_single, float_register, whole_register
from soscope.control.remote.kinds import LONGEST, SIGNED, SINGLE, WIDE, WORD, Kind
from soscope.control.remote.records import ClassedRecord, PassedRecord
from soscope.entry.remote.convention import (
    LONG_DOUBLE_PAIR,
    LONG_DOUBLE_POINTER,
    LONG_DOUBLE_SHORT,
    LONG_DOUBLE_X87,
    WORDS_BY_PLACE,
    Convention,
)
from soscope.prototypes import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from soscope.entry.remote.stub import StoppedThread, WordMemory


_WORDS, _FLOATS = 6, 8  # argument registers of x86-64
_EIGHT = 8
_TWO_WORDS = 16  # bytes


class PassedArguments:
    """The arguments of one call: `words`, `stack` and `floats` as x86-64 has them."""

    __slots__ = ("floats", "stack", "words")

    def __init__(self) -> None:
        self.words: list[int] = []
        self.stack: list[int] = []
        self.floats: list[bytes] = []  # 8 bytes each

    def word(self, value: int) -> None:
        """Add an integer or a pointer."""
        (self.words if len(self.words) < _WORDS else self.stack).append(value)

    def number(self, value: bytes) -> None:
        """Add a floating-point number."""
        if len(self.floats) < _FLOATS:
            self.floats.append(value)
        else:
            self.stack.append(int.from_bytes(value, "little"))

    def long_double(self, value: tuple[int, int]) -> None:
        """Add the two words of an x87 number, with alignment."""
        if len(self.stack) % 2:
            self.stack.append(0)
        self.stack += value


class Reader:
    """Reads the arguments of one call in order, while its thread is stopped at the entry."""

    __slots__ = (
        "_convention",
        "_floats",
        "_halves",
        "_leads",
        "_memory",
        "_on_stack",
        "_sp",
        "_stub",
        "_words",
        "taken",
    )

    def __init__(
        self, stub: StoppedThread, memory: WordMemory, convention: Convention, sp: int
    ) -> None:
        self._stub = stub
        self._memory = memory
        self._convention = convention
        self._sp = sp
        self._words = 0
        self._floats = 0
        self._halves: list[tuple[int, bytes]] = []  # free halves of float registers
        self._leads = True  # only numbers were read so far
        self._on_stack = 0
        self.taken = PassedArguments()

    def take(self, kinds: list[Kind], *, variadic: bool = False) -> None:
        """Read arguments of these kinds. With `variadic` they are behind `...`."""
        in_words = variadic and self._convention.variadic_in_words
        bits = self._memory.coding.bits
        for kind in kinds:
            if kind == WIDE:
                self.taken.word(self._wide())
            elif kind == SIGNED:
                self.taken.word(extended(self._word(), bits))
            elif kind == WORD:
                self.taken.word(self._word())
            elif isinstance(kind, ClassedRecord):
                self._by_class(kind)
            elif isinstance(kind, PassedRecord):
                self._put(kind, self._record(kind))
            elif kind == LONGEST:
                self.taken.long_double(self._long_double(variadic=variadic))
            elif in_words:
                self.taken.number(self._wide().to_bytes(8, "little"))
            else:
                self.taken.number(self._number(is_single=kind == SINGLE))

    def _word(self) -> int:
        self._leads = False
        registers = self._convention.words
        if self._words < len(registers):
            self._words += 1
            return self._stub.get(registers[self._words - 1])
        return self._stacked()

    def _stacked(self) -> int:
        size = self._memory.coding.bits // 8
        at = self._sp + self._convention.stack + size * self._on_stack
        self._on_stack += 1
        return self._memory.word(at)

    def _wide(self) -> int:
        """Read 64 bits: one word, or two words that are both in registers or both on the stack."""
        coding, convention = self._memory.coding, self._convention
        if coding.bits == 64:
            return self._word()
        if convention.pairs_even:
            self._words += self._words % 2
        if self._words + 2 > len(convention.words):
            self._words = len(convention.words)
            if convention.pairs_even:
                self._on_stack += self._on_stack % 2
        first, second = self._word(), self._word()
        return first << 32 | second if coding.order == ">" else second << 32 | first

    def hidden(self) -> int:
        """Read the address that a caller passes for a result."""
        pointer = self._convention.records.pointer
        return self._stub.get(pointer) if pointer else self._word()

    def _record(self, of: PassedRecord) -> bytes:
        """Read a structure, and return its bytes as they would be in memory."""
        convention, coding = self._convention, self._memory.coding
        size = coding.bits // 8
        count = -(-of.size // size)
        if of.is_split:
            return self._numbers(of)
        is_by_place = convention.by == WORDS_BY_PLACE
        if of.is_apart and not is_by_place:
            floats = sum(number.is_float for number in of.numbers)
            integers = len(of.numbers) - floats
            if convention.singles_packed and of.numbers[0].size == _EIGHT // 2:
                if self._has_room_for_singles(floats):
                    return self._singles(of)
            elif (
                self._floats + floats <= len(convention.floats)
                and self._words + integers <= len(convention.words) + (not integers) * count
            ):
                return self._numbers(of)
            if not convention.records.is_mixed:
                self._take_no_floats()
        if of.is_by_address:
            return self._memory.read(self._word(), of.size)
        in_memory = of.is_apart and not (convention.records.is_mixed or is_by_place)
        if convention.pairs_even and of.alignment > size:
            if self._words < len(convention.words) and not in_memory:
                self._words += self._words % 2
            else:
                self._on_stack += self._on_stack % 2
        if in_memory:
            words = [self._stacked() for _ in range(count)]
        else:
            if convention.records.is_undivided and self._words + count > len(convention.words):
                self._words = len(convention.words)
            words = [self._word() for _ in range(count)]
        order: Literal["little", "big"] = "little" if coding.order == "<" else "big"
        data = b"".join(word.to_bytes(size, order) for word in words)
        is_right = convention.records.is_right and count == 1
        data = data[-of.size :] if is_right else data[: of.size]
        return self._with_numbers(of, data) if of.is_apart and is_by_place else data

    def _by_class(self, of: ClassedRecord) -> None:
        """Read a structure from the place that x86-64's classes give it."""
        for place in of.places:
            if place >= compiled.SECOND_FLOAT:
                self.taken.floats.append(self._number(is_single=False))
            else:
                self.taken.words.append(self._word())
        if not of.places:
            while self._on_stack < of.index - (-of.size // _EIGHT):
                self.taken.stack.append(self._stacked())

    def _has_room_for_singles(self, count: int) -> bool:
        """Return whether `count` floats fit into registers in a row, two floats in each."""
        if count == 1 and self._halves:
            return True
        before = sum(at == self._floats - 1 for at, _ in self._halves)
        return self._floats + -(-(count - before) // 2) <= len(self._convention.floats)

    def _singles(self, of: PassedRecord) -> bytes:
        """Read floats in a row. A free half with a used register behind it is not used for them."""
        aside = [half for half in self._halves if half[0] != self._floats - 1]
        if len(of.numbers) > 1:
            self._halves = self._halves[len(aside) :]
            made = self._numbers(of)
            self._halves = aside + self._halves
            return made
        return self._numbers(of)

    def _take_no_floats(self) -> None:
        """Read no more floats from registers, because one did not fit."""
        self._floats = len(self._convention.floats)
        self._halves.clear()

    def _with_numbers(self, of: PassedRecord, data: bytes) -> bytes:
        """Read the first fields from float registers, as long as there are free ones.

        Their places among the words, from which `data` was read, are unused.
        """
        convention, order = self._convention, self._memory.coding.order
        made = bytearray(data)
        left = len(convention.floats) - self._floats
        for number in of.numbers[: max(left, 0)]:
            self._floats += 1
            name = convention.floats[self._floats - 1]
            value = float_register(self._stub, convention, name)
            if number.size == _EIGHT // 2:
                value = as_single(value, convention)
            value = value[: number.size]
            made[number.at : number.at + number.size] = value if order == "<" else value[::-1]
        return bytes(made)

    def _numbers(self, of: PassedRecord) -> bytes:
        order = self._memory.coding.order
        made = bytearray(of.size)
        for number in of.numbers:
            if number.is_float:
                data = self._number(is_single=number.size == _EIGHT // 2)[: number.size]
            else:
                data = self._word().to_bytes(_EIGHT, "little")[: number.size]
            made[number.at : number.at + number.size] = data if order == "<" else data[::-1]
        return bytes(made)

    def _put(self, of: PassedRecord, data: bytes) -> None:
        """Store a structure where x86-64 passes it."""
        turned = of.plan.turned(data).ljust(of.plan.here, b"\0")
        pieces = [
            turned[at : at + _EIGHT].ljust(_EIGHT, b"\0") for at in range(0, len(turned), _EIGHT)
        ]
        for number, piece in enumerate(pieces):
            word = int.from_bytes(piece, "little")
            is_float = of.place == compiled.PLACE_FLOAT or (
                of.place == compiled.PLACE_REGISTERS and of.places[number] >= compiled.SECOND_FLOAT
            )
            if of.place == compiled.PLACE_STACK:
                self.taken.stack.append(word)
            elif is_float:
                self.taken.floats.append(piece)
            else:
                self.taken.words.append(word)

    def _long_double(self, *, variadic: bool) -> tuple[int, int]:
        convention, order = self._convention, self._memory.coding.order
        how = convention.long_double
        if how == LONG_DOUBLE_SHORT:
            in_words = variadic and convention.variadic_in_words
            double = (
                self._wide().to_bytes(8, "little") if in_words else self._number(is_single=False)
            )
            return longdoubles.from_double(double)
        if how == LONG_DOUBLE_X87 and convention.words:
            self._on_stack += self._on_stack % 2
            return self._stacked(), self._stacked() & 0xFFFF
        if how == LONG_DOUBLE_X87:
            low, high = self._wide(), self._word()
            return low, high & 0xFFFF
        if how == LONG_DOUBLE_PAIR:
            if variadic and convention.variadic_in_words:
                pair = [self._wide().to_bytes(8, "little") for _ in range(2)]
            else:
                free = len(convention.floats) - self._floats
                if free == 1 and convention.pairs_even:  # both halves are in memory, or none is
                    self._floats += 1
                pair = [self._number(is_single=False) for _ in range(2)]
            return longdoubles.from_pair(*pair)
        if how == LONG_DOUBLE_POINTER:
            data = self._memory.read(self._word(), _TWO_WORDS)
        elif self._convention.floats_hold_quads:
            data = self._quad()
        else:
            data = self._two_words(is_even=variadic)
        return longdoubles.from_quad(data if order == "<" else data[::-1])

    def _quad(self) -> bytes:
        """Read a register of 16 bytes, or 16 bytes of the stack."""
        if self._floats < len(self._convention.floats):
            self._floats += 1
            name = self._convention.floats[self._floats - 1]
            return whole_register(self._stub, self._convention, name)[:_TWO_WORDS]
        self._on_stack += self._on_stack % 2
        return b"".join(self._stacked().to_bytes(8, "little") for _ in range(2))

    def _two_words(self, *, is_even: bool) -> bytes:
        registers = len(self._convention.words)
        if is_even:
            self._words += self._words % 2
        if self._words >= registers:
            self._on_stack += self._on_stack % 2
        return b"".join(self._word().to_bytes(8, "little") for _ in range(2))

    def _number(self, *, is_single: bool) -> bytes:
        convention = self._convention
        if convention.floats_lead:
            return self._leading(is_single=is_single)
        if convention.by == WORDS_BY_PLACE:  # a float also uses up its place among the words
            if self._words < len(convention.words):
                self._words += 1
            elif self._floats < len(convention.floats):
                self._on_stack += 1
        if is_single and self._halves:
            return self._halves.pop(0)[1] + bytes(4)
        if self._floats < len(convention.floats):
            self._floats += 1
            data = float_register(self._stub, convention, convention.floats[self._floats - 1])
            if is_single and convention.singles_packed:
                self._halves.append((self._floats - 1, data[4:]))
            return as_single(data, convention) if is_single else data
        self._halves.clear()
        if convention.spills_into_words:
            return self._word().to_bytes(8, "little")
        if is_single or self._memory.coding.bits == 64:
            return self._stacked().to_bytes(8, "little")
        words, self._words = self._words, len(convention.words)
        value = self._wide()
        self._words = words  # words for integers are not used up by it
        return value.to_bytes(8, "little")

    def _leading(self, *, is_single: bool) -> bytes:
        """Read a number that uses up a place among the words, even if it is in a register."""
        convention, leads = self._convention, self._leads
        value = self._word() if is_single else self._wide()
        self._leads = leads and self._floats < len(convention.floats)
        if not self._leads:
            return value.to_bytes(8, "little")
        self._floats += 1
        data = float_register(self._stub, convention, convention.floats[self._floats - 1])
        return as_single(data, convention) if is_single else data


def extended(word: int, bits: int) -> int:
    """Return a word of `bits` bits, sign-extended to 64 bits."""
    if bits == 32 and word >> 31:
        return word | 0xFFFF_FFFF << 32
    return word
