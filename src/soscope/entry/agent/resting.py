# SPDX-License-Identifier: Apache-2.0
"""An agent at rest between sessions: its memory, and its code in a single mapping.

During a session, trampolines are mapped in many pieces with room for thousands each. Between
sessions one file replaces all pieces. It has the present content at the same offsets, and holes
for trampolines whose address is not in use.
"""

from __future__ import annotations

import os
from types import TracebackType

from soscope.entry.agent import install
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.tracee import Tracee
from soscope.proc import maps, memory
from soscope.proc.status import Refused
from soscope.wire import layout, sharedfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

SIZE = layout.BLOB_ENTRIES + layout.BLOB_DISTANCE  # bytes of code; the cells follow
_READ_EXEC, _PRIVATE, _MAYMOVE_FIXED = 5, 2, 3


class Remains:
    """The memory of an agent in a process: `mappings` is the number of its mappings.

    They have `size` bytes, `rss` of them resident. `why` tells why the memory of sessions is
    among them, "" if it is not.
    """

    __slots__ = ("mappings", "rss", "size", "why")

    def __init__(self, visit: Visit, agent: Resident, why: str) -> None:
        """Count the mappings. Raises OSError."""
        self.why = why
        self.mappings = self.size = self.rss = 0
        names = ("threads", "made_threads") if agent.is_known else ()
        tables = [agent.fields[name] for name in names]
        for area in memory.read_smaps(visit.tid):
            each = area.mapping
            is_own = 0 <= each.start - agent.base < layout.BLOB_SIZE
            has_table = any(each.start <= table < each.end for table in tables)
            if is_own or has_table or each.path.startswith(sharedfile.MAPPED):
                self.mappings += 1
                self.size += each.end - each.start
                self.rss += area.rss


class RestingCode:
    """The only mapping of code that the agent will have in a visited process.

    `with RestingCode(visit, agent) as code:` reads the code while the process runs. An agent that
    is taken out makes no trampolines, so the code does not change.
    """

    __slots__ = ("_agent", "_descriptor", "_pieces")

    def __init__(self, visit: Visit, agent: Resident) -> None:
        """Read the used code. Raises OSError, NoSharedMemory, and Refused if it cannot be read."""
        self._agent = agent
        spans = [(0, agent.text_size)]
        # A trampoline is in use if its data is: both are in pages of the same number.
        first = agent.base + layout.BLOB_ENTRIES + layout.BLOB_DISTANCE
        for start, end in memory.kept(visit.tid, first, agent.base + layout.BLOB_DATA):
            low = start - agent.base - layout.BLOB_DISTANCE
            spans.append((low, low + end - start))
        self._pieces: list[tuple[int, bytes]] = []
        for low, high in spans:
            data = visit.memory.read(agent.base + low, high - low)
            if len(data) != high - low:
                raise Refused("the agent's code cannot be read")
            self._pieces.append((low, data))
        self._descriptor = sharedfile.create(SIZE, seals=0)
        self._fill()

    def _fill(self) -> None:
        for at, data in self._pieces:
            os.pwrite(self._descriptor, data, at)
        sharedfile.seal_content(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def put_in(self, tracee: Tracee) -> str:
        """Map the file over the agent's code. Return why that failed, "" if it succeeded.

        All threads are stopped. The file is first mapped elsewhere, and moved when it is known to
        be the right file, because a process that shares descriptors with the target may have
        exchanged it. Raises OSError, Refused and Gone.
        """
        number = self._bring(tracee)
        try:
            at = tracee.syscall(arch.NR_MMAP, 0, SIZE, _READ_EXEC, _PRIVATE, number, 0)
        finally:
            install.close(tracee, number)
        if at < 0:
            return f"no room for its code: {os.strerror(-at).lower()}"
        result = -1
        if self._is_ours(tracee, at):
            base = self._agent.base
            result = tracee.syscall(arch.NR_MREMAP, at, SIZE, SIZE, _MAYMOVE_FIXED, base)
        if result < 0:
            tracee.syscall(arch.NR_MUNMAP, at, SIZE)
            return "its code could not be mapped anew"
        return ""

    def _bring(self, tracee: Tracee) -> int:
        """Return the number of the file in the target. Raises Refused and OSError."""
        number = install.fetch(tracee, self._descriptor)
        if number >= 0:
            return number
        number, made = install.create(tracee)  # the process cannot open soscope's files
        os.close(self._descriptor)
        self._descriptor = made
        os.ftruncate(made, SIZE)
        self._fill()
        return number

    def _is_ours(self, tracee: Tracee, at: int) -> bool:
        inode = os.fstat(self._descriptor).st_ino
        return any(
            each.start <= at < each.end and each.inode == inode for each in maps.read(tracee.tid)
        )
