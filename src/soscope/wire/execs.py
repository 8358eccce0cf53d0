# SPDX-License-Identifier: Apache-2.0
"""The page in which children count the programs that they execute, if nobody follows children.

It is a memory file of its own: a child keeps this page when it leaves the control block, and may go
on with other rights. What stands here is shown, and nothing else is done with it.
"""

from __future__ import annotations

import os

from soscope.wire import layout, sharedfile

_MOST = 1 << 32  # programs: more than a machine executes in a session


class Execs:
    """A mapped page; `fd` is its file."""

    __slots__ = ("_file",)

    def __init__(self, descriptor: int) -> None:
        """Map the file `descriptor`, which belongs to the page from here on.

        Raises NoSharedMemory, with the file closed.
        """
        try:
            self._file = sharedfile.Mapped(descriptor, layout.EXECS.size)
        except (OSError, MemoryError, ValueError) as error:
            os.close(descriptor)
            raise sharedfile.not_mapped(layout.EXECS.size, error) from error

    @classmethod
    def create(cls, descriptor: int | None, *, wanted: bool) -> Execs | None:
        """Return a new page, None: it is not `wanted`.

        `descriptor` is an empty shared file to use, and is closed if the page is not wanted. None:
        make one. Raises NoSharedMemory.
        """
        if not wanted:
            if descriptor is not None:
                os.close(descriptor)
            return None
        if descriptor is None:
            return cls(sharedfile.create(layout.EXECS.size))
        sharedfile.resize(descriptor, layout.EXECS.size)
        return cls(descriptor)

    @property
    def fd(self) -> int:
        """The descriptor of its file."""
        return self._file.fd

    def read(self) -> tuple[int, list[str]]:
        """Return how many programs were executed, and the names of most of them.

        The numbers and the names are what children say.
        """
        page = self._file.mapping[: layout.EXECS.size]
        count = int.from_bytes(page[:8], "little", signed=True)
        names = {}
        size, first = layout.EXEC.size, layout.EXECS.offset("names")
        for at in range(first, first + size * layout.EXEC_NAMES, size):
            programs, state, name = layout.EXEC.struct.unpack_from(page, at)
            if programs and state == layout.EXEC_NAMED:
                names[os.fsdecode(name.partition(b"\0")[0])] = True
        return min(max(count, 0), _MOST), list(names)

    def close(self) -> None:
        """Unmap the page and close its file."""
        self._file.close()
