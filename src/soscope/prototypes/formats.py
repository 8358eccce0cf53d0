# SPDX-License-Identifier: Apache-2.0
"""Find the arguments that a format of printf or scanf refers to."""

from __future__ import annotations

from soscope.model.call import DATA_NULL, DATA_TRUNCATED, DATA_UNREADABLE
from soscope.model.record import PlainRecord
from soscope.prototypes import catalog, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.show import NamedTypes


# One argument or result, formatted for printing.

UNKNOWN_TYPE = "?"
REST = "..."


class Argument(PlainRecord):
    """`name` of the parameter, `type` as C writes it ("?" for a guessed word), `text` and `value`.

    All these are for the value that was passed. `out` is the same for the data that the call has
    written where the argument points, None if it has written nothing. `shown` is the text for
    both in a line of a trace.

    `name` is "" if there is none. `value` is the number, the string (UTF-8; other bytes as
    hexadecimal escapes), or None if there is no single value. `is_address` tells that the number
    is an address. `guess` tells that the type is not declared. If a variadic call has further
    arguments behind the last known one, type and text are "...". For a string, `cut` tells that
    `value` is only its beginning. `data` are the bytes behind `value`, None if it is not a string
    of bytes.
    """

    __slots__ = (
        "cut",
        "data",
        "guess",
        "is_address",
        "name",
        "out",
        "shown",
        "text",
        "type",
        "value",
    )

    def __init__(
        self,
        of: str,
        text: str,
        value: float | str | None,
        *,
        cut: bool = False,
        data: bytes | None = None,
        is_address: bool = False,
        guess: bool = False,
    ) -> None:
        self.name = ""
        self.type = of
        self.text = text
        self.value = value
        self.cut = cut
        self.data = data
        self.is_address = is_address
        self.guess = guess
        self.out: Argument | None = None
        self.shown = text

    @property
    def told(self) -> Argument:
        """The last state of the argument: `out` if there is one, else the argument itself."""
        return self.out or self

    def marked(self, mark: str) -> None:
        """Add `mark` to the end of its texts."""
        self.text += mark
        self.shown += mark


def string_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument for the string `data`."""
    text = show.string(data, limit, cut=cut)
    return Argument(of, text, show.escaped_value(data), cut=cut, data=data)


def wide_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument for the wide string `data`."""
    text, value = show.wide_string(data, limit, cut=cut)
    return Argument(of, text, value, cut=text.endswith("..."))


# The arguments that a format of scanf takes, and the data that a call has stored there.
#
# The agent parses formats by the same rules (scanf.c), and numbers the captured data in the same
# order.

# Kind of data at an argument's target (row.POINTS_TO_), and the format of a number.
Fill = tuple[str, catalog.Show]
# The type of the argument as C writes it, and the data at its target, None if not known.
Filled = tuple[str, Fill | None]

_DIGITS = b"0123456789"
_SCANF_FLAGS = b"*'I"
_INTEGERS = {b"hh": 1, b"h": 2, b"": 4} | dict.fromkeys((b"l", *b"ll L q j z t".split()), 8)
_NAMES = {1: "char", 2: "short", 4: "int", 8: "long"}
_LONGEST_SCANF = (b"hh", b"ll", b"h", b"l", b"L", b"q", b"j", b"z", b"t")
_REALS = {b"": ("float", 4), b"l": ("double", 8)}
_HOWS = {b"o": catalog.SHOW_OCTAL, b"x": catalog.SHOW_HEX, b"X": catalog.SHOW_HEX}
_LONG_DOUBLE: catalog.Show = (catalog.SHOW_LONG_DOUBLE, 16, True, "")
_POINTER: catalog.Show = (catalog.SHOW_POINTER, 8, False, "")
_TEXT: catalog.Show = (catalog.SHOW_TEXT, 0, False, "")
_UNKNOWN: Filled = ("void *", None)
_POINTS_AT = {False: catalog.POINTS_TO_STRING_AT, True: catalog.POINTS_TO_WIDE_AT}
_POINTS_TO = {False: catalog.POINTS_TO_STRING, True: catalog.POINTS_TO_WIDE}
_MOST_POSITIONS = 64
_X87 = 10  # bytes of a long double's 16 that are used


