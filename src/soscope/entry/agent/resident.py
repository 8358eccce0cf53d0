# SPDX-License-Identifier: Apache-2.0
"""An agent that is already in a process: its owner, its changes, and how to undo them."""

from __future__ import annotations

import os
import time
from array import array

from soscope.binfmt.elf.image import ElfImage
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.entry.stopping import Threads
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.model.record import Record, fresh
from soscope.proc import maps, status
from soscope.proc import memory as pagemap
from soscope.proc.maps import Mapping
from soscope.proc.status import Refused
from soscope.wire import layout, patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from soscope.wire.patches import PatchTable


# The words that an agent has changed, prepared to be restored page by page.
#
# The plan is made while the process runs. Restoring then costs some ten nanoseconds a word.

_PAGE = layout.PAGE
_WORD = 8  # bytes
_ENTRY = 16  # bytes of an entry trampoline

Change = tuple[int, int, int, int]  # address, before, after, bytes


class Taken(Record):
    """The result of undoing changes: words restored, and words that other code has changed.

    `left` are (address, value) of the words that other code has changed. `returns` counts return
    addresses that were restored, and `kept` the words by which unwinders still ask the agent.
    `stays` tells why the memory of sessions was not freed, "" if it was.
    """

    restored: int = 0
    left: list[tuple[int, int]] = fresh(list)
    returns: int = 0
    kept: int = 0
    stays: str = ""


