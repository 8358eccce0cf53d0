# SPDX-License-Identifier: Apache-2.0
"""The control block: the memory that soscope and the agent share, and its layout.

Words are read and written through memoryviews of native integers, never through `struct`. Such an
access is a single load or store. Threads of the target may read a word at any time, and must not
see a half-written one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

from soscope.errors import FormatError, NoSharedMemory
from soscope.model.call import Stats
from soscope.model.image import TracedImage, TracedSlot
from soscope.wire import layout, records, sharedfile
from soscope.wire import plan as laidout
from soscope.wire.plan import CountArrays, LaidOut, Plan
from soscope.wire.sharedfile import PlanFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterable


# Waking threads that wait for a word of a control page.

_WAKE = 1
_libraries: list[ctypes.CDLL] = []  # libc, kept: to find it takes a while


def wake(mapping: mmap.mmap, field: str, most: int) -> None:
    """Wake `most` of the threads that wait for a futex word of a mapped control page."""
    from soscope.model.arch import arch_here

    here = arch_here()
    number = None if here is None else here.calls.get("futex")
    if number is None or sys.maxsize < 1 << 32:
        return  # waiting threads look again every 100 ms anyway
    if not _libraries:
        _libraries.append(ctypes.CDLL(None))
    word = ctypes.c_uint32.from_buffer(mapping, layout.CONTROL.offset(field))
    _libraries[0].syscall(number, ctypes.byref(word), _WAKE, most)
    del word  # a reference would keep the mapping from being closed


_KEPT = ("plans", "flags", "string_limit", "chunks", "spare_chunks", "count_arrays")
_OWN = 6  # in a row of the plan: offset of the instrument's memory; its size
_GIVEN = 8  # in a row of the plan: offset and size of the instrument's data
_PREFAULT = 1 << 20  # bytes of the first chunks, so that the first calls cause no page faults
_MADV_POPULATE_WRITE = 23  # Linux 5.14
_MADV_REMOVE = 9
_MOST_PROGRAMS = 1 << 32  # more programs than a machine executes in a session
_EACH_CALL_NS = 1  # the least time in which a call can be counted
_MOST_COST = 1 << 20  # ticks of a hook: more than on the slowest machine
# Sections of the plan's file: soscope writes them, and the agent only reads them.
_OF_PLAN = (layout.SEC_PATTERNS, layout.SEC_RULES, layout.SEC_FUNCTIONS, layout.SEC_PATCHES)


class _Word:
    """A field of the control page. It is an integer of 4 or 8 bytes."""

    __slots__ = ("_index", "_mask", "_view")

    def __init__(self, name: str) -> None:
        offset, size, code = layout.CONTROL.fields[name]
        self._index = offset // size
        self._view = {"Q": "_u64", "I": "_u32", "i": "_i32"}[code]
        self._mask = -1 if code == "i" else (1 << 8 * size) - 1

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        return int(getattr(block, self._view)[self._index])

    def __set__(self, block: ControlBlock, value: int) -> None:
        # `value` may be one more than a number that the target has written, and then is too large
        getattr(block, self._view)[self._index] = value & self._mask


class _Planned:
    """A field of the plan's first page, with the value that it had when the plan was filled."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        return block.kept[self._name]


class _Count(_Word):
    """The number of entries of a table that the agent has used. It is cut to `most`."""

    __slots__ = ("_most",)

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self._most = most

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        return min(super().__get__(block), self._most)