def scanf_arguments_of(text: bytes) -> tuple[list[Filled], bool]:
    """Return the arguments that the format `text` takes, and whether all of it was understood.

    The list ends at an unknown conversion. An argument that the format skips, before others that
    it takes, is an address.
    """
    named: dict[int, Filled] = {}
    last = at = 0
    complete = True
    while (at := text.find(b"%", at)) >= 0:
        at += 1
        if text[at : at + 1] == b"%":
            at += 1
            continue
        conversion = _ScanConversion(text, at)
        at = conversion.at
        if conversion.filled is None:
            complete = False
            break
        if conversion.is_suppressed:
            continue
        position = conversion.position
        if position is None:
            position = last = last + 1
        if position in named or position > _MOST_POSITIONS:
            complete = False
            break
        named[position] = conversion.filled
    most = max(named, default=0)
    return [named.get(position, _UNKNOWN) for position in range(1, most + 1)], complete


class _ScanConversion:
    """One conversion, from behind its `%` up to `at`; `filled` is None if it is not known."""

    def __init__(self, text: bytes, at: int) -> None:
        self._text = text
        self.at = at
        self.is_suppressed = False
        self.position: int | None = None
        self.filled: Filled | None = None
        width = self._number()
        if width and self._next() == b"$":
            self.at += 1
            self.position, width = int(width), b""
            if not self.position:
                return
        if not int(width or b"0"):
            while self._next() and self._next() in _SCANF_FLAGS:
                self.is_suppressed |= self._next() == b"*"
                self.at += 1
            self._number()
        is_allocated = self._next() == b"m"
        self.at += is_allocated
        size = next((each for each in _LONGEST_SCANF if text.startswith(each, self.at)), b"")
        self.at += len(size)
        letter = self._next()
        self.at += 1
        if letter == b"a" and self._next() in (b"s", b"S", b"["):
            return  # formerly it was a modifier
        self.filled = _text_of(letter, size, is_allocated=is_allocated)
        if self.filled is None and not is_allocated:
            self.filled = _number_of(letter, size)
        if letter == b"[" and not self._skip_set():
            self.filled = None

    def _next(self) -> bytes:
        return self._text[self.at : self.at + 1]

    def _number(self) -> bytes:
        start = self.at
        while self._next() and self._next() in _DIGITS:
            self.at += 1
        return self._text[start : self.at]

    def _skip_set(self) -> bool:
        """Skip to behind the bracket that ends a set; return False if there is none."""
        if self._next() == b"^":
            self.at += 1
        end = self._text.find(b"]", self.at + 1)  # the first one would be a member
        self.at = end + 1 if end >= 0 else len(self._text)
        return end >= 0


def _text_of(letter: bytes, size: bytes, *, is_allocated: bool) -> Filled | None:
    if not letter or letter not in b"sS[cC" or size not in (b"", b"l"):
        return None
    wide = size == b"l" or letter in b"SC"
    of = "wchar_t *" if wide else "char *"
    if is_allocated:
        return of + "*", (_POINTS_AT[wide], _TEXT)
    return of, (_POINTS_TO[wide], _TEXT)


def _number_of(letter: bytes, size: bytes) -> Filled | None:
    width = _INTEGERS[size]
    if not letter:
        return None
    if letter in b"din":
        return f"{_NAMES[width]} *", _value((catalog.SHOW_DECIMAL, width, True, ""))
    if letter in b"ouxXb":
        how = _HOWS.get(letter, catalog.SHOW_DECIMAL)
        return f"unsigned {_NAMES[width]} *", _value((how, width, False, ""))
    if letter == b"p":
        return "void **", _value(_POINTER)
    if letter in b"aAeEfFgG":
        if size == b"L":
            return "long double *", _value(_LONG_DOUBLE)
        if size in _REALS:
            name, width = _REALS[size]
            return f"{name} *", _value((catalog.SHOW_FLOAT, width, True, ""))
    return None


def _value(how: catalog.Show) -> Fill:
    return catalog.POINTS_TO_VALUES, how


def stored(
    of: str, fill: Fill, data: tuple[int, int, bytes], limit: int, names: NamedTypes
) -> Argument | None:
    """Return what a call has stored at an argument of type `of`, None if not known.

    `data` was captured: kind, flags, bytes. `limit` is the number of bytes of a text to print.
    """
    _, flags, content = data
    if flags & (DATA_NULL | DATA_UNREADABLE):
        return None
    leads, how = fill
    cut = bool(flags & DATA_TRUNCATED)
    if leads == catalog.POINTS_TO_VALUES:
        if how[0] == catalog.SHOW_LONG_DOUBLE and len(content) == _X87:
            content = content.ljust(how[1], b"\0")
        if cut or len(content) != how[1]:
            return None
        return Argument(of, *show.values(content, how, names))
    if leads in (catalog.POINTS_TO_WIDE, catalog.POINTS_TO_WIDE_AT):
        argument = wide_argument(of, content, limit, cut=cut)
    else:
        argument = string_argument(of, content, limit, cut=cut)
    if leads in _POINTS_AT.values():
        argument.text = argument.shown = f"[{argument.text}]"
    return argument


