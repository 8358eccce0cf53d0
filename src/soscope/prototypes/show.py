# SPDX-License-Identifier: Apache-2.0
"""Print single numbers and the data at pointers."""

from __future__ import annotations

from math import isfinite
from struct import pack, unpack_from

from soscope.prototypes import escape, row
from soscope.prototypes.constants import flag_text
from soscope.prototypes.longdouble import long_double

TYPE_CHECKING = False  # importing collections.abc takes longer than the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable

Shown = tuple[str, float | str | None]  # text and value
if TYPE_CHECKING:
    Shower = Callable[[int], Shown]

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_SMALL = 1_000_000  # as for ltrace's `long`: smaller numbers are decimal, others hexadecimal
_SIGNALS = 64
_MOST_SIGNALS = _SIGNALS * 2 // 3  # a larger set is printed by its missing signals, as in strace
_FIRST_REAL_TIME = 32
_HEADER_OF_UNIX = 2  # sa_family_t


class NamedTypes:
    """Sets of constants, and structures, by name.

    `elements` is how many elements of an array are printed, None for all that were captured.
    """

    __slots__ = ("_values", "elements", "enums", "flags", "showers", "structs")

    def __init__(
        self,
        enums: dict[str, dict[int, str]],
        flags: dict[str, list[tuple[int, int, str]]],
        structs: row.Structs,
    ) -> None:
        self.enums = enums
        self.flags = flags
        self.structs = structs
        self.elements: int | None = None
        self.showers: dict[row.Show, Callable[[int], Shown]] = {}
        self._values: dict[str, int] = {}

    def values(self) -> dict[str, int]:
        """Return name -> value of the constants in all sets."""
        if not self._values:
            for names in self.enums.values():
                self._values.update((name, value) for value, name in names.items())
            for flags in self.flags.values():
                self._values.update((name, value) for _, value, name in flags)
        return self._values

    def shower(self, show: row.Show) -> Callable[[int], Shown]:
        """Return the function that prints a number of up to eight bytes."""
        shower = self.showers.get(show)
        if shower is None:
            shower = self.showers[show] = scalar(show, self)
        return shower


def word(value: int) -> Shown:
    """Print a word of unknown type; a small negative int in its low half counts as such."""
    signed = value - (1 << 64) if value >> 63 else value
    if (1 << 32) - _SMALL < value < 1 << 32:
        signed = value - (1 << 32)
    if -_SMALL < signed < _SMALL:
        return str(signed), signed
    return f"{value:#x}", value


def pointer(value: int) -> Shown:
    """Print an address."""
    return (f"{value:#x}" if value else "nil"), value


def number(value: float) -> str:
    """Print a double as %g does, with as many digits as identify this double."""
    return repr(value).removesuffix(".0")


def float_of(stored: float, size: int) -> float:
    """Return the float or double in the low `size` bytes of a vector register."""
    if size == 8:
        return stored
    single: float = unpack_from("<f", pack("<d", stored))[0]
    return single


def single_number(value: float) -> str:
    """Print a float with as many digits as identify this float."""
    if not isfinite(value):
        return number(value)
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        try:
            if unpack_from("<f", pack("<f", float(text)))[0] == value:
                return text
        except OverflowError:
            continue  # rounded up beyond the largest float
    return number(value)


def scalar(show: row.Show, names: NamedTypes) -> Callable[[int], Shown]:
    """Return the function that prints a number of up to eight bytes."""
    how, size, signed, detail = show
    if how == row.SHOW_POINTER:
        return pointer
    if how == row.SHOW_WORD:
        return word
    if how == row.SHOW_FLOAT:
        return _float_bits(size)
    if how == row.SHOW_SIGNALS:
        return lambda bits: (signal_set(bits, names.enums[detail]), bits)
    mask = (1 << 8 * size) - 1
    top = 1 << (8 * size - 1)

    def read(bits: int) -> int:
        bits &= mask
        return bits - mask - 1 if signed and bits & top else bits

    if how == row.SHOW_STRUCT:
        return lambda bits: (structure(bits.to_bytes(8, "little"), detail, names), None)
    if how == row.SHOW_COMPLEX:
        return lambda bits: (_complex(bits.to_bytes(8, "little"), size), None)
    return _number_shower(how, read, mask, names.enums.get(detail), names.flags.get(detail))


