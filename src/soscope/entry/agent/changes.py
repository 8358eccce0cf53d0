# SPDX-License-Identifier: Apache-2.0
"""Write the instruction changes that an agent requests in a running process.

If one instruction replaces several, no thread may be between these, nor return there from a
signal handler. A thread that is there is moved behind them, because they have no effect. If a
handler returns there, the change waits for another stop. No child of vfork(2) runs in this memory
meanwhile: its parent's thread stops only after the child has executed a program or ended.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from soscope.entry.agent.resident import Resident
from soscope.entry.agent.unwinding import words_between
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.proc import maps
from soscope.wire import layout

_WORD = 8  # bytes
_FIELDS = layout.CHANGE.size // _WORD
_MOST_STACK = 64 << 20  # bytes of a stack that are searched

Change = tuple[int, int, bytes, bytes, bool]  # index in the journal, addr, before, after, split


class CodeChanges:
    """The code changes that an agent's journal requests.

    `waiting` are changes that have to wait because of a thread. `refused` counts those that the
    kernel has not allowed.
    """

    __slots__ = ("_agent", "_last", "_seen", "_visit", "refused", "waiting")

    def __init__(self, visit: Visit, agent: Resident) -> None:
        self._visit = visit
        self._agent = agent
        self._seen = 0
        self._last = b""  # the last entry that was read
        self.waiting: list[Change] = []
        self.refused = 0

    def apply(self) -> None:
        """Write the changes that are possible, while all threads are stopped."""
        new = self._new()
        changes = self.waiting + new
        held = self._held([change for change in changes if change[4]])
        self.waiting = [change for change in changes if change[1] in held]
        self._write(change for change in changes if change[1] not in held)

    def give_up(self) -> int:
        """Give up the changes that still wait. Return their number."""
        count = len(self.waiting)
        for place, *_ in self.waiting:
            at = self._agent.fields["changes"] + place * layout.CHANGE.size
            self._visit.memory.write(at, bytes(_WORD))
        self.waiting = []
        return count

    def _new(self) -> list[Change]:
        """Return the changes that were added to the journal since the last call.

        If images have been unloaded, their entries may have been reused. So the whole journal is
        read again then.
        """
        self._agent.look()
        count = min(self._agent.fields["change_count"], layout.MAX_CHANGES)
        if count < self._seen or self._entries(self._seen - 1, self._seen) != self._last:
            self._seen = 0
            self.waiting = []
        data = self._entries(self._seen, count)
        words = array("Q", data)
        changes = []
        for place, (addr, before, after, last) in enumerate(
            zip(*(words[field::_FIELDS] for field in range(_FIELDS)), strict=True), self._seen
        ):
            if not addr or not last >> 8 & layout.CHANGE_CODE:
                continue
            size = last & 0xFF
            old, new = (word.to_bytes(_WORD, "little")[:size] for word in (before, after))
            changes.append((place, addr, old, new, bool(last >> 8 & layout.CHANGE_SPLIT)))
        self._seen = count
        self._last = data[-layout.CHANGE.size :] or self._last
        return changes

    def _entries(self, first: int, end: int) -> bytes:
        """Return the journal's entries [first, end) as bytes. There are none before 0."""
        first = max(first, 0)
        start = self._agent.fields["changes"] + first * layout.CHANGE.size
        data = self._visit.memory.read(start, (end - first) * layout.CHANGE.size)
        return data[: len(data) // layout.CHANGE.size * layout.CHANGE.size]

    def _write(self, changes: Iterable[Change]) -> None:
        """Write changes, a page at a time, if the old bytes are in place."""
        memory = self._visit.memory
        pages: dict[int, list[Change]] = {}
        for change in changes:
            pages.setdefault(change[1] // layout.PAGE, []).append(change)
        for page in pages.values():
            start = min(change[1] for change in page)
            end = max(change[1] + len(change[2]) for change in page)
            content = memory.read(start, end - start)
            data = bytearray(content)
            for _, addr, before, after, _ in page:
                at = addr - start
                if data[at : at + len(before)] == before:
                    data[at : at + len(after)] = after
            try:
                if data != content:
                    memory.write(start, bytes(data))
            except OSError:
                self.refused += len(page)

    # ---- positions of threads ----

    def _held(self, changes: list[Change]) -> set[int]:
        """Return the addresses of changes to which a handler returns. Move threads from there."""
        if not changes:
            return set()
        inside = {
            place: (addr, len(before))
            for _, addr, before, _, _ in changes
            for place in range(addr + 1, addr + len(before))
        }
        low, high = min(inside), max(inside) + 1
        held: set[int] = set()
        memory = self._visit.memory
        mappings = maps.read(next(iter(self._visit.threads.stopped), self._visit.pid))
        for tid, registers in self._visit.threads.registers().items():
            for stack in used_stacks(memory, mappings, registers.sp - arch.RED_ZONE):
                held |= {inside[w][0] for _, w in words_between(stack, low, high) if w in inside}
            if registers.pc in inside:
                addr, size = inside[registers.pc]
                registers.pc = addr + size
                arch.set_registers(tid, registers)
        return held


def used_stacks(memory: RemoteMemory, mappings: list[maps.Mapping], sp: int) -> Iterator[bytes]:
    """Yield the used part of a stack, and of the stacks that its signal handlers interrupted."""
    waiting, seen = [sp], set[int]()
    while waiting:
        start = waiting.pop() & -_WORD
        end = next((each.end for each in mappings if each.start <= start < each.end), start)
        if end == start or end in seen:
            continue
        seen.add(end)
        data = memory.read(start, min(end - start, _MOST_STACK))
        yield data
        waiting += arch.interrupted_stacks(data)
