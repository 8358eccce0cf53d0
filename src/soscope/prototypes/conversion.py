# SPDX-License-Identifier: Apache-2.0
"""The arguments that a format of printf or scanf takes.

For each argument: how it is passed and printed (row.Show), or that it is a string. The agent
numbers the strings that it captures in the same order (item = number of the argument in the call,
`*` included). The details of scanf are in formats.py.
"""

from __future__ import annotations

from soscope.prototypes import formats, row

STRING = "string"
WIDE = "wide"

_FLAGS = b"-+ #0'I"
_DIGITS = b"0123456789"
_SIZES = {b"hh": 1, b"h": 2, b"": 4, b"l": 8, b"ll": 8, b"q": 8, b"L": 8, b"j": 8, b"z": 8, b"t": 8}
_LONGEST = (b"hh", b"ll", b"h", b"l", b"q", b"L", b"j", b"z", b"Z", b"t")

_INT: row.Show = (row.SHOW_DECIMAL, 4, True, "")
_POINTER: row.Show = (row.SHOW_POINTER, 8, False, "")
# type as C writes it, how it is printed, STRING or WIDE if it is a string, what the call fills in
# at its target
Taken = tuple[str, row.Show, str, formats.Fill | None]
_STAR: Taken = ("int", _INT, "", None)
_NAMES = {1: "char", 2: "short", 4: "int", 8: "long"}


def arguments_of(text: bytes, language: str) -> tuple[list[Taken], bool]:
    """Return the arguments that the format `text` takes, and whether all of it was understood.

    `language` is "printf" or "scanf". The list ends at an unknown conversion, and at an argument
    of printf that is given by position.
    """
    if language == row.TAIL_SCANF:
        filled, complete = formats.arguments_of(text)
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
        size = next((modifier for modifier in _LONGEST if text.startswith(modifier, self.at)), b"")
        self.at += len(size)
        letter = text[self.at : self.at + 1]
        self.at += 1
        self.end = self.at
        self.known = bool(letter) and self.take(letter, size)

    def skip(self, members: bytes) -> None:
        while self.text[self.at : self.at + 1] and self.text[self.at] in members:
            self.at += 1

    def printf_width(self) -> None:
        self.skip(_FLAGS)
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
            self.add(_NAMES[width], (row.SHOW_DECIMAL, width, True, ""))
        elif letter in b"ouxX":
            width = _SIZES.get(size, 8)
            how = {b"o": row.SHOW_OCTAL, b"u": row.SHOW_DECIMAL}.get(letter, row.SHOW_HEX)
            self.add(f"unsigned {_NAMES[width]}", (how, width, False, ""))
        elif letter in b"eEfFgGaA":
            if size == b"L":
                self.add("long double", (row.SHOW_LONG_DOUBLE, 16, True, ""))
            else:
                self.add("double", (row.SHOW_FLOAT, 8, True, ""))
        elif letter in b"cC":
            wide = letter == b"C" or size == b"l"
            how = row.SHOW_WCHAR if wide else row.SHOW_CHAR
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

    def add(self, of: str, how: row.Show, string: str = "") -> None:
        self.taken.append((of, how, string, None))