def _number_shower(
    how: str,
    read: Callable[[int], int],
    mask: int,
    enum: dict[int, str] | None,
    flags: list[tuple[int, int, str]] | None,
) -> Callable[[int], Shown]:
    if how == row.SHOW_ENUM and enum is not None:
        is_pointer = mask == _WORD

        def named(bits: int) -> Shown:
            value = read(bits)
            # A pointer that may be SIG_ERR or RTLD_NEXT is unsigned, but the value in the enum is
            # signed.
            name = enum.get(value) or (enum.get(value - mask - 1) if value else None)
            if name is not None:
                return name, value
            return word(value) if is_pointer else (str(value), value)

        return named
    if how in (row.SHOW_FLAGS, row.SHOW_OCTAL_FLAGS) and flags is not None:
        octal = how == row.SHOW_OCTAL_FLAGS
        return lambda bits: (flag_text(bits & mask, flags, octal=octal), read(bits))
    texts: dict[str, Callable[[int], str]] = {
        row.SHOW_OCTAL: lambda value: f"0{value:o}" if value else "0",
        row.SHOW_HEX: lambda value: f"{value & mask:#x}" if value else "0",
        row.SHOW_CHAR: escape.char,
        row.SHOW_WCHAR: escape.wide_char,
        row.SHOW_BOOL: lambda value: "true" if value else "false",
    }
    text = texts.get(how, str)

    def shown(bits: int) -> Shown:
        value = read(bits)
        return text(value), value

    return shown


def _float_bits(size: int) -> Callable[[int], Shown]:
    def shown(bits: int) -> Shown:
        if size == 8:
            value: float = unpack_from("<d", pack("<Q", bits))[0]
            return number(value), value
        value = unpack_from("<f", pack("<Q", bits))[0]
        return single_number(value), value

    return shown


def structure(
    data: bytes, name: str, names: NamedTypes, at: int = 0, only: frozenset[str] | None = None
) -> str:
    """Print the structure `name` in `data`; an array is printed in brackets.

    It begins at `at`; bytes before it may decide which members exist. If `only` is given, no
    other members are printed.
    """
    parts = []
    is_array = hides = False
    for field, offset, show, when in names.structs[name]:
        if only is not None and field not in only:
            continue
        if when and not holds(when, data, at):
            hides = True
            continue
        if field == row.MORE:
            parts.append(row.MORE)
            continue
        text = _member(data, at + offset, show, names)
        is_array = not field
        parts.append(f"{field}={text}" if field else text)
    if hides and not parts:
        parts.append(row.MORE)  # the members are not declared
    shown = ", ".join(parts)
    return f"[{shown}]" if is_array else f"{{{shown}}}"


def holds(when: row.When, data: bytes | bytearray, at: int) -> bool:
    """Return whether the deciding members are in `data` and have one of their values."""
    for offset, size, operator, values in when:
        start = at + offset
        if start < 0 or start + size > len(data):
            return False
        mask = (1 << 8 * size) - 1
        value = int.from_bytes(data[start : start + size], "little")
        if operator == "&":
            if not any(value & flag for flag in values):
                return False
        elif value not in [each & mask for each in values]:
            return False
    return True


def _member(data: bytes, at: int, show: row.Show, names: NamedTypes) -> str:
    how, size, _, detail = show
    if how == row.SHOW_STRUCT and len(data) >= at + size:
        return structure(data, detail, names, at)
    return record(data[at : at + size], show, names)[0]


def record(data: bytes, show: row.Show, names: NamedTypes) -> Shown:
    """Print the value of any type in `data`."""
    how, size, signed, detail = show
    if len(data) < size:
        return "?", None
    if how == row.SHOW_STRUCT:
        return structure(data, detail, names), None
    if how == row.SHOW_LONG_DOUBLE:
        return long_double(*unpack_from("<QQ", data))
    if how == row.SHOW_COMPLEX:
        return _complex(data, size), None
    if how == row.SHOW_TEXT:
        text = data[:size].split(b"\0", 1)[0]
        return escape.string(text, size), escape.value(text)
    if how == row.SHOW_BITS:
        first, width, inner, named = detail.split(":", 3)
        value = int.from_bytes(data[:size], "little") >> int(first) & ((1 << int(width)) - 1)
        if signed and value >> (int(width) - 1):
            value |= -1 << int(width) & ((1 << 8 * size) - 1)
        return names.shower((inner, size, signed, named))(value)
    return names.shower(show)(int.from_bytes(data[:size], "little"))


