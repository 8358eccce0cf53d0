# SPDX-License-Identifier: Apache-2.0
"""The arguments that a format of scanf takes, and the data that a call has stored there.

The agent parses formats by the same rules (scanf.c), and numbers the captured data in the same
order.
"""

from __future__ import annotations

from soscope.model.call import DATA_NULL, DATA_TRUNCATED, DATA_UNREADABLE
from soscope.prototypes import row, show
from soscope.prototypes.argument import Argument, string_argument, wide_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.show import NamedTypes


# Kind of data at an argument's target (row.LEADS_TO_), and the format of a number.
Fill = tuple[str, row.Show]
# The type of the argument as C writes it, and the data at its target, None if not known.
Filled = tuple[str, Fill | None]

_DIGITS = b"0123456789"
_FLAGS = b"*'I"
_INTEGERS = {b"hh": 1, b"h": 2, b"": 4} | dict.fromkeys((b"l", *b"ll L q j z t".split()), 8)
_NAMES = {1: "char", 2: "short", 4: "int", 8: "long"}
_LONGEST = (b"hh", b"ll", b"h", b"l", b"L", b"q", b"j", b"z", b"t")
_REALS = {b"": ("float", 4), b"l": ("double", 8)}
_HOWS = {b"o": row.SHOW_OCTAL, b"x": row.SHOW_HEX, b"X": row.SHOW_HEX}
_LONG_DOUBLE: row.Show = (row.SHOW_LONG_DOUBLE, 16, True, "")
_POINTER: row.Show = (row.SHOW_POINTER, 8, False, "")
_TEXT: row.Show = (row.SHOW_TEXT, 0, False, "")
_UNKNOWN: Filled = ("void *", None)
_LEADS_AT = {False: row.LEADS_TO_STRING_AT, True: row.LEADS_TO_WIDE_AT}
_LEADS = {False: row.LEADS_TO_STRING, True: row.LEADS_TO_WIDE}
_MOST_POSITIONS = 64
_X87 = 10  # bytes of a long double's 16 that are used


def arguments_of(text: bytes) -> tuple[list[Filled], bool]:
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
            while self._next() and self._next() in _FLAGS:
                self.is_suppressed |= self._next() == b"*"
                self.at += 1
            self._number()
        is_allocated = self._next() == b"m"
        self.at += is_allocated
        size = next((each for each in _LONGEST if text.startswith(each, self.at)), b"")
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
        return of + "*", (_LEADS_AT[wide], _TEXT)
    return of, (_LEADS[wide], _TEXT)


def _number_of(letter: bytes, size: bytes) -> Filled | None:
    width = _INTEGERS[size]
    if not letter:
        return None
    if letter in b"din":
        return f"{_NAMES[width]} *", _value((row.SHOW_DECIMAL, width, True, ""))
    if letter in b"ouxXb":
        how = _HOWS.get(letter, row.SHOW_DECIMAL)
        return f"unsigned {_NAMES[width]} *", _value((how, width, False, ""))
    if letter == b"p":
        return "void **", _value(_POINTER)
    if letter in b"aAeEfFgG":
        if size == b"L":
            return "long double *", _value(_LONG_DOUBLE)
        if size in _REALS:
            name, width = _REALS[size]
            return f"{name} *", _value((row.SHOW_FLOAT, width, True, ""))
    return None


def _value(how: row.Show) -> Fill:
    return row.LEADS_TO_VALUES, how


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
    if leads == row.LEADS_TO_VALUES:
        if how[0] == row.SHOW_LONG_DOUBLE and len(content) == _X87:
            content = content.ljust(how[1], b"\0")
        if cut or len(content) != how[1]:
            return None
        return Argument(of, *show.values(content, how, names))
    if leads in (row.LEADS_TO_WIDE, row.LEADS_TO_WIDE_AT):
        argument = wide_argument(of, content, limit, cut=cut)
    else:
        argument = string_argument(of, content, limit, cut=cut)
    if leads in _LEADS_AT.values():
        argument.text = argument.shown = f"[{argument.text}]"
    return argument