# The arguments that a format of printf or scanf takes.
#
# For each argument: how it is passed and printed (row.Show), or that it is a string. The agent
# numbers the strings that it captures in the same order (item = number of the argument in the call,
# `*` included). The details of scanf are in formats.py.

STRING = "string"
WIDE = "wide"

_PRINTF_FLAGS = b"-+ #0'I"
_SIZES = {b"hh": 1, b"h": 2, b"": 4, b"l": 8, b"ll": 8, b"q": 8, b"L": 8, b"j": 8, b"z": 8, b"t": 8}
_LONGEST_PRINTF = (b"hh", b"ll", b"h", b"l", b"q", b"L", b"j", b"z", b"Z", b"t")

_INT: catalog.Show = (catalog.SHOW_DECIMAL, 4, True, "")
# type as C writes it, how it is printed, STRING or WIDE if it is a string, what the call fills in
# at its target
Taken = tuple[str, catalog.Show, str, Fill | None]
_STAR: Taken = ("int", _INT, "", None)


def printf_arguments_of(text: bytes, language: str) -> tuple[list[Taken], bool]:
    """Return the arguments that the format `text` takes, and whether all of it was understood.

    `language` is "printf" or "scanf". The list ends at an unknown conversion, and at an argument
    of printf that is given by position.
    """
    if language == catalog.TAIL_SCANF:
        filled, complete = scanf_arguments_of(text)
        return [(of, _POINTER, "", fill) for of, fill in filled], complete
    taken: list[Taken] = []
    at = 0
    while (at := text.find(b"%", at)) >= 0:
        at += 1
        if text[at : at + 1] == b"%":
            at += 1
            continue
        conversion = _Conversion(text, at)
        if not conversion.known:
            return taken, False
        taken += conversion.taken
        at = conversion.end
    return taken, True


class _Conversion:
    """One conversion, from behind its `%` to `end`."""

    def __init__(self, text: bytes, at: int) -> None:
        self.text = text
        self.at = at
        self.taken: list[Taken] = []
        self.printf_width()
        size = next(
            (modifier for modifier in _LONGEST_PRINTF if text.startswith(modifier, self.at)), b""
        )
        self.at += len(size)
        letter = text[self.at : self.at + 1]
        self.at += 1
        self.end = self.at
        self.known = bool(letter) and self.take(letter, size)

    def skip(self, members: bytes) -> None:
        while self.text[self.at : self.at + 1] and self.text[self.at] in members:
            self.at += 1

    def printf_width(self) -> None:
        self.skip(_PRINTF_FLAGS)
        self.width()
        if self.text[self.at : self.at + 1] == b".":
            self.at += 1
            self.width()

    def width(self) -> None:
        if self.text[self.at : self.at + 1] == b"*":
            self.at += 1
            self.taken.append(_STAR)
        self.skip(_DIGITS)  # "1$" stays in front of the letter, so it is unknown

    def take(self, letter: bytes, size: bytes) -> bool:
        """Add the argument for the letter; return whether the letter is known."""
        if letter == b"m":
            return True
        if letter in b"di":
            width = _SIZES.get(size, 8)
            self.add(_NAMES[width], (catalog.SHOW_DECIMAL, width, True, ""))
        elif letter in b"ouxX":
            width = _SIZES.get(size, 8)
            how = {b"o": catalog.SHOW_OCTAL, b"u": catalog.SHOW_DECIMAL}.get(
                letter, catalog.SHOW_HEX
            )
            self.add(f"unsigned {_NAMES[width]}", (how, width, False, ""))
        elif letter in b"eEfFgGaA":
            if size == b"L":
                self.add("long double", (catalog.SHOW_LONG_DOUBLE, 16, True, ""))
            else:
                self.add("double", (catalog.SHOW_FLOAT, 8, True, ""))
        elif letter in b"cC":
            wide = letter == b"C" or size == b"l"
            how = catalog.SHOW_WCHAR if wide else catalog.SHOW_CHAR
            # An int that is converted to unsigned char.
            self.add("wint_t" if wide else "int", (how, 4 if wide else 1, False, ""))
        elif letter in b"sS":
            wide = letter == b"S" or size == b"l"
            of = "const wchar_t *" if wide else "const char *"
            self.add(of, _POINTER, WIDE if wide else STRING)
        elif letter in b"pn":
            self.add("void *", _POINTER)
        else:
            return False
        return True

    def add(self, of: str, how: catalog.Show, string: str = "") -> None:
        self.taken.append((of, how, string, None))
