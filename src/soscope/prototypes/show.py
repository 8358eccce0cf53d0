# SPDX-License-Identifier: Apache-2.0
"""Print single numbers (also by the names in constants.txt), strings, times and pointers."""

from __future__ import annotations

from math import isfinite, ldexp
from struct import pack, unpack_from

from soscope.errors import FormatError
from soscope.prototypes import catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Read prototypes/constants.txt, and print numbers by the names in it.

# ("enum", {value: name}) or ("flags", [(mask, value, name), ...]). A flag's mask is its own value,
# a field's mask covers the field. It is plain data, so that a compiled file can store it.
Names = tuple[str, dict[int, str]] | tuple[str, list[tuple[int, int, str]]]


class ConstantSets:
    """The sets in constants.txt by name, and the values of all constants.

    Another argument chooses among the sets `SET.CONSTANT` by its value. The enum `SET` maps these
    values to the names of the sets.
    """

    def __init__(self) -> None:
        self.enums: dict[str, dict[int, str]] = {}
        self.flags: dict[str, list[tuple[int, int, str]]] = {}
        self.values: dict[str, int] = {}

    def read(self, text: str, file: str) -> None:
        """Read the sets of `text`. Raises FormatError with file and line."""
        kind = name = ""
        mask = 0
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            where = f"{file}:{number}"
            if words[0] in ("enum", "flags") and len(words) == 2:
                kind, name = words
                mask = 0
                if name in self.enums or name in self.flags:
                    raise FormatError(f"{where}: set '{name}' is defined twice", field=name)
                if kind == "enum":
                    self.enums[name] = {}
                    self._choose(name, where)
                else:
                    self.flags[name] = []
            elif words[0] == "field" and len(words) == 2 and kind == "flags":
                mask = int(words[1], 0)
            elif words == ["bits"] and kind == "flags":
                mask = 0
            else:
                for word in words:
                    self._add(kind, name, mask, word, where)

    def _choose(self, name: str, where: str) -> None:
        """Record that an argument with the value of CONSTANT chooses the set SET.CONSTANT."""
        choice, dot, constant = name.partition(".")
        if not dot:
            return
        if constant not in self.values:
            raise FormatError(f"{where}: constant '{constant}' is not known yet", field=constant)
        self.enums.setdefault(choice, {})[self.values[constant]] = name

    def _add(self, kind: str, name: str, mask: int, word: str, where: str) -> None:
        constant, equals, number = word.partition("=")
        if not equals or not kind:
            raise FormatError(f"{where}: '{word}' is not NAME=VALUE in a set", field=word)
        value = number_of(number)
        if self.values.setdefault(constant, value) != value:
            raise FormatError(f"{where}: '{constant}' has two values", field=constant)
        if kind == "enum":
            self.enums[name].setdefault(value, constant)
        else:
            self.flags[name].append((mask or value, value, constant))


def number_of(text: str) -> int:
    """Return the number that C would read: 0x1f, 017, 15, -1. Raises FormatError."""
    digits = text.removeprefix("-")
    try:
        octal = len(digits) > 1 and digits.startswith("0") and digits.isdigit()
        value = int(digits, 8 if octal else 0)
    except ValueError:
        raise FormatError(f"'{text}' is not a number", field=text) from None
    return -value if text.startswith("-") else value


def flag_text(value: int, names: list[tuple[int, int, str]], *, octal: bool = False) -> str:
    """Return `value` as names joined by `|`; the rest without names is hexadecimal, or octal."""
    parts = []
    left = value
    for mask, wanted, name in names:
        if mask == wanted:
            if wanted and left & wanted == wanted:
                parts.append(name)
                left &= ~wanted
        elif value & mask == wanted and (wanted == 0 or left & mask == wanted):
            parts.append(name)
            left &= ~mask
    if left:
        parts.append(f"0{left:o}" if octal else f"{left:#x}")
    if parts:
        return "|".join(parts)
    return next((name for mask, wanted, name in names if mask == wanted == 0), "0")


# Bytes as C string and character literals, as ltrace prints them.

