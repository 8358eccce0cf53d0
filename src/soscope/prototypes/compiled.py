# SPDX-License-Identifier: Apache-2.0
"""The compiled file: its contents, and how to read it.

It has a header (magic, then offset and size of every part) and the parts. Before the traced
program starts, only one of the tables and the automata are read. Data for printing are read when
there is something to print. Parts other than tables are in Python's marshal format.
"""

from __future__ import annotations

import marshal
import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.row import AutomatonParts, FunctionRow, PackedDetails

# It changes whenever the meaning of rows, tables or programs changes.
MAGIC = b"soscope prototypes 12\n\0\0"

# Parts of the file.
TABLE_FULL = 0  # SEC_FUNCTIONS
TABLE_ENTRY = 1  # the same without programs for returns
TABLE_NAMES = 2  # the same without any programs
AUTOMATA = 3  # automata of the table's globs, in order
DETAILS = 4
GROUPS = 5  # automata of groups.txt, by name
PREAMBLE = 6  # declarations of types that all others may use, as C
FAMILIES = 7  # automata of families.txt, by index
_PARTS = 8
HEADER = Struct(f"<{len(MAGIC)}s{2 * _PARTS}Q")


class Compiled:
    """A compiled file, open or in memory: tables, automata, and details on request."""

    __slots__ = ("_content", "_offsets", "_path")

    def __init__(self, content: bytes, path: str = "") -> None:
        # Without a path, `content` is the whole file, else only its header.
        self._content = content
        self._path = path
        _, *offsets = HEADER.unpack_from(content)
        self._offsets = offsets

    def part(self, number: int) -> bytes:
        """Return one part. Raises OSError if the file is gone."""
        offset, size = self._offsets[2 * number : 2 * number + 2]
        if not self._path:
            return self._content[offset : offset + size]
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)

    def automata(self) -> tuple[AutomatonParts, ...]:
        """Return the automata of the table's globs."""
        automata: tuple[AutomatonParts, ...] = marshal.loads(self.part(AUTOMATA))  # noqa: S302  our own file
        return automata

    def preamble(self) -> str:
        """Return the declarations of types that all functions may use, as C."""
        return self.part(PREAMBLE).decode()

    def families(self) -> tuple[tuple[int, AutomatonParts], ...]:
        """Return (index, automaton for names of its images and versions) of each family."""
        families: tuple[tuple[int, AutomatonParts], ...] = marshal.loads(self.part(FAMILIES))  # noqa: S302  our own file
        return families

    def groups(self) -> dict[str, AutomatonParts]:
        """Return the automata of the sets of functions, by the sets' names."""
        groups: dict[str, AutomatonParts] = marshal.loads(self.part(GROUPS))  # noqa: S302  our own file
        return groups

    def details(self) -> PackedDetails:
        """Return the data for printing."""
        details: PackedDetails = marshal.loads(self.part(DETAILS))  # noqa: S302  our own file
        return details


class Rows:
    """The rows of all functions by number, each unpacked on first use: a run prints only a few.

    >>> import marshal
    >>> from soscope.prototypes.compiled import Rows
    >>> Rows([marshal.dumps(("f",))])[0]
    ('f',)
    """

    __slots__ = ("_packed",)

    def __init__(self, packed: list[bytes]) -> None:
        self._packed = packed

    def __getitem__(self, number: int) -> FunctionRow:
        row: FunctionRow = marshal.loads(self._packed[number])  # noqa: S302  our own file
        return row


def opened(path: str) -> Compiled | None:
    """Return the compiled file at `path`, None if there is none that is usable."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        header = os.pread(file, HEADER.size, 0)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    if len(header) < HEADER.size or not header.startswith(MAGIC):
        return None
    compiled = Compiled(header, path)
    # A file that was cut is not usable.
    return compiled if size == sum(compiled._offsets[-2:]) else None
