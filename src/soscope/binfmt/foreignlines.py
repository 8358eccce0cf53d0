# SPDX-License-Identifier: Apache-2.0
"""Files and lines of code of images that are not little-endian or not of 64 bits.

The reading is pyelftools': it is slow, and knows all of them.
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.dwarf import check_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

_NO_LINES: tuple[list[int], list[tuple[str, int] | None]] = ([], [])


class ForeignLines:
    """The lines of an open file, which must stay open; one without DWARF has none.

    Raises ImportError where pyelftools is not installed.
    """

    __slots__ = ("_aranges", "_info", "_ranges", "_units")

    def __init__(self, file: IO[bytes]) -> None:
        from elftools.elf.elffile import ELFFile

        self._units: dict[int, tuple[list[int], list[tuple[str, int] | None]]] = {}
        self._ranges: list[tuple[int, int, Any]] | None = None
        self._aranges: Any = None
        try:
            elf = ELFFile(file)
            check_size(elf)
            self._info: Any = (
                elf.get_dwarf_info(follow_links=False) if elf.has_dwarf_info() else None
            )
        except Exception:  # noqa: BLE001  pyelftools raises all kinds for what is damaged
            self._info = None

    def at(self, vaddr: int) -> tuple[str, int] | None:
        """Return (file, line) of link-time address `vaddr`, None where they are not known."""
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
            self._aranges = info.get_aranges() or False
        offset = self._aranges and self._aranges.cu_offset_at_addr(vaddr)
        if offset:
            return info.get_CU_at(offset)
        if offset == 0 and self._aranges is not False:
            return info.get_CU_at(0)
        if self._ranges is None:
            self._ranges = [
                (start, end, unit)
                for unit in info.iter_CUs()
                for start, end in self._ranges_of(unit)
            ]
        return next((unit for start, end, unit in self._ranges if start <= vaddr < end), None)

    def _ranges_of(self, unit: Any) -> list[tuple[int, int]]:
        """Return the addresses of a unit: those of its line table, whole sequences."""
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
        rows: list[tuple[int, int, tuple[str, int] | None]] = []
        for number, entry in enumerate(program.get_entries()):
            state = entry.state
            if state is None:
                continue
            # where one sequence ends another may begin
            place = None if state.end_sequence else (names.of(state.file), state.line)
            rows.append((state.address, 0 if place is None else number + 1, place))
        rows.sort(key=lambda row: row[:2])
        return [row[0] for row in rows], [row[2] for row in rows]


class _Names:
    """The names of the files of one line table."""

    __slots__ = ("_known", "_offset", "_program", "_top")

    def __init__(self, unit: Any, program: Any) -> None:
        self._program = program
        # version 5 counts files and directories from 0 on, and has the unit's own first
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
