# SPDX-License-Identifier: Apache-2.0
"""Read arguments and results of another architecture, stored as x86-64 passes them."""

from __future__ import annotations

import math
import struct
from math import ldexp

from soscope.control.breakpoints.layouts import (
    AS_IT_IS,
    LONGEST,
    SIGNED,
    SINGLE,
    WIDE,
    WORD,
    ClassedRecord,
    Kind,
    PassedRecord,
    Planner,
    Repacking,
)
from soscope.entry.remote.convention import (
    LONG_DOUBLE_PAIR,
    LONG_DOUBLE_POINTER,
    LONG_DOUBLE_SHORT,
    LONG_DOUBLE_X87,
    WORDS_BY_PLACE,
    Convention,
)
from soscope.model.call import RESULT_ITEM
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory
from soscope.prototypes import catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.stub import RemoteStub, StoppedThread, WordMemory


# Read floating-point registers and convert the numbers to x86-64's format.

_NAN = bytes.fromhex("0000f87f")
X87 = 10  # bytes of a number
_TOP = 11  # first bit of TOP, the top register's number, in the status word


def float_register(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return the low 8 bytes of a floating-point register, in little-endian order."""
    data = whole_register(stub, convention, name)
    if convention.is_whole is not None:
        data += _upper_half(stub, convention, name)
    return _from_x87(data) if len(data) == X87 else data[:8].ljust(8, b"\0")


def whole_register(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return a floating-point register in little-endian order, b"" if there is none."""
    for each in (name, *(name.replace(*pair, 1) for pair in convention.instead)):
        if each in stub.registers:
            data = stub.get_bytes(each)
            return data[::-1] if stub.order == ">" else data
    return b""


def _upper_half(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return the half of a register that the stub does not report, a NaN's if it is not known."""
    assert convention.is_whole is not None
    state, bit = convention.is_whole
    if not stub.get(state) >> bit & 1:
        return whole_register(stub, convention, f"{name[0]}{int(name[1:]) + 1}")
    return stub.upper_half(name) or _NAN


def _from_x87(data: bytes) -> bytes:
    """Return the double nearest to a number of 80 bits."""
    mantissa = int.from_bytes(data[:8], "little")
    power = int.from_bytes(data[8:], "little")
    sign = -1.0 if power >> 15 else 1.0
    power &= 0x7FFF
    if power == 0x7FFF:
        number = sign * (float("inf") if mantissa << 1 & (1 << 64) - 1 == 0 else float("nan"))
    else:
        try:
            number = sign * ldexp(mantissa, power - 16383 - 63)
        except OverflowError:
            number = sign * float("inf")
    return struct.pack("<d", number)


def as_single(data: bytes, convention: Convention) -> bytes:
    """Return a float in x86-64's format, from the contents of its register."""
    if convention.singles_high:
        return data[4:] + bytes(4)
    if not convention.single_as_double:
        return data[:4] + bytes(4)
    (number,) = struct.unpack("<d", data)
    try:
        return struct.pack("<f", number) + bytes(4)
    except OverflowError:
        return struct.pack("<f", float("inf")) + bytes(4)


def top_register(stub: StoppedThread, convention: Convention, name: str) -> str:
    """Return the name of the register that holds a result, by the convention's `name`.

    For the x87 stack, the number of the top register is appended.
    """
    if convention.result_top:
        name += str(stub.get(convention.result_top) >> _TOP & 7)
    return name


# The upper halves of floating-point registers, if a stub reports only the lower halves.
#
# An emulator keeps the registers of each thread in its own memory, with the floating-point
# registers behind the integer registers. The values that the stub reports for both are searched
# there, and compared again each time. If they are found nowhere or in two places, an upper half is
# not known.

_HALF = 4  # bytes
_STEPS = (16, 8)  # bytes between numbers; larger steps are parts of vectors
_FAR = 2048  # most bytes from the integers to the numbers
_BEHIND = 64  # most bytes from the numbers to the FPU's identity register
_MOST = 1 << 28  # bytes of one mapping
_MARK = 0x50C0_9E00  # plus the register's number: values unlikely to be in memory
_OWN = ("", "[heap]")  # paths of mappings with the emulator's own data


class _Told:
    """Registers that the stub reports for a stopped thread, as bytes in the emulator's memory."""

    __slots__ = ("_lower", "_unit", "words")

    def __init__(self, stub: RemoteStub, convention: Convention) -> None:
        words, numbers, unit = convention.kept

        def data_of(name: str) -> bytes:
            return stub.get(name).to_bytes(_HALF, "little")

        self.words = b"".join(data_of(name) for name in words)
        self._lower = b"".join(data_of(name) for name in numbers)
        self._unit = data_of(unit)

    def numbers(self, data: bytes, distance: int, step: int) -> bytes:
        """Return the registers at `distance` in `data`, b"" if the stub reports other values.

        `data` begins at the integer registers.
        """
        count = len(self._lower) // _HALF
        end = distance + count * step
        numbers = data[distance:end]
        if len(numbers) < count * step or self._unit not in data[end : end + _BEHIND]:
            return b""
        lower = b"".join(numbers[at : at + _HALF] for at in range(0, len(numbers), step))
        return numbers if lower == self._lower else b""


class FprUpperHalves:
    """The upper halves of one program's threads, in the memory of its emulator."""

    __slots__ = ("_addrs", "_convention", "_layout", "_memory", "_pid", "_stub")

    def __init__(self, pid: int, stub: RemoteStub, convention: Convention) -> None:
        """Find out how process `pid` keeps the registers, before the program's first instruction.

        The program has used no floating-point register then, so that marks may be put into them
        for a moment. Raises OSError if its memory cannot be read, and RemoteError.
        """
        self._pid = pid
        self._stub = stub
        self._convention = convention
        self._memory = ProcessMemory(pid)
        self._addrs: dict[str, int] = {}  # of the integer registers, by thread
        self._layout = 0, 0  # distance from integers to numbers, step between numbers
        numbers = convention.kept[1]
        if any(stub.get(name) for name in numbers):
            return
        stub.set_now({name: _MARK + number for number, name in enumerate(numbers)})
        told = _Told(stub, convention)
        layouts = {
            (distance, step)
            for _, near in self._places(told)
            for step in _STEPS
            for distance in range(len(told.words), _FAR, 8)
            if told.numbers(near, distance, step)
        }
        stub.set_now(dict.fromkeys(numbers, 0))
        if len(layouts) == 1:
            self._layout = layouts.pop()

    def read(self, name: str) -> bytes:
        """Return the upper half of a register in little-endian order, b"" if it is not known."""
        distance, step = self._layout
        if not step:
            return b""
        told = _Told(self._stub, self._convention)
        thread = self._stub.thread
        addr = self._addrs.get(thread, 0)
        data = self._memory.read(addr, _FAR * 2) if addr else b""
        if not data.startswith(told.words):
            places = self._places(told)
            # A packet of the stub with the same values may still be in memory.
            fitting = [each for each in places if told.numbers(each[1], distance, step)]
            if len(fitting) != 1:
                return b""
            self._addrs[thread], data = fitting[0]
        numbers = told.numbers(data, distance, step)
        at = self._convention.kept[1].index(name) * step + _HALF
        return numbers[at : at + _HALF]

    def _places(self, told: _Told) -> list[tuple[int, bytes]]:
        """Return where the thread's integer registers are found in memory, with the data there."""
        places = []
        try:
            mapped = maps.read(self._pid)
        except OSError:
            return []  # the process has ended
        for each in mapped:
            if not each.flags.startswith("rw") or each.path not in _OWN:
                continue
            if each.end - each.start > _MOST:
                continue
            data = self._memory.read(each.start, each.end - each.start)
            at = data.find(told.words)
            while at >= 0:
                places.append((each.start + at, data[at : at + _FAR * 2]))
                at = data.find(told.words, at + 1)
        return places


# Convert long doubles of other machines to the nearest x87 number, as two words.
#
# x86-64 passes a long double as these two words.

_BIAS = 16383
_BITS = 64  # bits of an x87 mantissa, with the integer bit
_QUAD_BITS = 112  # bits of an IEEE 754 quad's mantissa, without it
_INFINITE = 0x7FFF
_WHOLE = 1 << 63


def from_double(data: bytes) -> tuple[int, int]:
    """Return (low, high) for a double in little-endian order."""
    (value,) = struct.unpack("<d", data)
    return _special(value) or _rounded(*_parts(value))


def from_pair(first: bytes, second: bytes) -> tuple[int, int]:
    """Return (low, high) for the sum of two doubles, each in little-endian order."""
    (big,), (small,) = struct.unpack("<d", first), struct.unpack("<d", second)
    if not math.isfinite(big) or not math.isfinite(small) or not big:
        return from_double(first)
    (first_whole, first_power), (second_whole, second_power) = _parts(big), _parts(small)
    power = min(first_power, second_power)
    whole = (first_whole << first_power - power) + (second_whole << second_power - power)
    return _rounded(whole, power)


def from_quad(data: bytes) -> tuple[int, int]:
    """Return (low, high) for an IEEE 754 quad in little-endian order, (0, 0) for fewer bytes."""
    number = int.from_bytes(data[:16], "little")
    sign, exponent = number >> 127, number >> _QUAD_BITS & _INFINITE
    fraction = number & (1 << _QUAD_BITS) - 1
    if exponent == _INFINITE:
        return _WHOLE | (fraction >> _QUAD_BITS + 1 - _BITS), sign << 15 | _INFINITE
    if not exponent and not fraction:
        return 0, sign << 15
    whole = fraction | (bool(exponent) << _QUAD_BITS)
    scale = max(exponent, 1) - _BIAS - _QUAD_BITS
    return _rounded(-whole if sign else whole, scale)


def _special(value: float) -> tuple[int, int] | None:
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return _WHOLE | _WHOLE >> 1, sign | _INFINITE
    if math.isinf(value):
        return _WHOLE, sign | _INFINITE
    return None if value else (0, sign)


def _parts(value: float) -> tuple[int, int]:
    """Return (whole, power) of a finite number: whole * 2 ** power."""
    whole, divisor = value.as_integer_ratio()
    return whole, 1 - divisor.bit_length()


def _rounded(whole: int, power: int) -> tuple[int, int]:
    """Return the x87 number nearest to whole * 2 ** power, the even one of two."""
    sign, whole = (0x8000, -whole) if whole < 0 else (0, whole)
    # Denormal numbers have no integer bit.
    drop = max(whole.bit_length() - _BITS, 1 - _BIAS - _BITS + 1 - power)
    if drop > 0:
        rest, half = whole & (1 << drop) - 1, 1 << drop - 1
        whole >>= drop
        whole += rest > half or (rest == half and bool(whole & 1))
        power += drop
    else:
        whole, power = whole << -drop, power + drop
    if whole >> _BITS:
        whole, power = whole >> 1, power + 1
    exponent = power + _BITS - 1
    if exponent > _BIAS:
        return _WHOLE, sign | _INFINITE
    return whole, sign | (exponent + _BIAS if whole & _WHOLE else 0)


# Read arguments as the architecture passes them, and store them as x86-64 would pass them.
#
# Recordings and prototypes only know the x86-64 convention. So the arguments of a call are read
# value by value, in order, and put where x86-64 would have the same value: in one of six words, one
# of eight floating-point numbers, or on the stack.

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
        data = b"".join(word.to_bytes(size, coding.byteorder) for word in words)
        is_right = convention.records.is_right and count == 1
        data = data[-of.size :] if is_right else data[: of.size]
        return self._with_numbers(of, data) if of.is_apart and is_by_place else data

    def _by_class(self, of: ClassedRecord) -> None:
        """Read a structure from the place that x86-64's classes give it."""
        for place in of.places:
            if place >= catalog.SECOND_FLOAT:
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
        """Stop reading floats from registers, because one did not fit."""
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
        repacked = of.plan.repacked(data).ljust(of.plan.here, b"\0")
        pieces = [
            repacked[at : at + _EIGHT].ljust(_EIGHT, b"\0")
            for at in range(0, len(repacked), _EIGHT)
        ]
        for number, piece in enumerate(pieces):
            word = int.from_bytes(piece, "little")
            is_float = of.place == catalog.PLACE_FLOAT or (
                of.place == catalog.PLACE_REGISTERS and of.places[number] >= catalog.SECOND_FLOAT
            )
            if of.place == catalog.PLACE_STACK:
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
            return from_double(double)
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
            return from_pair(*pair)
        if how == LONG_DOUBLE_POINTER:
            data = self._memory.read(self._word(), _TWO_WORDS)
        elif self._convention.floats_hold_quads:
            data = self._quad()
        else:
            data = self._two_words(is_even=variadic)
        return from_quad(data if order == "<" else data[::-1])

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


# Choose how the memory behind a function's pointer arguments is converted.

_Choice = tuple[catalog.Conditions, Repacking | None]


class Pointees:
    """The conversion plans of one function, by the numbers of its arguments in data items."""

    __slots__ = ("_choices", "_deciders")

    def __init__(
        self,
        declared: catalog.FunctionRow | None,
        planner: Planner | None,
        structs: catalog.Structs,
    ) -> None:
        self._choices: dict[int, list[_Choice]] = {}
        self._deciders: dict[int, tuple[int, int]] = {}  # index of the argument's word, and a mask
        if declared is None or planner is None:
            return
        fixed = declared[1]
        rows: list[tuple[int, catalog.Conditions, catalog.ArgumentRow]] = list(declared[7])
        for conditions, tail in declared[2]:
            rows += [(item, conditions, each) for item, each in enumerate(tail, len(fixed))]
        rows += [(item, (), each) for item, each in enumerate(fixed)]
        if declared[4] is not None:
            rows.append((RESULT_ITEM, (), declared[4]))
        for item, conditions, each in rows:
            choice = conditions, planner.plan(each, structs)
            self._choices.setdefault(item, []).append(choice)
        for number, argument in enumerate(fixed):
            if argument[1] == catalog.PLACE_INT:
                self._deciders[number] = argument[2], (1 << 8 * argument[3][1]) - 1

    def plan(self, item: int, taken: PassedArguments) -> Repacking | None:
        """Return the plan for the memory that an item points to, None if it stays an address."""
        for conditions, plan in self._choices.get(item, ()):
            if all(self._holds(each, taken) for each in conditions):
                return plan
        return AS_IT_IS

    def _holds(self, condition: tuple[int, str, tuple[int, ...]], taken: PassedArguments) -> bool:
        number, operator, values = condition
        index, mask = self._deciders.get(number, (len(taken.words), 0))
        if index >= len(taken.words):
            return False
        word = taken.words[index] & mask
        if operator == "&":
            return any(word & value for value in values)
        return word in [value & mask for value in values]


NO_POINTEES = Pointees(None, None, {})


# Read results of calls that are more than a word.


def record_result(
    stub: StoppedThread, memory: WordMemory, convention: Convention, of: PassedRecord, hidden: int
) -> bytes:
    """Return the bytes of a structure or complex number that a call has returned.

    `hidden` is the address that the caller passed for it.
    """
    if of.has_hidden:
        return memory.read(hidden, of.size)
    if isinstance(of, ClassedRecord):
        return _of_registers(stub, of)[: of.size]
    order = memory.coding.byteorder
    size = memory.coding.bits // 8
    if not of.returns_apart:
        names = convention.result_words[: -(-of.size // size)]
        return b"".join(stub.get(name).to_bytes(size, order) for name in names)[: of.size]
    made = bytearray(of.size)
    floats = iter(convention.result_floats)
    words = iter(convention.result_words)
    half = b""
    for number in of.numbers:
        if not number.is_float:
            data = stub.get(next(words)).to_bytes(size, "little")
        elif half and number.size == _EIGHT // 2:
            data, half = half, b""
        else:
            data = float_register(stub, convention, next(floats))
            if number.size == _EIGHT // 2:
                half = data[4:] if convention.singles_packed else b""
                data = as_single(data, convention)
        data = data[: number.size]
        made[number.at : number.at + number.size] = data if order == "little" else data[::-1]
    return bytes(made)


def _of_registers(stub: StoppedThread, of: ClassedRecord) -> bytes:
    data = b""
    for place in of.places:
        if place >= catalog.SECOND_FLOAT:
            data += stub.get_bytes(f"xmm{place - catalog.SECOND_FLOAT}")[:_EIGHT]
        else:
            data += stub.get(("rax", "rdx")[place]).to_bytes(_EIGHT, "little")
    return data


def long_double_result(
    stub: StoppedThread, memory: WordMemory, convention: Convention, hidden: int
) -> tuple[int, int]:
    """Return the two words of the x87 number nearest to a result.

    `hidden` is as for `record_result`.
    """
    how = convention.long_double
    if how == LONG_DOUBLE_SHORT:
        return from_double(float_register(stub, convention, convention.result_float))
    if how == LONG_DOUBLE_X87:
        name = top_register(stub, convention, convention.result_x87)
        data = whole_register(stub, convention, name)
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:X87], "little")
    if how == LONG_DOUBLE_PAIR:
        first = convention.floats.index(convention.result_float)
        names = convention.floats[first : first + 2]
        return from_pair(*(float_register(stub, convention, name) for name in names))
    if how == LONG_DOUBLE_POINTER:
        data = memory.read(hidden, _TWO_WORDS)
    elif convention.floats_hold_quads:
        data = whole_register(stub, convention, convention.result_float)
    else:
        names = convention.words[:2]
        data = b"".join(stub.get(name).to_bytes(8, "little") for name in names)
    return from_quad(data if memory.coding.order == "<" else data[::-1])