_NAMED = {
    7: r"\a",
    8: r"\b",
    9: r"\t",
    10: r"\n",
    11: r"\v",
    12: r"\f",
    13: r"\r",
    92: r"\\",
}
# Always three octal digits, because a digit may follow.
_BYTES = [
    _NAMED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)
]
_IN_STRING = list(_BYTES)
_IN_STRING[34] = '\\"'
_IN_CHAR = list(_BYTES)
_IN_CHAR[39] = "\\'"
_IN_CHAR[0] = r"\0"
_WIDE_CHAR = 4


def string(data: bytes, limit: int, *, cut: bool = False) -> str:
    """Return `data` in quotes, at most `limit` bytes of it; `cut` tells that there was more."""
    if len(data) > limit:
        data, cut = data[:limit], True
    text = data.decode("latin-1")
    # nearly all strings need no escapes
    if not (text.isascii() and text.isprintable()) or '"' in text or "\\" in text:
        text = "".join([_IN_STRING[byte] for byte in data])
    return f'"{text}"...' if cut else f'"{text}"'


def wide_string(data: bytes, limit: int, *, cut: bool = False) -> tuple[str, str]:
    """Return the wide string `data` as L"..." and its characters; `cut`: there was more."""
    codes = _codes(data)
    if len(codes) > limit:
        codes, cut = codes[:limit], True
    text = "".join(_wide(code) for code in codes)
    value = "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)
    return f'L"{text}"' + ("..." if cut else ""), value


def narrowed(data: bytes) -> bytes:
    """Return the wide string `data` with one byte for each character; ASCII stays unchanged."""
    return bytes(code if 0 < code < 128 else 0x80 for code in _codes(data))


def _codes(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[at : at + _WIDE_CHAR], "little")
        for at in range(0, len(data) - _WIDE_CHAR + 1, _WIDE_CHAR)
    ]


def char(code: int) -> str:
    """Return the character 0..255 as a literal, other numbers in decimal (EOF is -1)."""
    return f"'{_IN_CHAR[code]}'" if 0 <= code < 256 else str(code)


def wide_char(code: int) -> str:
    """Return the wide character as a literal; a number that is no character in decimal."""
    if code == 0xFFFF_FFFF:
        return "-1"  # WEOF
    if not 0 <= code < 0x110000:
        return str(code)
    return "L'\\''" if code == 39 else f"L'{_IN_CHAR[0] if code == 0 else _wide(code)}'"