class _Once(_Word):
    """A number that the agent writes once, at its start. `keep_written` keeps its value."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        written = block.written.get(self._name)
        return super().__get__(block) if written is None else written


class _SharedSum(_Word):
    """A number that threads add to. Once it is larger than it can be, it reads as 0.

    If `per_ns` is 0, the number counts actions, and each action adds at most `many` to it.
    Otherwise it is a time in a unit of which a nanosecond has `per_ns`.
    """

    __slots__ = ("_many", "_name", "_per_ns")

    def __init__(self, name: str, per_ns: int = 0, many: int = 1) -> None:
        super().__init__(name)
        self._name = name
        self._per_ns = per_ns
        self._many = many

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        value = super().__get__(block)
        if self._per_ns:
            return block.bounds.time(self._name, value, self._per_ns)
        return block.bounds.count(self._name, value, self._many)


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Bounds:
    """The largest sums that threads can have added up in the time since a block was made.

    A thread cannot wait for longer than the session lasts, and a processor does one thing after
    the other. If a sum is larger than that, the program itself has overwritten it. `damaged` has
    the names of such sums. The bounds assume that a process has at most as many threads as the
    agent has room for. The clock includes the time in which the machine is suspended, because the
    counters of a processor may go on then.
    """

    __slots__ = ("_processors", "_seen", "_since_ns", "damaged")

    _THREADS = 1 << 13
    _LATE_NS = 1_000_000_000  # a block may be this much older than its Bounds
    _EACH_NS = 8  # the least time in which a processor can count a lost call
    _AT_ONCE = 1 << 20  # lost calls that may be counted in one step

    TICKS_PER_NS = 10  # at most

    def __init__(self) -> None:
        self.damaged: set[str] = set()
        self._since_ns = _now_ns()
        self._seen: dict[str, tuple[int, int]] = {}  # name -> (when last read, value)
        self._processors = os.cpu_count() or 1

    @property
    def _passed_ns(self) -> int:
        return _now_ns() - self._since_ns + self._LATE_NS

    def ticks(self) -> int:
        """Return an upper bound of the ticks that a call can have taken by now."""
        return self._passed_ns * self.TICKS_PER_NS

    def calls(self, each_ns: int) -> int:
        """Return an upper bound of the calls until now if each takes at least `each_ns`."""
        return self._passed_ns * self._processors // each_ns

    def time(self, name: str, value: int, per_ns: int) -> int:
        """Return the time that all threads have waited or worked, 0 if it is impossibly long."""
        if value > self._passed_ns * self._THREADS * per_ns:
            self.damaged.add(name)
        return 0 if name in self.damaged else value

    def count(self, name: str, value: int, many: int = 1) -> int:
        """Return a count, or 0 if it has grown more since the last look than is possible.

        At most `many` are counted in one step.
        """
        if value:
            now = _now_ns()
            since, before = self._seen.get(name, (self._since_ns, 0))
            most = self._AT_ONCE + (now - since) * self._processors // self._EACH_NS
            if value - before > most * many:
                self.damaged.add(name)
            self._seen[name] = now, value
        return 0 if name in self.damaged else value


class Execs:
    """The page in which children that are not followed count the programs that they execute.

    The page has a memory file of its own, `fd`. A child keeps this page mapped when it unmaps the
    control block, and may go on with other rights. The content of the page is therefore printed
    and used for nothing else.
    """

    __slots__ = ("_file",)

    def __init__(self, descriptor: int) -> None:
        """Map the file `descriptor`, which belongs to the page from here on.

        If that fails, close the file and raise NoSharedMemory.
        """
        try:
            self._file = sharedfile.Mapped(descriptor, layout.EXECS.size)
        except (OSError, MemoryError, ValueError) as error:
            os.close(descriptor)
            raise sharedfile.not_mapped(layout.EXECS.size, error) from error

    @classmethod
    def create(cls, descriptor: int | None, *, wanted: bool) -> Execs | None:
        """Return a new page, or None if it is not `wanted`.

        `descriptor` is an empty shared file for the page. If it is None, a file is created. If
        the page is not wanted, the file is closed. Raises NoSharedMemory.
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
        """The descriptor of the file."""
        return self._file.fd

    def read(self) -> tuple[int, list[str]]:
        """Return the number of executed programs, and the names of most of them.

        The children have written the number and the names, and nothing checks them.
        """
        page = self._file.mapping[: layout.EXECS.size]
        count = int.from_bytes(page[:8], "little", signed=True)
        names = {}
        size, first = layout.EXEC.size, layout.EXECS.offset("names")
        for at in range(first, first + size * layout.EXEC_NAMES, size):
            programs, state, name = layout.EXEC.struct.unpack_from(page, at)
            if programs and state == layout.EXEC_NAMED:
                names[os.fsdecode(name.partition(b"\0")[0])] = True
        return min(max(count, 0), _MOST_PROGRAMS), list(names)

    def close(self) -> None:
        """Unmap the page and close its file."""
        self._file.close()


