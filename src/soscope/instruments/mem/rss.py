# SPDX-License-Identifier: Apache-2.0
"""The resident memory of each process at its end, read from outside while it is stopped."""

from __future__ import annotations

import time

from soscope.control.settings import Instrument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from soscope.live.heap.memory import BlockPages
    from soscope.wire.block import ControlBlock

# Takes a pid and the known blocks of objects. Returns the six parts of RssParts, None if not
# known.
Divide: TypeAlias = "Callable[[int, BlockPages | None], list[int] | None]"


_PATIENCE = 5.0  # seconds for which all processes but the first may be held up together


class RssInstrument(Instrument):
    """Measures the resident memory of all processes by `divide` when they end.

    If objects are counted, `measure` is called when they are read. Of thousands of children the
    last ones are not measured, as that would take longer than they run. With `is_visit`,
    processes that go on are measured when soscope detaches. `prepare` is called once while the
    processes run.
    """

    name = "rss"
    wants_signals = True
    wants_ends = True

    def __init__(
        self,
        divide: Divide,
        *,
        prepare: Callable[[], object] | None = None,
        is_visit: bool = False,
    ) -> None:
        self._divide = divide
        self._prepare = prepare
        self._is_visit = is_visit
        self._measured: set[int] = set()
        self._parts: dict[int, list[int] | None] = {}
        self._left = _PATIENCE

    def process(self, pid: int, block: ControlBlock) -> None:
        """Take note of a process, or of another program in it."""
        del block
        self._measured.discard(pid)
        self._parts[pid] = None

    def move(self) -> bool:
        """Call `prepare`, the first time only."""
        prepare, self._prepare = self._prepare, None
        if prepare is not None:
            prepare()
        return False

    def ending(self, pid: int, block: ControlBlock) -> None:
        """Measure a process whose objects were not counted."""
        del block
        if pid not in self._measured:
            self.measure(pid, None)

    def measure(self, pid: int, objects: BlockPages | None) -> None:
        """Measure a process. `objects` are the blocks of its objects."""
        self._measured.add(pid)
        is_first = pid == next(iter(self._parts), pid)
        if is_first or self._left > 0:
            begin = time.monotonic()
            self._parts[pid] = self._divide(pid, objects)
            self._left -= 0 if is_first else time.monotonic() - begin

    def finish(self) -> list[str]:
        """Measure processes that continue to run without soscope."""
        for pid in [*self._parts] if self._is_visit else ():
            if pid not in self._measured:
                self.measure(pid, None)
        return []

    def totals(self) -> dict[str, object]:
        """Return the parts of each process, for a recording."""
        return {"rss": [[pid, parts] for pid, parts in self._parts.items()]}
