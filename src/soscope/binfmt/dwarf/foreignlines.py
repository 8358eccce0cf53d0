# SPDX-License-Identifier: Apache-2.0
"""Files and lines of code in images that are not little-endian or not 64-bit.

pyelftools reads them: it is slow, but reads all machines.
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.dwarf.lines import in_order
from soscope.binfmt.dwarf.names import check_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any


_NO_LINES: tuple[list[int], list[tuple[str, int] | None]] = ([], [])


class ForeignLines:
    """The lines of an open file, which must stay open; a file without DWARF has none.

    `is_code` returns whether there is code at an address. Lines that begin where there is no code
    belong to a function that the linker dropped.

    Raises ImportError if pyelftools is not installed.
    """

    __slots__ = ("_aranges", "_info", "_is_code", "_ranges", "_units")

    def __init__(self, file: IO[bytes], is_code: Callable[[int], bool]) -> None:
        from elftools.elf.elffile import ELFFile

        self._units: dict[int, tuple[list[int], list[tuple[str, int] | None]]] = {}
        self._ranges: list[tuple[int, int, Any]] | None = None
        self._aranges: list[tuple[int, int, int]] | None = None
        self._is_code = is_code
        try:
            elf = ELFFile(file)
            check_size(elf)
            self._info: Any = (
                elf.get_dwarf_info(follow_links=False) if elf.has_dwarf_info() else None
            )
        except Exception:  # noqa: BLE001  pyelftools raises all kinds for what is damaged
            self._info = None

    def at(self, vaddr: int) -> tuple[str, int] | None:
        """Return (file, line) of link-time address `vaddr`, None if they are not known."""
        if self._info is None:
            return None
        try:
            unit = self._unit_at(vaddr)
            if unit is None:
                return None
            starts, places = self._lines(unit)
        except Exception:  # noqa: BLE001  see above
            return None
        at = bisect_right(starts, vaddr) - 1
        return places[at] if at >= 0 else None

    def _unit_at(self, vaddr: int) -> Any:
        info = self._info
        if self._aranges is None:
            told = info.get_aranges()
            self._aranges = [
                (row.begin_addr, row.begin_addr + row.length, row.info_offset)
                for row in (told.entries if told else ())
                if self._is_code(row.begin_addr)
            ]
        at = bisect_right(self._aranges, vaddr, key=lambda row: row[0]) - 1
        if at >= 0 and vaddr < self._aranges[at][1]:
            return info.get_CU_at(self._aranges[at][2])
        if self._ranges is None:
            self._ranges = [
                (start, end, unit)
                for unit in info.iter_CUs()
                for start, end in self._ranges_of(unit)
            ]
        return next((unit for start, end, unit in self._ranges if start <= vaddr < end), None)

    def _ranges_of(self, unit: Any) -> list[tuple[int, int]]:
        """Return the address ranges of a unit: the whole sequences of its line table."""
        starts, places = self._lines(unit)
        pairs: list[tuple[int, int]] = []
        begin: int | None = None
        for start, place in zip(starts, places, strict=True):
            if begin is None:
                begin = start
            if place is None:
                pairs.append((begin, start))
                begin = None
        return pairs

    def _lines(self, unit: Any) -> tuple[list[int], list[tuple[str, int] | None]]:
        known = self._units.get(unit.cu_offset)
        if known is None:
            known = self._units[unit.cu_offset] = self._read(unit)
        return known

    def _read(self, unit: Any) -> tuple[list[int], list[tuple[str, int] | None]]:
        program = self._info.line_program_for_CU(unit)
        if program is None:
            return _NO_LINES
        names = _Names(unit, program)
        sequences: list[list[tuple[int, tuple[str, int] | None]]] = [[]]
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            place = None if state.end_sequence else (names.of(state.file), state.line)
            sequences[-1].append((state.address, place))
            if place is None:
                sequences.append([])
        rows = in_order(sequences[:-1], self._is_code)
        return [row[0] for row in rows], [row[1] for row in rows]


class _Names:
    """The file names of one line table."""

    __slots__ = ("_known", "_offset", "_program", "_top")

    def __init__(self, unit: Any, program: Any) -> None:
        self._program = program
        # version 5 numbers files and directories from 0, and number 0 is the unit's own
        self._offset = 0 if program.header.version >= 5 else 1
        attributes = unit.get_top_DIE().attributes
        top = attributes.get("DW_AT_comp_dir")
        self._top = _text(top.value) if top is not None else ""
        self._known: dict[int, str] = {}

    def of(self, number: int) -> str:
        name = self._known.get(number)
        if name is None:
            name = self._known[number] = self._make(number)
        return name

    def _make(self, number: int) -> str:
        header = self._program.header
        entry = header["file_entry"][number - self._offset]
        name = _text(entry.name)
        directories = header["include_directory"]
        directory = ""
        if self._offset == 0:
            directory = _text(directories[entry.dir_index])
        elif entry.dir_index:
            directory = _text(directories[entry.dir_index - 1])
        for prefix in (directory, self._top):
            if prefix and not name.startswith("/"):
                name = f"{prefix}/{name}"
        return name


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