class ControlBlock:
    """A mapped control block. `fd` is its file, `size` its size in bytes, `plan` its plan.

    `target_size` is the number of bytes that the target maps at first, without most of the count
    arrays. The plan has the offsets of all parts. Only this class reads them, and it limits the
    numbers that the agent counts to possible values: `bounds` has the limits of sums, and the
    names of sums that are damaged. Every scalar field of `struct sosc_control` is an attribute
    that can be read and set.
    """

    magic = _Word("magic")
    wire_version = _Word("wire_version")
    control_size = _Word("control_size")
    owner_pid = _Word("owner_pid")
    command = _Word("command")
    owner_start = _Word("owner_start")
    heartbeat = _Word("heartbeat")
    flags = _Word("flags")
    when_full = _Word("when_full")
    state = _Word("state")
    error = _Word("error")
    error_at = _Word("error_at")
    agent_flags = _Word("agent_flags")
    agent_base = _Word("agent_base")
    agent_size = _Word("agent_size")
    tsc_start = _Once("tsc_start")
    realtime_start = _Once("realtime_start")
    monotonic_start = _Once("monotonic_start")
    cost_inner = _Once("cost_inner")
    cost_outer = _Once("cost_outer")
    cost_call = _Once("cost_call")
    image_count = _Count("images", layout.MAX_IMAGES)
    slot_count = _Count("slots", layout.MAX_SLOTS)
    strings_used = _Word("strings")
    counts_used = _Word("counts_used")
    sites = _Count("sites", layout.MAX_SITES)
    loader_hook = _Word("loader_hook")
    ring_seq = _Word("ring_seq")
    ring_waiters = _Word("ring_waiters")
    ring_drained = _Word("ring_drained")
    drained_ns = _Word("drained_ns")
    dropped_exits = _SharedSum("dropped_exits")
    slots_left = _SharedSum("slots_left")
    images_dropped = _SharedSum("images_dropped")
    slots_dropped = _SharedSum("slots_dropped")
    reader_gone = _Word("reader_gone")
    starved = _Word("starved")
    call_site_count = _Count("call_sites", layout.MAX_CALL_SITES)
    move_count = _Count("moves", layout.MAX_MOVES)
    overwritten = _Word("overwritten")
    turn = _Word("turn")
    gates = _Word("gates")
    question = _Word("question")
    unanswered = _SharedSum("unanswered")
    executes = _Word("executes")
    answers = _Word("answers")
    waited_room = _SharedSum("waited_room", 1)
    waited_exec = _SharedSum("waited_exec", 1)
    waited_look = _SharedSum("waited_look", 1)
    took_chunks = _SharedSum("took_chunks", Bounds.TICKS_PER_NS)
    took_images = _SharedSum("took_images", Bounds.TICKS_PER_NS)
    took_asking = _SharedSum("took_asking", Bounds.TICKS_PER_NS)
    works = _SharedSum("works")
    took_works = _SharedSum("took_works", Bounds.TICKS_PER_NS)
    work_units = _SharedSum("work_units", many=layout.CHUNK_SIZE // layout.UNIT)
    stood_still = _SharedSum("stood_still", 1)
    delayed = _SharedSum("delayed", 1)
    delays_over = _SharedSum("delays_over", 1)
    delays_unknown = _SharedSum("delays_unknown")
    executing = _Word("executing")
    plans = _Planned("plans")
    string_limit = _Planned("string_limit")
    chunks = _Planned("chunks")
    spare_chunks = _Planned("spare_chunks")
    count_arrays = _Planned("count_arrays")

    def __init__(self, fd: int, plan: PlanFile) -> None:
        """Map the control block of the shared file `fd`. The block owns the file from here on.

        The block owns `plan` as well, unless other blocks use it, too. If the files are not of
        this wire version, close both and raise FormatError.
        """
        self.plan = plan
        self.size = self.target_size = os.fstat(fd).st_size
        if self.size < layout.PAGE:
            raise FormatError("not a control block: too short", field="size", offset=0)
        self._file = sharedfile.Mapped(fd, self.size)
        self.mapping = self._file.mapping
        self._u8 = memoryview(self.mapping)
        whole = self._u8[: self.size & ~7]
        self._u32 = whole.cast("I")
        self._i32 = whole.cast("i")
        self._u64 = whole.cast("Q")
        whole.release()
        self._states = self._u8[:0]
        self.bounds = Bounds()
        self.written: dict[str, int] = {}
        self._ring = 0
        self._sections: list[tuple[int, int]] = []
        self._plans: list[tuple[int, ...]] = []
        self.kept: dict[str, int] = {}
        # by the number of an instrument: names of functions. True if the tables have the function,
        # False if it was asked about and is unknown
        self.told: dict[int, dict[str, bool]] = {}
        # is called with the program's pid when the images of the program are loaded
        self.when_loaded: Callable[[int], object] | None = None
        self.execs: Execs | None = None  # None if no page counts executed programs
        plan.users += 1
        try:
            if self.magic:
                self._check()
        except FormatError:
            self.close()
            raise

    # ---- life ----

    @property
    def fd(self) -> int:
        """The descriptor of the file."""
        return self._file.fd

    @property
    def descriptors(self) -> list[int]:
        """The descriptors of the files of the block, its plan, and `execs`."""
        return [self.fd, self.plan.fd, *([] if self.execs is None else [self.execs.fd])]

    @classmethod
    def create(cls, plan: Plan, descriptors: tuple[int, ...] | None = None) -> ControlBlock:
        """Lay out a new control block for `plan`. This process owns it.

        `descriptors` are empty shared files for the block, its plan and its page of executed
        programs. Their creator seals the plan. If it is None, create all files, and seal the
        plan. If there is no memory for them, raise NoSharedMemory.
        """
        if len(plan.instruments) > layout.PLANS:
            raise ValueError(f"{len(plan.instruments)} instruments, {layout.PLANS} at most")
        laid = LaidOut(plan)
        theirs, theirs_of_plan, theirs_of_execs = descriptors or (None, None, None)
        if theirs is None:
            descriptor = sharedfile.create(laid.size)
        else:
            descriptor = theirs
            sharedfile.resize(descriptor, laid.size)
        try:
            plan_file = PlanFile.create(laid.plan_size, theirs_of_plan)
        except NoSharedMemory:
            os.close(descriptor)
            raise
        try:
            block = cls(descriptor, plan_file)
        except (OSError, MemoryError) as error:
            os.close(descriptor)
            plan_file.close()
            raise sharedfile.not_mapped(laid.size, error) from error
        block.target_size = laid.target_size
        laid.fill(plan_file)
        block._fill(plan)
        try:
            block.execs = Execs.create(theirs_of_execs, wanted=plan.counts_execs)
        except NoSharedMemory:
            block.close()
            raise
        if descriptors is None:
            try:
                plan_file.seal()
            except OSError as error:
                block.close()
                reason = (error.strerror or "").lower()
                raise sharedfile.refusal("seal", laid.size, reason, error.errno) from error
        return block

    def _fill(self, plan: Plan) -> None:
        self.keep_layout()
        self.wire_version = layout.WIRE_VERSION
        self.control_size = layout.CONTROL.size
        at, size, _ = layout.CONTROL.fields["build_id"]
        self._u8[at : at + size] = plan.build_id[:size].ljust(size, b"\0")
        self.flags = plan.flags
        self.when_full = plan.when_full
        self.strings_used = 1  # offset 0 is the empty name
        for instrument, row in zip(plan.instruments, self._plans, strict=True):
            start = row[_OWN]
            self._u8[start : start + len(instrument.own)] = instrument.own
        for section, content in (
            (layout.SEC_PATCHED, plan.patches),
            (layout.SEC_GATES, b"\x01" if plan.gate else b""),
        ):
            start, _ = self.section(section)
            self._u8[start : start + len(content)] = content
        self.take_over()
        self.prefault(_PREFAULT)
        self.magic = layout.MAGIC

    def take_over(self) -> None:
        """Make this process the owner. The agent waits for chunks only while the owner lives."""
        self.owner_pid = os.getpid()
        try:
            with open("/proc/self/stat", "rb") as stat:
                # The name in parentheses may contain blanks and parentheses. Field 22 is counted
                # from its end.
                self.owner_start = int(stat.read().rpartition(b")")[2].split()[19])
        except OSError:
            self.owner_start = 0  # unknown: there is no /proc, or no free descriptor

    def _check(self) -> None:
        what, structure = "control block", layout.CONTROL

        def check(field: str, *, holds: bool) -> None:
            if not holds:
                at = structure.offset(field)
                text = f"not a {what} of this soscope: {field} at offset {at}"
                raise FormatError(text, field=field, offset=at)

        check("magic", holds=self.magic == layout.MAGIC)
        check("wire_version", holds=self.wire_version == layout.WIRE_VERSION)
        check("control_size", holds=self.control_size == layout.CONTROL.size)
        what, structure = "plan", layout.PLAN_HEAD
        check("magic", holds=self.plan.size >= layout.PAGE)
        check("magic", holds=self.plan.field("magic") == layout.PLAN_MAGIC)
        check("head_size", holds=self.plan.field("head_size") == layout.PLAN_HEAD.size)
        self.keep_layout()
        for section, (offset, size) in enumerate(self._sections):
            room = self.plan.size if section in _OF_PLAN else self.size
            check("section", holds=not offset % 8 and offset + size <= room)
        for row in self._plans:
            check("plan", holds=row[_OWN] + row[_OWN + 1] <= self.size)
        chunks = self.chunks
        check("chunks", holds=self.section(layout.SEC_RING)[1] == chunks * layout.CHUNK_SIZE)
        check("chunks", holds=self.section(layout.SEC_CHUNK_STATES)[1] == chunks * 4)

    def keep_layout(self) -> None:
        """Copy the layout from the plan. On some systems the target can overwrite the plan."""
        head = layout.PLAN_HEAD
        words = memoryview(self.plan.read(head.offset("section"), 16 * layout.SECTIONS)).cast("Q")
        self._sections = list(zip(words[::2], words[1::2], strict=True))
        self.kept = {name: self.plan.field(name) for name in _KEPT}
        rows = self.plan.read(head.offset("plan"), min(self.plans, layout.PLANS) * layout.PLAN.size)
        self._plans = list(layout.PLAN.struct.iter_unpack(rows))
        self._ring = self.section(layout.SEC_RING)[0]
        states, size = self.section(layout.SEC_CHUNK_STATES)
        self._states = self._u8[states : states + size]

    def keep_written(self) -> None:
        """Keep the values that the agent has written once, in case the target changes them.

        If the cost of a hook is impossible, it counts as damaged and reads as 0, which means
        unknown.
        """
        kinds = vars(type(self)).items()
        self.written = {name: getattr(self, name) for name, kind in kinds if type(kind) is _Once}
        for name in ("cost_inner", "cost_outer", "cost_call"):
            if self.written[name] > _MOST_COST:
                self.bounds.damaged.add(name)
                self.written[name] = 0

    def damaged_sums(self) -> set[str]:
        """Return the names of all sums that cannot be right."""
        kinds = vars(type(self)).items()
        _ = self.dropped, [getattr(self, name) for name, kind in kinds if type(kind) is _SharedSum]
        return self.bounds.damaged

    def prefault(self, size: int) -> None:
        """Make the kernel allocate the pages of the first `size` bytes of the ring, if it can."""
        size = min(size, self.chunks * layout.CHUNK_SIZE)
        if size:
            try:
                self.mapping.madvise(_MADV_POPULATE_WRITE, self._ring, size)
            except OSError:
                pass  # old kernel, or no memory: the agent's accesses allocate the pages

    def give_back(self) -> None:
        """Give the memory behind the first page back to the kernel.

        All mappings then read zeros there. Forked children that are still hooked share the block,
        and must not use any of that memory any more. The plan's memory stays, because pages of a
        sealed file cannot be given back.
        """
        self.command = layout.COMMAND_STOP
        try:
            self.mapping.madvise(_MADV_REMOVE, layout.PAGE, self.size - layout.PAGE)
        except OSError:
            pass  # the file cannot do that: its memory is freed when the process ends

    def close(self) -> None:
        """Unmap the block and close its file. All views of the block must have been released.

        If a view is left, raise BufferError. The mapping then lives as long as the view.
        """
        for view in (self._states, self._u32, self._i32, self._u64, self._u8):
            view.release()
        try:
            self._file.close()
        finally:
            self.plan.close()
            if self.execs is not None:
                self.execs.close()

    # ---- results of the agent ----

    def section(self, section: int) -> tuple[int, int]:
        """Return (offset, size) of a section in its file, in bytes."""
        return self._sections[section]

    def view(self, section: int, start: int, end: int) -> memoryview:
        """Return the bytes [start, end) of a section in the block's file.

        The end is cut to the section's size.
        """
        offset, size = self.section(section)
        return self._u8[offset + min(start, size) : offset + min(end, size)]

    @property
    def instruments(self) -> list[int]:
        """The instruments that see the calls: INSTRUMENT_ constants, in the order of the plan."""
        return [plan[0] for plan in self._plans]

    @property
    def words(self) -> memoryview:
        """The whole block as words of 8 bytes."""
        return self._u64

    def own_start(self, instrument: int) -> int:
        """Return the offset of an instrument's own memory in the block, 0 if it has none."""
        for plan in self._plans:
            if plan[0] == instrument:
                return plan[_OWN] if plan[_OWN + 1] else 0
        return 0

    def given(self, instrument: int) -> bytes:
        """Return the data that soscope gave to an instrument, or b"" if it is not in the plan.

        The instrument's own memory began with a copy of the data. The target may have changed the
        copy.
        """
        for plan in self._plans:
            if plan[0] == instrument:
                return self.plan.read(plan[_GIVEN], plan[_GIVEN + 1])
        return b""

    def replace_functions(self, number: int, start: int) -> None:
        """Set the offset of the table of functions of instrument `number` in their section."""
        at = layout.PLAN_HEAD.offset("plan") + number * layout.PLAN.size
        self.plan.write(at + layout.PLAN.offset("functions"), start.to_bytes(4, "little"))
        self.keep_layout()

    def functions_start(self, number: int) -> int:
        """Return the offset of the table of functions of instrument `number` in their section."""
        return self._plans[number][4]

    def own(self, instrument: int) -> memoryview:
        """Return an instrument's own memory, empty if the plan lacks the instrument.

        The view must be released before the block is closed.
        """
        for plan in self._plans:
            if plan[0] == instrument:
                return self._u8[plan[_OWN] : plan[_OWN] + plan[_OWN + 1]]
        return self._u8[:0]

    @property
    def dropped(self) -> tuple[int, ...]:
        """The numbers of lost entries by reason (`layout.DROP_…`).

        A number that is impossible reads as 0.
        """
        at = layout.CONTROL.offset("dropped") // 8
        counts = self._u64[at : at + layout.DROP_KINDS].tolist()
        return tuple(self.bounds.count(f"dropped {kind}", each) for kind, each in enumerate(counts))

    @property
    def build_id(self) -> bytes:
        """The agent's build-id, zero padded to 32 bytes."""
        at, size, _ = layout.CONTROL.fields["build_id"]
        return bytes(self._u8[at : at + size])

    def string(self, offset: int) -> str:
        """Return the name at `offset` in the section of strings. A damaged name may be cut."""
        start, size = self.section(layout.SEC_STRINGS)
        if not 0 < offset < size:
            return ""
        end = self.mapping.find(b"\0", start + offset, start + size)
        if end < 0:
            end = start + offset
        return os.fsdecode(self.mapping[start + offset : end])

    def images(self, process: int) -> list[TracedImage]:
        """Return the images that the agent has finished writing."""
        images = []
        count = self.image_count
        table = self.view(layout.SEC_IMAGES, 0, count * layout.IMAGE.size)
        for index in range(count):
            image = records.image_of(table, index * layout.IMAGE.size, index, process, self.string)
            if image is not None:
                images.append(image)
        return images

    def image_start(self, index: int) -> int:
        """Return the lowest address of the image with this index."""
        at = index * layout.IMAGE.size + layout.IMAGE.offset("start")
        return int.from_bytes(self.view(layout.SEC_IMAGES, at, at + 8), "little")

    def slots(
        self,
        process: int,
        images: list[TracedImage],
        chosen: Iterable[int] | None = None,
        instrument: int | None = None,
    ) -> list[TracedSlot]:
        """Return the slots that the agent has finished writing.

        If `chosen` is given, return only the slots with these indices. There may be tens of
        thousands. If `instrument` is given, return only the slots that this instrument has
        hooked.
        """
        by_index = {image.index: image for image in images}
        names: dict[int, str] = {}

        def string(offset: int) -> str:
            name = names.get(offset)
            if name is None:
                name = names[offset] = self.string(offset)
            return name

        slots = []
        count = self.slot_count
        table = self.view(layout.SEC_SLOTS, 0, count * layout.SLOT.size)
        by = layout.SLOT.offset("instrument")
        for index in range(count) if chosen is None else sorted(chosen):
            if not 0 <= index < count:
                continue
            at = index * layout.SLOT.size
            if instrument is not None and table[at + by] != instrument:
                continue
            slot = records.slot_of(table, at, index, process, string, by_index)
            if slot is not None:
                slots.append(slot)
        return slots

    def refused_slots(self) -> list[int]:
        """Return the indices of slots that were chosen but could not be hooked."""
        return [index for index, refusal in enumerate(self._slot_column("refusal")) if refusal]

    def partial_slots(self) -> list[int]:
        """Return the indices of slots whose counts are a lower bound."""
        column = self._slot_column("flags")
        return [index for index, flags in enumerate(column) if flags & layout.SLOT_PARTIAL]

    def _slot_column(self, field: str) -> list[int]:
        """Return a field of one byte of each slot."""
        table = self.view(layout.SEC_SLOTS, 0, self.slot_count * layout.SLOT.size)
        return table[layout.SLOT.offset(field) :: layout.SLOT.size].tolist()

    def slots_of(self, symbols: Iterable[str]) -> list[int]:
        """Return the indices of slots of functions with one of these names."""
        start, size = self.section(layout.SEC_STRINGS)
        end = start + min(self.strings_used, size)
        offsets = set()
        for symbol in symbols:
            name = b"\0" + os.fsencode(symbol) + b"\0"
            at = self.mapping.find(name, start, end)
            while at >= 0:
                offsets.add(at + 1 - start)
                at = self.mapping.find(name, at + 1, end)
        if not offsets:
            return []
        width, first = layout.SLOT.size // 4, self.section(layout.SEC_SLOTS)[0] // 4
        first += layout.SLOT.offset("symbol") // 4
        column = self._u32[first : first + self.slot_count * width : width].tolist()
        return [index for index, offset in enumerate(column) if offset in offsets]

    def counts(self) -> dict[int, int]:
        """Return {slot index: number of calls} as COUNT has counted them. See `laidout`."""
        return laidout.counts(self._count_arrays())

    def stats(self) -> Stats:
        """Return the sums of STATS by slot index. See `laidout`."""
        return laidout.stats(self._count_arrays())

    def spoiled_counts(self) -> int:
        """Return the number of counters that cannot be right. See `laidout`."""
        kinds = self.instruments
        if layout.INSTRUMENT_STATS in kinds:
            return laidout.spoiled(self._count_arrays(), layout.STATS.size // 8)
        is_counted = layout.INSTRUMENT_COUNT in kinds
        return laidout.spoiled(self._count_arrays(), 1) if is_counted else 0

    def _count_arrays(self) -> CountArrays:
        return CountArrays(
            self.fd,
            self._u64,
            *self.section(layout.SEC_COUNTS),
            arrays=self.count_arrays,
            used=min(self.counts_used + 1, self.count_arrays),
            slots=self.slot_count,
            call_sites=self.call_site_count,
            most_calls=self.bounds.calls(_EACH_CALL_NS),
            most_ticks=self.bounds.ticks(),
        )

    def rules_matched(self, instrument: int) -> list[int]:
        """Return the number of slots (or images) that each rule of an instrument has matched."""
        _, _, first, count, *_ = self._plans[self.instruments.index(instrument)]
        at, size = self.section(layout.SEC_MATCHES)
        end = min(first + count, size // 4)
        return self._u32[at // 4 + first : at // 4 + end].tolist()

    # ---- the ring ----

    def chunk(self, index: int) -> memoryview:
        """Return the CHUNK_SIZE bytes of chunk `index`."""
        start = self._ring + index * layout.CHUNK_SIZE
        return self._u8[start : start + layout.CHUNK_SIZE]

    def chunk_states(self) -> bytes:
        """Return the current state of each chunk: CHUNK_FREE, CHUNK_OWNED or CHUNK_FULL."""
        return self._states.tobytes()[::4]

    def set_chunk_state(self, index: int, state: int) -> None:
        """Change the state of chunk `index`. Its present state must allow this process to do so."""
        self._states[index * 4] = state

    @property
    def ring(self) -> memoryview:
        """The bytes of the whole ring."""
        return self._u8[self._ring : self._ring + self.chunks * layout.CHUNK_SIZE]

    def free_chunks(self, indices: list[int]) -> None:
        """Give chunks back to the threads that write, and wake threads that wait for a chunk.

        The sequence numbers of the chunks are set to 0. A reader skips such a chunk until its
        next owner has cleared it.
        """
        if not indices:
            return
        first, count = indices[0], len(indices)
        if indices == [*range(first, first + count)]:  # fast: threads write meanwhile
            at, step = (self._ring + first * layout.CHUNK_SIZE) // 8, layout.CHUNK_SIZE // 8
            self._u64[at : at + count * step : step] = memoryview(bytes(8 * count)).cast("Q")
            free = bytes([layout.CHUNK_FREE]) * count
            self._states[4 * first : 4 * (first + count) : 4] = free
        else:
            for index in indices:
                self._u64[(self._ring + index * layout.CHUNK_SIZE) // 8] = 0
                self.set_chunk_state(index, layout.CHUNK_FREE)
        # A waiting thread adds up the time for which it has waited since the heartbeat last
        # changed.
        self.heartbeat += 1
        self.drained_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        self.ring_drained = (self.ring_drained + 1) & 0xFFFF_FFFF
        if self.ring_waiters:
            wake(self.mapping, "ring_drained", count)  # one for each chunk

    def answer(self) -> None:
        """Let the thread that has asked a question go on. The tables now have all that is known."""
        self.heartbeat += 1
        self.question = 0
        self.answers = (self.answers + 1) & 0xFFFF_FFFF
        wake(self.mapping, "answers", layout.MAX_IMAGES)


# Finds words of a control block that the target's program has overwritten.
#
# Each word is written either by the agent or by soscope, by fixed rules. A word that soscope writes
# at the beginning does not change. A word that the agent writes at its start does not change
# either. A counter of the agent never decreases.

_LAID_OUT = ("magic", "wire_version", "control_size", "build_id")
_WRITTEN_ONCE = (
    "error",
    "error_at",
    "agent_base",
    "agent_size",
    "tsc_start",
    "realtime_start",
    "monotonic_start",
    "cost_inner",
    "cost_outer",
    "cost_call",
)
_COUNTED = (
    "images",
    "slots",
    "strings",
    "counts_used",
    "ring_seq",
    "dropped_exits",
    "images_dropped",
    "slots_dropped",
    "call_sites",
    "moves",
    "unanswered",
    "delayed",
    "delays_over",
    "delays_unknown",
)
_MOST = {
    "images": ("images_dropped", layout.MAX_IMAGES),
    "slots": ("slots_dropped", layout.MAX_SLOTS),
}
_PLACES = {
    name: (at, at + size)
    for name, (at, size, _) in layout.CONTROL.fields.items()
    if name in _COUNTED
}


class Meddling:
    """The expected values in one control block. Each word that breaks a rule is counted once."""

    __slots__ = ("_block", "_counts", "_found", "_has_begun", "_stays")

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._found: set[str] = set()
        self._has_begun = False
        self._stays: dict[str, bytes] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._keep(_LAID_OUT)

    def begin(self) -> None:
        """Record that the agent has written its constant fields."""
        self._keep(_WRITTEN_ONCE)
        self._block.keep_written()
        self._has_begun = True

    def _keep(self, names: tuple[str, ...]) -> None:
        self._stays.update({name: self._field(name) for name in names})

    def _field(self, name: str) -> bytes:
        at, size, _ = layout.CONTROL.fields[name]
        return self._block.mapping[at : at + size]

    def look(self) -> int:
        """Return how many more counters have decreased or cannot be right since the last look."""
        before = len(self._found)
        page = self._block.mapping[: layout.CONTROL.size]
        for name, (at, end) in _PLACES.items():
            now = int.from_bytes(page[at:end], "little")
            if now < self._counts[name]:
                self._found.add(name)
            self._counts[name] = now
        if self._has_begun and not 0 < self._block.state <= layout.STATE_STOPPED:
            self._found.add("state")
        self._found |= self._block.bounds.damaged
        return len(self._found) - before

    def finish(self) -> int:
        """Return how many more words have changed that must not, or cannot be right."""
        before = len(self._found)
        self._found |= self._block.damaged_sums()
        self._found.update(
            name for name, value in self._stays.items() if self._field(name) != value
        )
        for name, (dropped, most) in _MOST.items():
            if self._counts[name] > most and not self._counts[dropped]:
                self._found.add(name)
        return len(self._found) - before
