# SPDX-License-Identifier: Apache-2.0
"""An agent that lies in a process already: who owns it, what it has changed, taking that back.

Everything is read and written from outside, with all threads stopped where words change: the
process's own code takes no part, and neither does the soscope that put the agent in.
"""

from __future__ import annotations

from array import array

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError, SoscopeError
from soscope.process import maps, status
from soscope.process.memory import RemoteMemory
from soscope.wire import layout

_PAGE = layout.PAGE
_NEAR = 4096  # bytes between changed words that are read and written together
_SITE_BYTES, _ENTRY_BYTES = 32, 16
_SITES_END = layout.BLOB_SITES + layout.MAX_SITES * _SITE_BYTES
_RETURN_AT = 14  # of a return trampoline: where the function that it calls returns to


Change = tuple[int, int, int, int]  # address, before, after, bytes
Group = tuple[int, int, list[Change]]  # start, end, changes in between


class Taken:
    """What came of taking changes back: words restored, and those that somebody else changed.

    `left` are (address, value) of the latter; `returns` counts return addresses that were put
    back, `kept` the words by which unwinders still ask the agent.
    """

    __slots__ = ("kept", "left", "restored", "returns")

    def __init__(self) -> None:
        self.restored = 0
        self.left: list[tuple[int, int]] = []
        self.returns = 0
        self.kept = 0


