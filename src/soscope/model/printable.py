# SPDX-License-Identifier: Apache-2.0
"""Make names of the traced program safe to show on a terminal."""

from __future__ import annotations


def printable(line: str) -> str:
    """Return a line with unprintable characters escaped, so that it is safe to print."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else f"\\x{_byte(letter):02x}" for letter in line)


def _byte(letter: str) -> int:
    """Return a character's number; for a surrogate escape, the byte that it stands for."""
    number = ord(letter)
    return number - 0xDC00 if 0xDC80 <= number <= 0xDCFF else number
