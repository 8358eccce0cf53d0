# SPDX-License-Identifier: Apache-2.0
"""Names of source files: the head of a line number program (DWARF 5, 6.2.4)."""

from __future__ import annotations

from soscope.binfmt.dwarfentries import EntryError, uleb

_PATH = 1  # DW_LNCT_path
_MOST = 1 << 16  # files of a unit
_STRING, _STRP, _LINE_STRP = 0x08, 0x0E, 0x1F
_UDATA, _DATA16, _BLOCK = 0x0F, 0x1E, 0x09
_SIZES = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8}


def file_names(lines: bytes, at: int, strings: bytes, line_strings: bytes) -> list[str]:
    """Return the file names that a program numbers, as they stand there.

    `at` is its offset in .debug_line. Raises EntryError.
    """
    try:
        return _names(lines, at, strings, line_strings)
    except (IndexError, ValueError) as error:
        raise EntryError(str(error)) from None


def _names(lines: bytes, at: int, strings: bytes, line_strings: bytes) -> list[str]:
    version = int.from_bytes(lines[at + 4 : at + 6], "little")
    if version == 5:
        at += 12  # length, version, sizes of addresses and segments, length of the head
    elif 2 <= version <= 4:
        at += 10
    else:
        raise EntryError(f"a line number program of version {version}")
    at += 4 + (version >= 4)
    at += max(lines[at], 1)  # the number of opcodes, and behind it the length of each but the first
    if version == 5:
        _, at = _table(lines, at, strings, line_strings)
        return _table(lines, at, strings, line_strings)[0]
    while lines[at]:  # folders
        at = lines.index(0, at) + 1
    at += 1
    names = [""]  # they are counted from 1
    while lines[at] and len(names) < _MOST:
        end = lines.index(0, at)
        names.append(lines[at:end].decode("utf-8", "replace"))
        at = end + 1
        for _ in range(3):
            _, at = uleb(lines, at)
    return names


def _table(lines: bytes, at: int, strings: bytes, line_strings: bytes) -> tuple[list[str], int]:
    formats = []
    count, at = lines[at], at + 1
    for _ in range(count):
        kind, at = uleb(lines, at)
        form, at = uleb(lines, at)
        formats.append((kind, form))
    count, at = uleb(lines, at)
    names: list[str] = []
    for _ in range(min(count, _MOST)):
        name = b""
        for kind, form in formats:
            value, at = _value(lines, at, form, strings, line_strings)
            if kind == _PATH:
                name = value
        names.append(name.decode("utf-8", "replace"))
    return names, at


def _value(
    lines: bytes, at: int, form: int, strings: bytes, line_strings: bytes
) -> tuple[bytes, int]:
    if form == _STRING:
        end = lines.index(0, at)
        return lines[at:end], end + 1
    if form in (_STRP, _LINE_STRP):
        table = strings if form == _STRP else line_strings
        start = int.from_bytes(lines[at : at + 4], "little")
        return table[start : table.index(0, start)], at + 4
    if form == _UDATA:
        return b"", uleb(lines, at)[1]
    if form == _DATA16:
        return b"", at + 16
    if form == _BLOCK:
        size, at = uleb(lines, at)
        return b"", at + size
    if form in _SIZES:
        return b"", at + _SIZES[form]
    raise EntryError(f"a form 0x{form:x} in a line number program")