def _complex(data: bytes, size: int) -> str:
    if size == 32:
        real, imaginary = (long_double(*unpack_from("<QQ", data, at))[0] for at in (0, 16))
    else:
        form, text = ("<ff", single_number) if size == 8 else ("<dd", number)
        real, imaginary = map(text, unpack_from(form, data))
    sign = "" if imaginary.startswith("-") else "+"
    return f"{real}{sign}{imaginary}i"


def values(data: bytes, show: row.Show, names: NamedTypes, count: int | None = None) -> Shown:
    """Print the numbers in `data` in brackets; the value is that of a single number.

    `count` is the number of elements, of which only the first may be in `data`.
    """
    size = show[1]
    if count is not None:
        data = data[: count * size]
    shown = [
        record(data[at : at + size], show, names) for at in range(0, len(data) - size + 1, size)
    ]
    value = shown[0][1] if len(shown) == 1 else None
    texts = [text for text, _ in shown]
    if count is not None and count > len(texts):
        texts.append(row.MORE)
    if names.elements is not None and len(texts) > names.elements:
        texts[names.elements :] = ["..."]
    return f"[{', '.join(texts)}]", value


def signal_set(bits: int, names: dict[int, str]) -> str:
    """Print a set of signals, one a bit; if it has most signals, print the missing ones."""
    is_most = bits.bit_count() >= _MOST_SIGNALS
    if is_most:
        bits ^= (1 << _SIGNALS) - 1
    shown = []
    for number in range(1, _SIGNALS + 1):
        if bits >> (number - 1) & 1:
            real_time = number - _FIRST_REAL_TIME
            name = f"RT_{real_time}" if real_time else "RTMIN"
            shown.append(names.get(number, name).removeprefix("SIG"))
    return f"{'~' if is_most else ''}[{' '.join(shown)}]"


def descriptor_set(data: bytes, count: int, names: NamedTypes) -> str:
    """Print the descriptors below `count` in a fd_set, as far as they are in `data`."""
    bits = int.from_bytes(data, "little")
    known = min(max(count, 0), 8 * len(data))
    members = [str(number) for number in range(known) if bits >> number & 1]
    if names.elements is not None and len(members) > names.elements:
        members[names.elements :] = [row.MORE]
    elif known < count:
        members.append(row.MORE)
    return f"[{' '.join(members)}]"


def socket_address(data: bytes, names: NamedTypes, limit: int) -> str:
    """Print a struct sockaddr: family, address and port, or path."""
    family = int.from_bytes(data[:2], "little")
    name = names.enums["address_family"].get(family, str(family))
    if name == "AF_INET" and len(data) >= 8:
        host = ".".join(map(str, data[4:8]))
        return f"{{AF_INET, {host}:{int.from_bytes(data[2:4], 'big')}}}"
    if name == "AF_INET6" and len(data) >= 24:
        from ipaddress import IPv6Address  # rare, and slow to import

        host = IPv6Address(data[8:24]).compressed
        return f"{{AF_INET6, [{host}]:{int.from_bytes(data[2:4], 'big')}}}"
    if name == "AF_UNIX":
        path = data[_HEADER_OF_UNIX:]
        # An abstract name begins with a zero byte and ends with the address; it may contain
        # further zero bytes. A path ends at a zero byte.
        abstract = path[:1] == b"\0"
        shown = b"@" + path[1:] if abstract else path.split(b"\0", 1)[0]
        cut = not abstract and bool(path) and b"\0" not in path and len(data) < 110
        return f"{{AF_UNIX, {escape.string(shown, limit, cut=cut)}}}"
    return f"{{{name}, ...}}"