class Page:
    """Changes within one page, or one change across its end.

    Words that were changed once are restored together, and `indexes` count words from `start`.
    The other changes are in `odd`, newest first. They were changed more than once, have another
    size, or are not aligned.
    """

    __slots__ = ("after", "before", "end", "indexes", "odd", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.indexes: list[int] = []
        self.after: list[int] = []
        self.before: list[int] = []
        self.odd: list[Change] = []

    def restore(self, memory: RemoteMemory, taken: Taken) -> None:
        """Restore each word that still has the agent's value.

        Raises OSError if memory cannot be written.
        """
        size = self.end - self.start
        content = memory.read(self.start, size)
        if len(content) < size:  # the image was unloaded
            return
        data = bytearray(content)
        whole = size // _WORD * _WORD
        with memoryview(data)[:whole] as part, part.cast("Q") as words:
            now = [words[at] for at in self.indexes]
            if now == self.after:
                for at, old in zip(self.indexes, self.before, strict=True):
                    words[at] = old
                taken.restored += len(self.indexes)
                odd: Iterable[Change] = self.odd
            elif now == self.before and not self.odd:
                return
            else:
                odd = [*self.odd, *self._single()]
        for addr, old, new, width in odd:
            at = addr - self.start
            old_bytes = old.to_bytes(_WORD, "little")[:width]
            word = data[at : at + width]
            if word == new.to_bytes(_WORD, "little")[:width]:
                data[at : at + width] = old_bytes
                taken.restored += 1
            elif word != old_bytes:
                taken.left.append((addr, int.from_bytes(word, "little")))
        if data != content:
            memory.write(self.start, bytes(data))

    def _single(self) -> Iterable[Change]:
        for at, old, new in zip(self.indexes, self.before, self.after, strict=True):
            yield self.start + at * _WORD, old, new, _WORD


class UndoPlan:
    """The pages to restore: `pages`, and `asked` with the words by which unwinders ask the agent.

    `kept` is what stays in the journal: the changes of patches that stay.
    """

    __slots__ = ("asked", "asked_count", "journal", "kept", "pages")

    def __init__(
        self, journal: bytes, base: int, cells: int, patches: frozenset[int] = frozenset()
    ) -> None:
        """Plan for an agent at `base` with `cells` cells of slots. `journal` is its journal.

        `patches` are the indices of the patches that stay.
        """
        self.journal = journal
        fields = _words(journal)
        staying = _staying(fields, patches)
        self.kept = b"".join(fields[4 * at : 4 * at + 4].tobytes() for at in staying)
        addrs, afters, lasts = fields[0::4], fields[2::4], fields[3::4]
        first = base + layout.BLOB_ENTRIES
        others = first + cells * _ENTRY  # end of the slots' cells
        last = base + layout.BLOB_SITES
        asked = {
            at
            for at, after in enumerate(afters)
            if not lasts[at] >> 8 & layout.CHANGE_CODE
            and not first <= after < others
            and (others <= after < last or 0 <= after - base < layout.BLOB_TEXT_MAX)
        }
        order = sorted(set(range(len(addrs))).difference(staying), key=addrs.__getitem__)
        self.pages = _pages(fields, [at for at in order if at not in asked])
        self.asked = _pages(fields, [at for at in order if at in asked])
        self.asked_count = len(asked)

    def addresses_of_asked(self) -> list[int]:
        """Return the addresses of the words by which unwinders ask the agent."""
        return [
            addr
            for page in self.asked
            for addr in (
                *(page.start + at * _WORD for at in page.indexes),
                *(change[0] for change in page.odd),
            )
        ]


def count_staying(journal: bytes, patches: frozenset[int]) -> int:
    """Return how many changes of a journal stay as long as `patches` do."""
    return len(_staying(_words(journal), patches))


def _words(journal: bytes) -> array[int]:
    """Return the words of the whole entries of a journal."""
    size = layout.CHANGE.size
    return array("Q", journal[: len(journal) // size * size])


def _staying(fields: array[int], patches: frozenset[int]) -> list[int]:
    """Return the indices in the journal of the changes that stay, which belong to `patches`.

    As long as there are any, the loader's event must lead to the agent, so that images that are
    loaded later are patched, too.
    """
    if not patches:
        return []
    return [
        at
        for at, last in enumerate(fields[3::4])
        if last >> 8 & layout.CHANGE_LOADER
        or (last >> 8 & layout.CHANGE_STANDS and fields[4 * at] and last >> 16 & 0xFFFF in patches)
    ]


def _pages(fields: array[int], order: list[int]) -> list[Page]:
    """Return the pages of the changes at these indices of the journal, sorted by address."""
    pages: list[Page] = []
    limit = last = 0
    page = Page(0)
    for at in order:
        addr, before, after, size = fields[4 * at : 4 * at + 4]
        size &= 0xFF
        if not addr:  # the image was unloaded
            continue
        if addr + size > limit and addr != last:
            page = Page(addr & -_WORD)
            pages.append(page)
            limit = (addr & -_PAGE) + _PAGE
            last = -1
        page.end = max(page.end, addr + size)
        if addr == last and page.indexes and page.start + page.indexes[-1] * _WORD == addr:
            page.odd.append((addr, page.before.pop(), page.after.pop(), _WORD))
            page.indexes.pop()
        if addr == last or size != _WORD or addr % _WORD:
            page.odd.append((addr, before, after, size))
        else:
            page.indexes.append((addr - page.start) // _WORD)
            page.before.append(before)
            page.after.append(after)
        last = addr
    for page in pages:
        page.odd.reverse()  # newest first
    return pages


# An agent that is already in a process: its owner, its changes, and how they are undone.
#
# Everything is read and written from outside, with all threads stopped while words change. Neither
# the process's own code nor the soscope that has inserted the agent takes part.

_SITE_BYTES = 32
_SITES_END = layout.BLOB_SITES + layout.MAX_SITES * _SITE_BYTES
_ENTRY_BYTES = 16
_COUNTER_BYTES = 128
_COUNTER_RETURNS = (4, 6)  # words of a counter with the return addresses of calls
_STACK = 8192  # bytes, more than twice what a call of the agent may need
_RETURN_AT = 14  # offset in a return trampoline to which its call returns
_MOST_PAGES = 1 << 16  # pages with changed words: 256 MiB of tables and code


_MOST = {
    "change_count": layout.MAX_CHANGES,
    "cell_count": layout.MAX_SLOTS,
    "site_count": layout.MAX_SITES,
    "counter_count": layout.MAX_COUNTERS,
}


class _Fields(dict[str, int]):
    """The fields of an agent. A missing field means that the process has ended."""

    def __missing__(self, name: str) -> int:
        raise NoSuchProcess("the process has ended")


class Resident:
    """The agent at `base`. Its fields are fields of `struct sosc_inside`, read by `look`.

    `taken_patches` are the indices of the patches that are taken out together with everything
    else. It is empty by default, and None means all. `is_held` is set until `let_go` if soscope
    continues to use the agent, so that no other soscope begins. `text_size` is the number of
    bytes of code in front of the trampolines.
    """

    def __init__(self, memory: RemoteMemory, base: int) -> None:
        self._memory = memory
        self.base = base
        self.fields = _Fields()
        self.is_held = False
        self._plan: UndoPlan | None = None
        self._standing: frozenset[int] = frozenset()  # indices of patches in place
        self._staying = 0  # changes that stay with the patches
        self.taken_patches: frozenset[int] | None = frozenset()
        try:
            image = ElfImage.from_memory(memory, base)
            self.build_id = image.build_id
            sizes = [each.memsz for each in image.segments if not each.vaddr]
            self.text_size = min(max(sizes, default=0), layout.BLOB_TEXT_MAX)
        except FormatError:
            self.build_id = b""
            self.text_size = 0
        self.look()

    def look(self) -> None:
        """Read its fields again."""
        data = self._memory.read(self.base + layout.BLOB_DATA, layout.INSIDE.size)
        if len(data) == layout.INSIDE.size:
            values = layout.INSIDE.struct.unpack(data)
            self.fields = _Fields(zip(layout.INSIDE.fields, values, strict=True))
            for name, most in _MOST.items():  # the process may have written any value there
                self.fields[name] = min(self.fields[name], most)
        self._standing = frozenset()
        self._staying = 0
        if self.fields.get("change_count") and self.is_known:
            self._standing = frozenset(self.patches().standing_places())
        if self._standing:
            self._staying = count_staying(self.journal(), self._standing)

    @property
    def is_known(self) -> bool:
        """Return whether the agent has this version of the wire protocol."""
        return (
            self.fields.get("wire_version") == layout.WIRE_VERSION
            and self.fields.get("size") == layout.INSIDE.size
        )

    @property
    def stack(self) -> int:
        """The upper end of the memory that the agent keeps as a stack for remote calls."""
        return self.fields["scratch"] + layout.SCRATCH

    @property
    def lendable(self) -> tuple[int, int]:
        """Address and size of memory that the agent keeps for time-outs (`Threads.lend`)."""
        return self.fields["scratch"], layout.SCRATCH - _STACK

    @property
    def life(self) -> tuple[int, int, int]:
        """Its address, how often it has been started, and the pid of its owner, or 0."""
        return self.base, self.fields["sessions"] if self.is_known else 0, self.owner

    @property
    def is_hooked(self) -> bool:
        """Return whether words of the process are changed, other than by patches that stay."""
        return bool(self.fields.get("change_count", 0) > self._staying)

    @property
    def has_patches(self) -> bool:
        """Return whether patches are in place."""
        return bool(self._standing)

    def patches(self) -> PatchTable:
        """Read the agent's table of patches."""
        at = self.fields["patches"]
        size = int.from_bytes(self._memory.read(at, 4), "little") if at else 0
        return patches.read(self._memory.read(at, min(size, layout.PATCHES_SIZE)) if size else b"")

    def write_patches(self, table: PatchTable) -> None:
        """Replace the table of patches. Slots are not changed by that."""
        self._memory.write(self.fields["patches"], table.pack())

    def words_of(self, patches: Iterable[int]) -> set[int]:
        """Return the addresses of the slots that these patches have changed."""
        journal, chosen = array("Q", self.journal()), frozenset(patches)
        return {
            addr
            for addr, rest in zip(journal[::4], journal[3::4], strict=True)
            if addr and rest >> 8 & layout.CHANGE_STANDS and rest >> 16 & 0xFFFF in chosen
        }

    def leads_into(self, low: int, high: int) -> bool:
        """Return whether a slot that a patch has changed leads to an address in [low, high)."""
        journal = array("Q", self.journal())
        return any(
            low <= after < high and addr and self._memory.word(addr) == after
            for addr, after, rest in zip(journal[::4], journal[2::4], journal[3::4], strict=True)
            if rest >> 8 & layout.CHANGE_STANDS
        )

    def end_patch(self, index: int) -> None:
        """Stop hooking further slots for patch `index`."""
        at = self.fields["patches"] + layout.PATCHES.size + index * layout.PATCH.size
        self._memory.write(at + layout.PATCH.offset("function"), bytes(8))

    def loader_before(self, function: int, saved: bytes) -> bytes:
        """Return the bytes of the loader's function before patches changed its first word."""
        journal = array("Q", self.journal())
        for at in range(0, len(journal), 4):
            addr, before, after, rest = journal[at : at + 4]
            if (
                addr == function
                and rest >> 8 & layout.CHANGE_LOADER
                and after.to_bytes(8, "little") == saved[:8]
            ):
                return before.to_bytes(8, "little") + saved[8:]
        return saved

    @property
    def owner(self) -> int:
        """The pid of the soscope that reads the agent's records, 0 if that has ended.

        The process may have written any pid there. So a pid counts only if that process has the
        shared file, or the memory of this process, open.
        """
        at = self.fields.get("control", 0)
        data = self._memory.read(at, layout.CONTROL.size) if at else b""
        if len(data) < layout.CONTROL.size:
            return 0

        def field(name: str) -> int:
            offset, size, _ = layout.CONTROL.fields[name]
            return int.from_bytes(data[offset : offset + size], "little")

        pid, start = field("owner_pid"), field("owner_start")
        if field("magic") != layout.MAGIC or not pid:
            return 0
        try:
            stat = status.read_stat(pid)
        except SoscopeError:
            return 0
        is_alive = stat.start == start and stat.state not in "ZX"
        return pid if is_alive and (pid == os.getpid() or self._is_open_in(pid, at)) else 0

    def _is_open_in(self, pid: int, at: int) -> bool:
        """Return whether a process has the target's memory open, or the file mapped there.

        Return True, too, if its descriptors may not be read.
        """
        tid = self._memory.tid
        memory = {f"/proc/{each}/mem" for each in {tid, *status.threads(tid)}}
        try:
            inodes = {each.inode for each in maps.read(tid) if each.start <= at < each.end} - {0}
            for entry in os.scandir(f"/proc/{pid}/fd"):
                try:
                    if os.readlink(entry.path) in memory or os.stat(entry.path).st_ino in inodes:
                        return True
                except FileNotFoundError:
                    pass  # the descriptor was closed meanwhile
        except PermissionError:
            return True
        except OSError:
            pass  # one of the processes has ended
        return False

    def journal(self) -> bytes:
        """Return the journal of its changes: an array of `struct sosc_change`."""
        count = self.fields["change_count"]
        return self._memory.read(self.fields["changes"], count * layout.CHANGE.size)

    def prepare(self) -> UndoPlan:
        """Plan what must be undone, if that is not planned yet, before the threads are stopped.

        Raises Refused if the journal has more changes than an agent makes.
        """
        self.look()
        journal = self.journal()
        if self._plan is None or self._plan.journal != journal:
            count = len({addr >> 12 for addr in array("Q", journal)[::4]})
            if count > _MOST_PAGES:
                raise Refused(
                    f"it says that {count:,} pages of its memory are changed, which no agent does"
                )
            taken = self._standing if self.taken_patches is None else self.taken_patches
            cells = self.fields["cell_count"]
            self._plan = UndoPlan(journal, self.base, cells, self._standing - taken)
        return self._plan

    @property
    def is_prepared(self) -> bool:
        """Return whether nothing has changed since `prepare`."""
        return self._plan is not None and self._plan.journal == self.journal()

    def holds(self, addr: int) -> bool:
        """Return whether an address is in the agent's code or trampolines."""
        return 0 <= addr - self.base < layout.BLOB_DATA

    def leads_on(self, addr: int) -> bool:
        """Return whether calls of an address continue at the address in its cell.

        Such addresses are entry trampolines and counters. The cell is BLOB_DISTANCE behind them.
        """
        at = addr - self.base
        return (
            0 <= at - layout.BLOB_ENTRIES < layout.MAX_SLOTS * _ENTRY_BYTES
            or 0 <= at - layout.BLOB_COUNTERS < layout.MAX_COUNTERS * _COUNTER_BYTES
        )

    # ---- taking the agent out ----

    def stop(self) -> None:
        """Make the agent record nothing more, and hook no image that is loaded from now on.

        No thread has to be stopped for that.
        """
        stop = layout.COMMAND_STOP.to_bytes(4, "little")
        self._memory.write(self.fields["control"] + layout.CONTROL.offset("command"), stop)

    def take_back(self, taken: Taken, seconds: float) -> bool:
        """Restore changed words that still have the agent's value, for some seconds.

        Words by which unwinders ask the agent are not restored. All threads are stopped and the
        loader is idle. Returns whether all words were handled. If not, another call does the
        rest. Raises OSError if memory cannot be written. Words that were restored stay so.
        """
        plan = self.prepare()
        taken.kept = plan.asked_count
        end = time.monotonic() + seconds
        while plan.pages:
            plan.pages[-1].restore(self._memory, taken)
            plan.pages.pop()
            if time.monotonic() > end:
                break
        return not plan.pages

    def let_unwinders_go(self, taken: Taken) -> None:
        """Restore the words by which unwinders ask the agent, as `take_back` does for others."""
        for page in self.prepare().asked:
            page.restore(self._memory, taken)
        taken.kept = 0

    @property
    def counts_objects(self) -> bool:
        """Return whether it counts an interpreter's objects, which needs no session to go on."""
        return self._memory.read(self.fields["counts"], 1) == b"\1"

    def stubs(self) -> list[int]:
        """Return the addresses of the agent's code pages near images, outside of its own range."""
        data = self._memory.read(self.fields["stubs"], layout.STUBS_MOST * 8)
        return [word for word in array("Q", data[: len(data) & -8]) if word]

    def quiet(self) -> None:
        """Make trampolines whose address may still be in use only pass calls on.

        Handlers that still see calls record nothing.
        """
        fields = self.fields
        is_its_own = 0 <= fields["quiet"] - self.base < layout.BLOB_SIZE
        if is_its_own and not self._staying and not self.counts_objects:
            self._memory.write(fields["quiet"], b"\1")
        count = fields["cell_count"]
        cells = array("Q", self._memory.read(fields["cells"], 16 * count))
        if len(cells) == 2 * count:
            cells[::2] = array("Q", [fields["plain_jump"]]) * count
            self._memory.write(fields["cells"], cells.tobytes())
        last = layout.SITES_A_PAGE - 1
        for index in range(last, fields["site_count"] + layout.SITES_A_PAGE, layout.SITES_A_PAGE):
            at = fields["sitedata"] + index * _SITE_BYTES
            if index < layout.MAX_SITES and self._memory.word(at):
                self._memory.write(at, fields["plain_exit"].to_bytes(8, "little"))
        self._quiet_counters()

    def _quiet_counters(self) -> None:
        """Make counters pass all calls on to the handlers of their cells."""
        at = self.fields["counterdata"]
        count = self.fields["counter_count"]
        words = array("Q", self._memory.read(at, _COUNTER_BYTES * count))
        if len(words) != count * _COUNTER_BYTES // 8:
            return  # the memory is gone, and no thread counts
        for word in _COUNTER_RETURNS:
            words[word :: _COUNTER_BYTES // 8] = array("Q", bytes(8 * count))
        self._memory.write(at, words.tobytes())

    def done(self) -> None:
        """Write that only patches are left as changes, and that the agent has no owner."""
        kept = self.prepare().kept
        if kept:
            self._memory.write(self.fields["changes"], kept)
        for field, value in (("change_count", len(kept) // layout.CHANGE.size), ("waiting", 0)):
            at = self.base + layout.BLOB_DATA + layout.INSIDE.offset(field)
            self._memory.write(at, value.to_bytes(8, "little"))
        self.disown()

    def own(self, pid: int) -> None:
        """Write that soscope `pid` works on it until `let_go`, so that no other one begins.

        All threads are stopped. Raises NoSuchProcess.
        """
        start = status.read_stat(pid).start
        control = self.fields["control"]
        for field, value, size in (("owner_start", start, 8), ("owner_pid", pid, 4)):
            at = control + layout.CONTROL.offset(field)
            self._memory.write(at, value.to_bytes(size, "little"))
        self.hold()

    def hold(self) -> None:
        """Keep the agent for the soscope that owns it, until `let_go`."""
        self.is_held = True

    def let_go(self) -> None:
        """End what `own` or `hold` has begun. Raises OSError."""
        if self.is_held:
            self.is_held = False
            self.disown()

    def disown(self) -> None:
        """Write that no soscope reads the agent's records, unless the agent is held for one."""
        if self.is_held:
            self.look()
            return
        control = self.fields["control"]
        for field, size in (("owner_pid", 4), ("owner_start", 8)):
            self._memory.write(control + layout.CONTROL.offset(field), bytes(size))
        self.look()

    def is_return(self, word: int) -> bool:
        """Return whether a word is a return address into a return trampoline."""
        at = word - _RETURN_AT - self.base - layout.BLOB_SITES
        return 0 <= at < _SITES_END - layout.BLOB_SITES and at % _SITE_BYTES == 0

    def return_of(self, word: int) -> int:
        """Return the caller's original return address for an address in a return trampoline."""
        index = (word - _RETURN_AT - self.base - layout.BLOB_SITES) // _SITE_BYTES
        return self._memory.word(self.fields["sitedata"] + index * _SITE_BYTES)


def find(memory: RemoteMemory, mappings: list[maps.Mapping]) -> list[Resident]:
    """Return the agents in a process. There are several if an older soscope has left its own."""
    residents = []
    magic = layout.INSIDE_MAGIC.to_bytes(8, "little")
    for mapping in mappings:
        if mapping.flags[2] != "x" or mapping.offset or mapping.start + layout.BLOB_DATA >> 47:
            continue
        if memory.read(mapping.start + layout.BLOB_DATA, 8) == magic:
            residents.append(Resident(memory, mapping.start))
    return residents


# Detect threads that are unwinding their stack, so that return addresses must not change.
#
# An unwinder that has come to a return trampoline has found its unwind rule, and then reads the
# return address from the stack again (libgcc: uw_frame_state_for, then uw_update_context). It must
# be the same. An exception that is under way while a destructor runs does not matter: the unwinder
# begins again, and personality routines look for the handler again.
#
# The unwinders are the images for which the agent answers questions about its trampolines. A thread
# may be in one if its stack has a word that leads there. Remains of earlier unwinding look the
# same. But an unwinder never waits, so a thread that stays at one place for long is not in one.

_RAISE = "_Unwind_RaiseException"
_PREFIX = "_Unwind_"
_SMALL = 1 << 20  # bytes of code of a library that is only an unwinder
_LONG = 30  # stops at which a thread is at the same place


Range = tuple[int, int]


def words_between(data: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, value) of the aligned 8-byte words in [low, high).

    All of them have nearly the same upper five bytes, so memory is searched for these bytes.
    """
    for upper in range(low >> 24, (high - 1 >> 24) + 1):
        pattern = upper.to_bytes(5, "little")
        at = data.find(pattern, 3)
        while at >= 0:
            if at % 8 == 3:
                word = int.from_bytes(data[at - 3 : at + 5], "little")
                if low <= word < high:
                    yield at - 3, word
            at = data.find(pattern, at + 1)


class Unwinders:
    """The code of the unwinders in a process, and the threads that may be in it."""

    __slots__ = ("_seen", "ranges")

    def __init__(self, memory: RemoteMemory, mappings: list[Mapping], asking: list[int]) -> None:
        """Find the unwinders of the images that have slots at the addresses `asking`."""
        self.ranges: list[Range] = []
        self._seen: dict[int, tuple[int, int, int]] = {}  # tid -> (sp, pc, how often)
        around = {maps.containing(mappings, addr) for addr in asking}
        for path in {mapping.path for mapping in around if mapping is not None}:
            own = [mapping for mapping in mappings if mapping.path == path]
            self.ranges += _ranges(memory, own)

    def hold(self, tid: int, registers: arch.Registers, stack: bytes) -> bool:
        """Return whether a thread with this stack may be in an unwinder."""
        if not any(
            start <= registers.pc < end or next(words_between(stack, start, end), None)
            for start, end in self.ranges
        ):
            return False
        place = registers.sp, registers.pc
        sp, pc, count = self._seen.get(tid, (*place, 0))
        count = count + 1 if (sp, pc) == place else 0
        self._seen[tid] = (*place, count)
        return count < _LONG


def _ranges(memory: RemoteMemory, mappings: list[Mapping]) -> list[Range]:
    """Return the code ranges of one image's unwinder, all its code if they are not known."""
    code = [(mapping.start, mapping.end) for mapping in mappings if mapping.flags[2] == "x"]
    try:
        image = ElfImage.from_memory(memory, mappings[0].start)
        is_known = image.symbol(_RAISE) is not None
        if not is_known and any(
            function.name.startswith(_PREFIX) for function in image.undefined_functions()
        ):
            return []  # the image uses another image's unwinder
        if not is_known or sum(end - start for start, end in code) <= _SMALL:
            return code
        functions = [
            symbol
            for symbol in image.symbols
            if symbol.name.startswith(_PREFIX) and symbol.is_defined
        ]
        addrs = [(image.locate(function.value), function.size) for function in functions]
    except FormatError:
        return code
    return [(min(addr for addr, _ in addrs), max(addr + size for addr, size in addrs))]


# Find return addresses that lead through the agent, on stacks and elsewhere in memory.
#
# A hooked call that has not returned yet has the address of a return trampoline in place of its
# caller's return address. That is the only difference. If the caller's return address is restored,
# the call is as if it had never been hooked. Stacks that no thread is on (coroutines) are not
# changed. So unwinders can do without the agent only if these have no such addresses.

_RED_ZONE = 128
_MOST_STACK = 256 << 20
_PIECE = 4 << 20
_MOST_MEMORY = 1 << 30  # bytes that are searched for coroutines


def _sites(agent: Resident) -> tuple[int, int]:
    return agent.base + layout.BLOB_SITES, agent.base + layout.BLOB_COUNTERS


def put_back(
    memory: RemoteMemory, agent: Resident, threads: Threads, unwinders: Unwinders
) -> tuple[int, bool]:
    """Restore the callers' return addresses on the stacks of all stopped threads.

    Threads that may be in an unwinder, or are just returning, are not changed. Returns the number
    of restored addresses, and whether there is such a thread.
    """
    done, held = 0, False
    mappings = maps.read(next(iter(threads.stopped), threads.pid))
    low, high = _sites(agent)
    for tid, registers in threads.registers().items():
        start = registers.sp - _RED_ZONE & -8
        stack = maps.containing(mappings, registers.sp)
        data = memory.read(start, min(stack.end - start, _MOST_STACK)) if stack else b""
        places = [
            start + offset
            for offset, word in words_between(data, low, high)
            if agent.is_return(word)
        ]
        if low <= registers.pc < high:
            held = True
            continue
        # Outside of unwinders such a register value is left over from earlier.
        if not places and not any(low <= word < high for word in registers.words()):
            continue
        if unwinders.hold(tid, registers, data):
            held = True
            continue
        done += put_back_at(memory, agent, places)
    return done, held


def put_back_at(memory: RemoteMemory, agent: Resident, places: list[int]) -> int:
    """Restore the words at these addresses, if they are still the agent's return addresses.

    Return their number.
    """
    done = 0
    for place in places:
        word = int.from_bytes(memory.read(place, 8), "little")
        if agent.is_return(word) and (caller := agent.return_of(word)):
            memory.write(place, caller.to_bytes(8, "little"))
            done += 1
    return done


def find_interrupted(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find contexts that a signal has interrupted in the agent's code or in one of its stubs.

    They are where the kernel has put them (`struct sigcontext`), or where code has copied them.
    This takes some time, and no thread has to be stopped for it. Returns addresses, or None if
    there is too much memory to search.
    """
    spans = [(agent.base, agent.base + layout.BLOB_ENTRIES + layout.BLOB_DISTANCE)]
    spans += [(at, at + layout.PAGE) for at in agent.stubs()]
    return _find(memory, agent, pid, spans, lambda _, behind: arch.is_behind_interrupted_pc(behind))


def find_anywhere(memory: RemoteMemory, agent: Resident, pid: int) -> list[int] | None:
    """Find the agent's return addresses in all private writable memory of the process.

    This takes some time, and no thread has to be stopped for it. Returns addresses, or None if
    there is too much memory to search. Untouched memory is skipped, because thousands of stacks
    have gigabytes of zeros.
    """
    if agent.fields["site_count"] <= 1:
        return []
    return _find(memory, agent, pid, [_sites(agent)], lambda word, _: agent.is_return(word))


def _find(
    memory: RemoteMemory,
    agent: Resident,
    pid: int,
    spans: list[tuple[int, int]],
    is_wanted: Callable[[int, bytes], bool],
) -> list[int] | None:
    """Find words in `spans` that `is_wanted` accepts, by the word and the bytes behind it."""
    places: list[int] = []
    left = _MOST_MEMORY
    for mapping in maps.read(pid):
        if mapping.flags[1] != "w" or mapping.flags[3] != "p":
            continue
        if agent.base <= mapping.start < agent.base + layout.BLOB_SIZE:
            continue
        for start, end in pagemap.kept(pid, mapping.start, mapping.end):
            left -= end - start
            if left < 0:
                return None
            for at in range(start, end, _PIECE):
                data = memory.read(at, min(_PIECE, end - at))
                places += [
                    at + offset
                    for span in spans
                    for offset, word in words_between(data, *span)
                    if is_wanted(word, data[offset + 8 : offset + 8 + arch.CONTEXT_BEHIND])
                ]
    return places
