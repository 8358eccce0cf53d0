# SPDX-License-Identifier: Apache-2.0
"""What the formats of printf and scanf say about the arguments behind them.

For each argument a format takes: how it is passed and shown (row.Show), or that it is a
string. The same order numbers the strings that the agent keeps (item = number of the
argument in the call, `*` included).
"""

from __future__ import annotations

from soscope.prototypes import row

STRING = "string"
WIDE = "wide"

_FLAGS = b"-+ #0'I"
_DIGITS = b"0123456789"
_SIZES = {b"hh": 1, b"h": 2, b"": 4, b"l": 8, b"ll": 8, b"q": 8, b"L": 8, b"j": 8, b"z": 8, b"t": 8}
_LONGEST = (b"hh", b"ll", b"h", b"l", b"q", b"L", b"j", b"z", b"Z", b"t")

_INT: row.Show = (row.SHOW_DECIMAL, 4, True, "")
_POINTER: row.Show = (row.SHOW_POINTER, 8, False, "")
# type as C writes it, how it is shown, STRING or WIDE where a string is meant
Taken = tuple[str, row.Show, str]
_STAR: Taken = ("int", _INT, "")
_NAMES = {1: "char", 2: "short", 4: "int", 8: "long"}


def arguments_of(text: bytes, language: str) -> tuple[list[Taken], bool]:
    """Return what the format `text` takes, and whether all of it was understood.

    `language` is "printf" or "scanf". Where a conversion is not known, or arguments are
    named by position, the list ends.
    """
    taken: list[Taken] = []
    at = 0
    while (at := text.find(b"%", at)) >= 0:
        at += 1
        if text[at : at + 1] == b"%":
            at += 1
            continue
        conversion = _Conversion(text, at, language)
        if not conversion.known:
            return taken, False
        taken += conversion.taken
        at = conversion.end
    return taken, True


class _Conversion:
    """One conversion, from behind its `%` to `end`."""

    def __init__(self, text: bytes, at: int, language: str) -> None:
        self.text = text
        self.at = at
        self.taken: list[Taken] = []
        scanf = language == row.TAIL_SCANF
        suppressed = self.scanf_width() if scanf else self.printf_width()
        size = next((modifier for modifier in _LONGEST if text.startswith(modifier, self.at)), b"")
        self.at += len(size)
        letter = text[self.at : self.at + 1]
        self.at += 1
        if scanf and letter == b"[":
            self.scan_set()
        self.end = self.at
        self.known = bool(letter) and self.take(letter, size, scanf, suppressed)

    def skip(self, members: bytes) -> None:
        while self.text[self.at : self.at + 1] and self.text[self.at] in members:
            self.at += 1

    def printf_width(self) -> bool:
        self.skip(_FLAGS)
        self.width()
        if self.text[self.at : self.at + 1] == b".":
            self.at += 1
            self.width()
        return False

    def width(self) -> None:
        if self.text[self.at : self.at + 1] == b"*":
            self.at += 1
            self.taken.append(_STAR)
        self.skip(_DIGITS)  # "1$" is left in front of the letter: not known

    def scanf_width(self) -> bool:
        suppressed = False
        while self.text[self.at : self.at + 1] in (b"*", b"'", b"m"):
            suppressed |= self.text[self.at : self.at + 1] == b"*"
            self.at += 1
        self.skip(_DIGITS)
        if self.text[self.at : self.at + 1] == b"m":
            self.at += 1
        return suppressed

    def scan_set(self) -> None:
        if self.text[self.at : self.at + 1] == b"^":
            self.at += 1
        # A bracket that comes first is a member.
        end = self.text.find(b"]", self.at + 1)
        self.at = end + 1 if end >= 0 else len(self.text)

    def take(self, letter: bytes, size: bytes, scanf: bool, suppressed: bool) -> bool:
        """Add what the letter takes; say whether it is known."""
        if letter == b"m" and not scanf:
            return True
        if scanf:
            if letter not in b"diouxXcsCSpn[aAeEfFgG":
                return False
            if not suppressed:
                self.taken.append(("void *", _POINTER, ""))
            return True
        if letter in b"di":
            width = _SIZES.get(size, 8)
            self.taken.append((_NAMES[width], (row.SHOW_DECIMAL, width, True, ""), ""))
        elif letter in b"ouxX":
            width = _SIZES.get(size, 8)
            how = {b"o": row.SHOW_OCTAL, b"u": row.SHOW_DECIMAL}.get(letter, row.SHOW_HEX)
            self.taken.append((f"unsigned {_NAMES[width]}", (how, width, False, ""), ""))
        elif letter in b"eEfFgGaA":
            if size == b"L":
                self.taken.append(("long double", (row.SHOW_LONG_DOUBLE, 16, True, ""), ""))
            else:
                self.taken.append(("double", (row.SHOW_FLOAT, 8, True, ""), ""))
        elif letter in b"cC":
            wide = letter == b"C" or size == b"l"
            how = row.SHOW_WCHAR if wide else row.SHOW_CHAR
            # An int that is converted to unsigned char.
            self.taken.append(("wint_t" if wide else "int", (how, 4 if wide else 1, False, ""), ""))
        elif letter in b"sS":
            wide = letter == b"S" or size == b"l"
            of = "const wchar_t *" if wide else "const char *"
            self.taken.append((of, _POINTER, WIDE if wide else STRING))
        elif letter in b"pn":
            self.taken.append(("void *", _POINTER, ""))
        else:
            return False
        return True
