# SPDX-License-Identifier: Apache-2.0
"""Names of source files, in the header of a line number program (DWARF 5, 6.2.4)."""

from __future__ import annotations

from soscope.binfmt.dwarfentries import EntryError, uleb

_PATH, _FOLDER = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
_MOST = 1 << 16  # files of a unit, at most
_STRING, _STRP, _LINE_STRP = 0x08, 0x0E, 0x1F
_UDATA, _DATA16, _BLOCK = 0x0F, 0x1E, 0x09
_SIZES = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8}


class LineHead:
    """The header of a line number program; its opcodes are at [first, end).

    `step` is the length of the shortest instruction. `operands` has the number of operands of
    each standard opcode.
    """

    __slots__ = (
        "end",
        "files",
        "first",
        "folders",
        "line_base",
        "line_range",
        "opcode_base",
        "operands",
        "step",
        "version",
    )

    def __init__(self, lines: bytes, at: int, strings: bytes, line_strings: bytes) -> None:
        """Read the header at `at` in .debug_line. Raises EntryError, IndexError, ValueError."""
        length = int.from_bytes(lines[at : at + 4], "little")
        self.version = int.from_bytes(lines[at + 4 : at + 6], "little")
        self.end = at + 4 + length
        if not 2 <= self.version <= 5 or length >= 0xFFFF_FFF0 or self.end > len(lines):
            raise EntryError(f"a line number program of version {self.version}")
        at += 8 if self.version == 5 else 6  # skip the sizes of addresses and segments
        self.first = at + 4 + int.from_bytes(lines[at : at + 4], "little")
        at += 4
        self.step = lines[at]
        if self.version >= 4:
            if lines[at + 1] > 1:
                raise EntryError("instructions in bundles")
            at += 1
        self.line_base, self.line_range, self.opcode_base = lines[at + 2 : at + 5]
        self.line_base -= (self.line_base & 0x80) << 1
        if not self.line_range or not self.opcode_base:
            raise EntryError("a line number program without opcodes")
        at += 5
        self.operands = lines[at : at + self.opcode_base - 1]
        at += self.opcode_base - 1
        self.folders: list[str] = []
        self.files: list[tuple[str, int]] = []  # names with the numbers of their folders
        if self.version == 5:
            folders, at = _table(lines, at, strings, line_strings)
            self.folders = [name for name, _ in folders]
            self.files, _ = _table(lines, at, strings, line_strings)
        else:
            self._read_older(lines, at)

    def _read_older(self, lines: bytes, at: int) -> None:
        self.folders.append("")  # numbers of folders and files begin at 1
        while lines[at]:
            end = lines.index(0, at)
            self.folders.append(lines[at:end].decode("utf-8", "surrogateescape"))
            at = end + 1
        at += 1
        self.files.append(("", 0))
        while lines[at] and len(self.files) < _MOST:
            end = lines.index(0, at)
            name = lines[at:end].decode("utf-8", "surrogateescape")
            folder, at = uleb(lines, end + 1)
            self.files.append((name, folder))
            for _ in range(2):
                _, at = uleb(lines, at)

    def paths(self, top: str) -> list[str]:
        """Return the paths of the files; `top` is the folder of the unit."""
        paths: list[str] = []
        for name, number in self.files:
            folder = self.folders[number] if number < len(self.folders) else ""
            path = name
            for prefix in (folder, top):
                if prefix and path and not path.startswith("/"):
                    path = f"{prefix}/{path}"
            paths.append(path)
        return paths


def line_head(lines: bytes, at: int, strings: bytes, line_strings: bytes) -> LineHead:
    """Return the header of the line program at an offset of .debug_line. Raises EntryError."""
    try:
        return LineHead(lines, at, strings, line_strings)
    except (IndexError, ValueError) as error:
        raise EntryError(str(error)) from None


def file_names(lines: bytes, at: int, strings: bytes, line_strings: bytes) -> list[str]:
    """Return the file names of a line program, in the order of their numbers, without folders.

    `at` is its offset in .debug_line. Raises EntryError.
    """
    return [name for name, _ in line_head(lines, at, strings, line_strings).files]


def _table(
    lines: bytes, at: int, strings: bytes, line_strings: bytes
) -> tuple[list[tuple[str, int]], int]:
    """Return names, each with the number of a folder, and the offset behind the table."""
    formats = []
    count, at = lines[at], at + 1
    for _ in range(count):
        kind, at = uleb(lines, at)
        form, at = uleb(lines, at)
        formats.append((kind, form))
    count, at = uleb(lines, at)
    names: list[tuple[str, int]] = []
    for _ in range(min(count, _MOST)):
        name, folder = b"", 0
        for kind, form in formats:
            value, number, at = _value(lines, at, form, strings, line_strings)
            if kind == _PATH:
                name = value
            elif kind == _FOLDER:
                folder = number
        names.append((name.decode("utf-8", "surrogateescape"), folder))
    return names, at


def _value(
    lines: bytes, at: int, form: int, strings: bytes, line_strings: bytes
) -> tuple[bytes, int, int]:
    """Return a value as text and as number, and the offset behind it."""
    if form == _STRING:
        end = lines.index(0, at)
        return lines[at:end], 0, end + 1
    if form in (_STRP, _LINE_STRP):
        table = strings if form == _STRP else line_strings
        start = int.from_bytes(lines[at : at + 4], "little")
        return table[start : table.index(0, start)], 0, at + 4
    if form == _UDATA:
        return b"", *uleb(lines, at)
    if form == _DATA16:
        return b"", 0, at + 16
    if form == _BLOCK:
        size, at = uleb(lines, at)
        return b"", 0, at + size
    if form in _SIZES:
        size = _SIZES[form]
        return b"", int.from_bytes(lines[at : at + size], "little"), at + size
    raise EntryError(f"a form 0x{form:x} in a line number program")