def _wide(code: int) -> str:
    if code < 128:
        return _IN_STRING[code]
    if code < 0x110000 and chr(code).isprintable():
        return chr(code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escaped_value(data: bytes) -> str:
    """Return the string in `data`, for programs that read the output."""
    return data.decode("utf-8", "backslashreplace")


# Print an 80-bit x87 number with the fewest digits that identify it.

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_MOST_DIGITS = 21  # enough for any 64-bit mantissa
_LOG_2 = 0.30102999566398120  # log10(2)
_PLAIN = range(-4, 16)  # decimal exponents that repr writes without an exponent


def long_double(low: int, high: int) -> tuple[str, float | None]:
    """Return the number in two stack words: its text, and the nearest double.

    The value is None for a finite number that is too large for a double.
    """
    exponent = high & 0x7FFF
    sign = "-" if high & 0x8000 else ""
    if exponent == 0x7FFF:
        text = "inf" if low << 1 & _WORD == 0 else "nan"
        return (sign if text == "inf" else "") + text, float(sign + text)
    # Denormals have the exponent of the smallest normal number.
    scale = max(exponent, 1) - 16383 - 63
    text = sign + (_decimal(low, scale) if low else "0")
    try:
        value = ldexp(low, scale)
    except OverflowError:
        return text, None
    return text, -value if sign else value


def _decimal(low: int, scale: int) -> str:
    """Return the shortest decimal number for which `low` * 2**`scale` is the nearest number."""
    over, under = (low << scale, 1) if scale >= 0 else (low, 1 << -scale)
    tens = int((low.bit_length() - 1 + scale) * _LOG_2 // 1)
    if not _at_least(over, under, tens):
        tens -= 1
    elif _at_least(over, under, tens + 1):
        tens += 1
    least, most = 1, _MOST_DIGITS
    while least < most:  # if fewer digits are enough, more are, too
        count = (least + most) // 2
        if _is_near(over, under, low, tens, count):
            most = count
        else:
            least = count + 1
    digits = str(_rounded(over, under, tens, most))
    if len(digits) > most:  # rounded up to the next power of ten
        tens += 1
    return _written(digits.rstrip("0"), tens)


def _at_least(over: int, under: int, tens: int) -> bool:
    ten: int = 10 ** abs(tens)
    return over >= under * ten if tens >= 0 else over * ten >= under


def _scaled(over: int, under: int, tens: int, count: int) -> tuple[int, int]:
    """Return the fraction times a power of ten, so that it has `count` digits before the point."""
    shift = count - 1 - tens
    ten: int = 10 ** abs(shift)
    return (over * ten, under) if shift >= 0 else (over, under * ten)


def _rounded(over: int, under: int, tens: int, count: int) -> int:
    over, under = _scaled(over, under, tens, count)
    return (2 * over + under) // (2 * under)


def _is_near(over: int, under: int, low: int, tens: int, count: int) -> bool:
    """Return whether `count` digits suffice to tell the number from its neighbours."""
    over, under = _scaled(over, under, tens, count)
    away = abs((2 * over + under) // (2 * under) * under - over)
    # a neighbour is a `low`th part of this number away, or half of that just below a power of two
    return away * (4 if low == 1 << 63 else 2) * low < over


def _written(digits: str, tens: int) -> str:
    """Write the point or the exponent as repr does."""
    if tens not in _PLAIN:
        point = "." if len(digits) > 1 else ""
        return f"{digits[0]}{point}{digits[1:]}e{'-' if tens < 0 else '+'}{abs(tens):02}"
    if tens < 0:
        return f"0.{'0' * (-tens - 1)}{digits}"
    whole, rest = digits[: tens + 1].ljust(tens + 1, "0"), digits[tens + 1 :]
    return f"{whole}.{rest}" if rest else whole


# Print single numbers and the data at pointers.

Shown = tuple[str, float | str | None]  # text and value


if TYPE_CHECKING:
    Shower = Callable[[int], Shown]


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
        structs: catalog.Structs,
    ) -> None:
        self.enums = enums
        self.flags = flags
        self.structs = structs
        self.elements: int | None = None
        self.showers: dict[catalog.Show, Callable[[int], Shown]] = {}
        self._values: dict[str, int] = {}

    def values(self) -> dict[str, int]:
        """Return name -> value of the constants in all sets."""
        if not self._values:
            for names in self.enums.values():
                self._values.update((name, value) for value, name in names.items())
            for flags in self.flags.values():
                self._values.update((name, value) for _, value, name in flags)
        return self._values

    def shower(self, show: catalog.Show) -> Callable[[int], Shown]:
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


def scalar(show: catalog.Show, names: NamedTypes) -> Callable[[int], Shown]:
    """Return the function that prints a number of up to eight bytes."""
    how, size, signed, detail = show
    if how == catalog.SHOW_POINTER:
        return pointer
    if how == catalog.SHOW_WORD:
        return word
    if how == catalog.SHOW_FLOAT:
        return _float_bits(size)
    if how == catalog.SHOW_SIGNALS:
        return lambda bits: (signal_set(bits, names.enums[detail]), bits)
    mask = (1 << 8 * size) - 1
    top = 1 << (8 * size - 1)

    def read(bits: int) -> int:
        bits &= mask
        return bits - mask - 1 if signed and bits & top else bits

    if how == catalog.SHOW_STRUCT:
        return lambda bits: (structure(bits.to_bytes(8, "little"), detail, names), None)
    if how == catalog.SHOW_COMPLEX:
        return lambda bits: (_complex(bits.to_bytes(8, "little"), size), None)
    return _number_shower(how, read, mask, names.enums.get(detail), names.flags.get(detail))


def _number_shower(
    how: str,
    read: Callable[[int], int],
    mask: int,
    enum: dict[int, str] | None,
    flags: list[tuple[int, int, str]] | None,
) -> Callable[[int], Shown]:
    if how == catalog.SHOW_ENUM and enum is not None:
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
    if how in (catalog.SHOW_FLAGS, catalog.SHOW_OCTAL_FLAGS) and flags is not None:
        octal = how == catalog.SHOW_OCTAL_FLAGS
        return lambda bits: (flag_text(bits & mask, flags, octal=octal), read(bits))
    texts: dict[str, Callable[[int], str]] = {
        catalog.SHOW_OCTAL: lambda value: f"0{value:o}" if value else "0",
        catalog.SHOW_HEX: lambda value: f"{value & mask:#x}" if value else "0",
        catalog.SHOW_CHAR: char,
        catalog.SHOW_WCHAR: wide_char,
        catalog.SHOW_BOOL: lambda value: "true" if value else "false",
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
        if field == catalog.MORE:
            parts.append(catalog.MORE)
            continue
        text = _member(data, at + offset, show, names)
        is_array = not field
        parts.append(f"{field}={text}" if field else text)
    if hides and not parts:
        parts.append(catalog.MORE)  # the members are not declared
    shown = ", ".join(parts)
    return f"[{shown}]" if is_array else f"{{{shown}}}"


def holds(when: catalog.When, data: bytes | bytearray, at: int) -> bool:
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


def _member(data: bytes, at: int, show: catalog.Show, names: NamedTypes) -> str:
    how, size, _, detail = show
    if how == catalog.SHOW_STRUCT and len(data) >= at + size:
        return structure(data, detail, names, at)
    return record(data[at : at + size], show, names)[0]


def record(data: bytes, show: catalog.Show, names: NamedTypes) -> Shown:
    """Print the value of any type in `data`."""
    how, size, signed, detail = show
    if len(data) < size:
        return "?", None
    if how == catalog.SHOW_STRUCT:
        return structure(data, detail, names), None
    if how == catalog.SHOW_LONG_DOUBLE:
        return long_double(*unpack_from("<QQ", data))
    if how == catalog.SHOW_COMPLEX:
        return _complex(data, size), None
    if how == catalog.SHOW_TEXT:
        text = data[:size].split(b"\0", 1)[0]
        return string(text, size), escaped_value(text)
    if how == catalog.SHOW_BITS:
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


def values(data: bytes, show: catalog.Show, names: NamedTypes, count: int | None = None) -> Shown:
    """Print the numbers in `data` in brackets, and return the value if there is one number.

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
        texts.append(catalog.MORE)
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
        members[names.elements :] = [catalog.MORE]
    elif known < count:
        members.append(catalog.MORE)
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
        return f"{{AF_UNIX, {string(shown, limit, cut=cut)}}}"
    return f"{{{name}, ...}}"


# The members of struct tm that a format of strftime reads, or one of strptime fills in.

_DATE = ("tm_year", "tm_mon", "tm_mday")
_TIME = ("tm_hour", "tm_min", "tm_sec")
_WEEK = ("tm_year", "tm_yday", "tm_wday")
_ALL = (*_DATE, *_TIME, "tm_wday")
_ZONE = ("tm_isdst", "tm_gmtoff")
_MEMBERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("aAuw", ("tm_wday",)),
    **dict.fromkeys("bBhm", ("tm_mon",)),
    "c": _ALL,  # depends on the locale, which may leave something out
    **dict.fromkeys("CyY", ("tm_year",)),
    **dict.fromkeys("de", ("tm_mday",)),
    **dict.fromkeys("DFx", _DATE),
    **dict.fromkeys("gGV", _WEEK),
    **dict.fromkeys("UW", ("tm_yday", "tm_wday")),
    **dict.fromkeys("HkIlpP", ("tm_hour",)),
    **dict.fromkeys("rTX", _TIME),
    "j": ("tm_yday",),
    "M": ("tm_min",),
    "R": ("tm_hour", "tm_min"),
    "s": (*_DATE, *_TIME, "tm_isdst"),
    "S": ("tm_sec",),
    "z": _ZONE,
    "Z": ("tm_zone",),
    **dict.fromkeys("nt%", ()),
}
_BETWEEN = frozenset("_-0^#+EO123456789")  # flags, widths and modifiers


def members_of(text: bytes) -> frozenset[str] | None:
    """Return the names of the members, None if a conversion is not known.

    >>> from soscope.prototypes.show import members_of
    >>> sorted(members_of(b"%Y-%m"))
    ['tm_mon', 'tm_year']
    """
    named: set[str] = set()
    at = 0
    letters = text.decode("latin-1")
    while (at := letters.find("%", at) + 1) > 0:
        while letters[at : at + 1] in _BETWEEN:
            at += 1
        members = _MEMBERS.get(letters[at : at + 1])
        if members is None:
            return None
        named.update(members)
        at += 1
    return frozenset(named)
