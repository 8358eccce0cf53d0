# SPDX-License-Identifier: Apache-2.0
"""Read prototypes/constants.txt, and print numbers by the names in it."""

from __future__ import annotations

from soscope.errors import FormatError

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
                    raise FormatError(f"{where}: set '{name}' is there twice", field=name)
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