class Resident:
    """The agent at `base`. Its fields are those of `struct sosc_inside`, read by `look`."""

    __slots__ = ("_memory", "_prepared", "base", "build_id", "fields")

    def __init__(self, memory: RemoteMemory, base: int) -> None:
        self._memory = memory
        self.base = base
        self.fields: dict[str, int] = {}
        self._prepared: tuple[bytes, tuple[list[Group], list[Group], int]] = b"", ([], [], 0)
        try:
            self.build_id = ElfImage.from_memory(memory, base).build_id
        except FormatError:
            self.build_id = b""
        self.look()

    def look(self) -> None:
        """Read its fields anew."""
        data = self._memory.read(self.base + layout.BLOB_DATA, layout.INSIDE.size)
        if len(data) == layout.INSIDE.size:
            values = layout.INSIDE.struct.unpack(data)
            self.fields = dict(zip(layout.INSIDE.fields, values, strict=True))

    @property
    def is_known(self) -> bool:
        """Say whether it speaks this version of the protocol."""
        return (
            self.fields.get("wire_version") == layout.WIRE_VERSION
            and self.fields.get("size") == layout.INSIDE.size
        )

    @property
    def is_hooked(self) -> bool:
        """Say whether words of the process are changed."""
        return bool(self.fields.get("change_count"))

    @property
    def owner(self) -> int:
        """The pid of the soscope that reads what it writes; 0 where that has ended."""
        at = self.fields.get("control", 0)
        data = self._memory.read(at, layout.CONTROL.size) if at else b""
        if len(data) < layout.CONTROL.size:
            return 0
        fields = dict(zip(layout.CONTROL.fields, _words(data), strict=True))
        pid, start = fields["owner_pid"], fields["owner_start"]
        if fields["magic"] != layout.MAGIC or not pid:
            return 0
        try:
            stat = status.read_stat(pid)
        except SoscopeError:
            return 0
        return pid if stat.start == start and stat.state not in "ZX" else 0

    def changes(self) -> list[Change]:
        """Return the changed words: (address, before, after, bytes), oldest first."""
        data = self._journal()
        size = layout.CHANGE.size
        return [
            fields[:4]
            for fields in layout.CHANGE.struct.iter_unpack(data[: len(data) // size * size])
            if fields[0]
        ]

    def _journal(self) -> bytes:
        count = min(self.fields["change_count"], layout.MAX_CHANGES)
        return self._memory.read(self.fields["changes"], count * layout.CHANGE.size)

    def prepare(self) -> None:
        """Do what `take_back` can do before the threads are stopped: most of its work."""
        self.look()
        self._prepared = self._journal(), self._work()

    def _work(self) -> tuple[list[Group], list[Group], int]:
        """Return the pieces of memory to restore: without those that are asked, those, how many."""
        asked: list[Change] = []
        others: list[Change] = []
        for change in self.changes():
            (asked if self._is_asked(change) else others).append(change)
        return _grouped(others), _grouped(asked), len(asked)

    def holds(self, addr: int) -> bool:
        """Say whether an address lies in the agent's code or trampolines."""
        return 0 <= addr - self.base < layout.BLOB_DATA

    # ---- taking it out ----

    def stop(self) -> None:
        """Let it record nothing more, and hook no image that is loaded from now on.

        No thread has to be stopped for that.
        """
        stop = layout.COMMAND_STOP.to_bytes(4, "little")
        self._memory.write(self.fields["control"] + layout.CONTROL.offset("command"), stop)

    def take_back(self, taken: Taken, *, unwinding: bool) -> None:
        """Give every changed word its old value, if it still has the agent's.

        `unwinding` False: but not those by which unwinders ask the agent. All threads are
        stopped and the loader is idle. Raises OSError where memory cannot be written; what
        was restored stays so, and calling this again does the rest.
        """
        journal, work = self._prepared
        if journal != self._journal():
            work = self._work()
        others, asked, kept = work
        taken.kept = 0 if unwinding else kept
        for start, end, group in [*others, *(asked if unwinding else [])]:
            self._restore(start, end, group, taken)

    def _is_asked(self, change: Change) -> bool:
        """Say whether a word leads to the agent's own functions, or to a cell of no slot."""
        at = change[2] - self.base
        first = layout.BLOB_ENTRIES + self.fields["cell_count"] * _ENTRY_BYTES
        return 0 <= at < layout.BLOB_TEXT_MAX or first <= at < layout.BLOB_SITES

    def _restore(self, start: int, end: int, changes: list[Change], taken: Taken) -> None:
        data = bytearray(self._memory.read(start, end - start))
        if len(data) < end - start:  # its image is gone
            return
        before = bytes(data)
        for addr, old, new, size in changes:
            at = addr - start
            if data[at : at + size] == new.to_bytes(8, "little")[:size]:
                data[at : at + size] = old.to_bytes(8, "little")[:size]
                taken.restored += 1
            elif data[at : at + size] != old.to_bytes(8, "little")[:size]:
                taken.left.append((addr, int.from_bytes(data[at : at + size], "little")))
        if data != before:
            self._memory.write(start, bytes(data))

    def quiet(self) -> None:
        """Let trampolines that somebody still has the address of do nothing but go on."""
        fields = self.fields
        count = fields["cell_count"]
        cells = array("Q", self._memory.read(fields["cells"], 16 * count))
        plain = fields["plain_jump"]
        cells[::2] = array("Q", [plain if handler else 0 for handler in cells[::2]])
        if len(cells):
            self._memory.write(fields["cells"], cells.tobytes())
        last = layout.SITES_A_PAGE - 1
        for index in range(last, fields["site_count"] + layout.SITES_A_PAGE, layout.SITES_A_PAGE):
            at = fields["sitedata"] + index * _SITE_BYTES
            if index < layout.MAX_SITES and self._memory.word(at):
                self._memory.write(at, fields["plain_exit"].to_bytes(8, "little"))

    def done(self) -> None:
        """Say that nothing is changed any more, and that nobody owns the agent."""
        at = self.base + layout.BLOB_DATA + layout.INSIDE.offset("change_count")
        self._memory.write(at, bytes(8))
        self.disown()

    def disown(self) -> None:
        """Say that no soscope reads what the agent writes."""
        control = self.fields["control"]
        for field, size in (("owner_pid", 4), ("owner_start", 8)):
            self._memory.write(control + layout.CONTROL.offset(field), bytes(size))
        self.look()

    def is_return(self, word: int) -> bool:
        """Say whether a word is where a function returns to a return trampoline."""
        at = word - _RETURN_AT - self.base - layout.BLOB_SITES
        return 0 <= at < _SITES_END - layout.BLOB_SITES and at % _SITE_BYTES == 0

    def return_of(self, word: int) -> int:
        """Return where the call behind such a word was made."""
        index = (word - _RETURN_AT - self.base - layout.BLOB_SITES) // _SITE_BYTES
        return self._memory.word(self.fields["sitedata"] + index * _SITE_BYTES)


def _words(data: bytes) -> list[int]:
    """Return the first word of each field of a `struct sosc_control`."""
    found = []
    for offset, size, code in layout.CONTROL.fields.values():
        width = 1 if code == "s" else min(size, 8 if code in "Qq" else 4)
        found.append(int.from_bytes(data[offset : offset + width], "little"))
    return found


def _grouped(
    changes: list[Change],
) -> list[Group]:
    """Return (start, end, changes) of pieces of memory; those of one word newest first."""
    groups: list[Group] = []
    order = sorted(range(len(changes)), key=lambda index: (changes[index][0], -index))
    for change in [changes[index] for index in order]:
        addr, size = change[0], change[3]
        if groups:
            start, end, group = groups[-1]
            # Never across a page: the next one may be unmapped, or protected differently.
            if addr + size - 1 < (start & -_PAGE) + _PAGE and addr - end < _NEAR:
                group.append(change)
                groups[-1] = start, max(end, addr + size), group
                continue
        groups.append((addr, addr + size, [change]))
    return groups


def find(memory: RemoteMemory, mappings: list[maps.Mapping]) -> list[Resident]:
    """Return the agents in a process; more than one where an older soscope has left its own."""
    found = []
    magic = layout.INSIDE_MAGIC.to_bytes(8, "little")
    for mapping in mappings:
        if mapping.flags[2] != "x" or mapping.offset or mapping.start + layout.BLOB_DATA >> 47:
            continue
        if memory.read(mapping.start + layout.BLOB_DATA, 8) == magic:
            found.append(Resident(memory, mapping.start))
    return found
