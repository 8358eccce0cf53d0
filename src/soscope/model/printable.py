# SPDX-License-Identifier: Apache-2.0
"""Names of a program's in text that may be shown on a terminal."""

from __future__ import annotations


def printable(line: str) -> str:
    """Return a line that is one line, and harmless to a terminal, whatever names are in it."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else f"\\x{_byte(letter):02x}" for letter in line)


def _byte(letter: str) -> int:
    """Return a letter's number; of what stands for a byte that is no UTF-8, that byte."""
    number = ord(letter)
    return number - 0xDC00 if 0xDC80 <= number <= 0xDCFF else number
