# SPDX-License-Identifier: Apache-2.0
"""The compiled file: what it holds, and reading it.

A header (magic, then offset and size of every part) and the parts. On the way to a started
program only one of the tables is read, and the automata; what printing needs waits until
there is something to print. Parts other than tables are in Python's marshal format.
"""

from __future__ import annotations

import marshal
import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.row import AutomatonParts, FunctionRow, PackedDetails

# Changes whenever rows, tables or programs mean something else than before.
MAGIC = b"soscope prototypes 12\n\0\0"

# Parts of the file.
TABLE_FULL = 0  # SEC_FUNCTIONS
TABLE_ENTRY = 1  # the same without programs for returns
TABLE_NAMES = 2  # the same without any program
AUTOMATA = 3  # of the table's globs, in order
DETAILS = 4
GROUPS = 5  # the automata of groups.txt, by name
PREAMBLE = 6  # the declarations of types that all others may use, as C
FAMILIES = 7  # the automata of families.txt, by their index
_PARTS = 8
HEADER = Struct(f"<{len(MAGIC)}s{2 * _PARTS}Q")


class Compiled:
    """A compiled file, open or in memory: tables, automata, details on demand."""

    __slots__ = ("_content", "_offsets", "_path")

    def __init__(self, content: bytes, path: str = "") -> None:
        # Without a path `content` is the whole file, else its header.
        self._content = content
        self._path = path
        _, *offsets = HEADER.unpack_from(content)
        self._offsets = offsets

    def part(self, number: int) -> bytes:
        """Return one part. Raises OSError where the file has gone."""
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
        """Return C's declarations of the types that all functions may use."""
        return self.part(PREAMBLE).decode()

    def families(self) -> tuple[tuple[int, AutomatonParts], ...]:
        """Return what the images and versions of each family are called, by its index."""
        families: tuple[tuple[int, AutomatonParts], ...] = marshal.loads(self.part(FAMILIES))  # noqa: S302  our own file
        return families

    def groups(self) -> dict[str, AutomatonParts]:
        """Return the automata of the sets of functions, by their names."""
        groups: dict[str, AutomatonParts] = marshal.loads(self.part(GROUPS))  # noqa: S302  our own file
        return groups

    def details(self) -> PackedDetails:
        """Return what printing needs."""
        details: PackedDetails = marshal.loads(self.part(DETAILS))  # noqa: S302  our own file
        return details


class Rows:
    """The rows of all functions by number, each read when it is asked for: a run prints few.

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
    """Return the compiled file at `path`, None where there is none that can be used."""
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
    # A file that was cut off is none.
    return compiled if size == sum(compiled._offsets[-2:]) else None
