# SPDX-License-Identifier: Apache-2.0
"""The control block: the memory that soscope and the agent share.

Words are read and written through memoryviews of native integers, never through `struct`:
those are single loads and stores of the machine, so the other side sees whole values.
"""

from __future__ import annotations

import errno
import mmap
import os
from _collections_abc import Callable, Iterable

from soscope.errors import FormatError
from soscope.model.image import TracedImage
from soscope.model.slot import TracedSlot
from soscope.model.stats import Stats
from soscope.wire import countarrays, layout, records, sharedfile
from soscope.wire.countarrays import CountArrays
from soscope.wire.futex import wake
from soscope.wire.plan import Plan

_PREFAULT = 1 << 20  # the first chunks, so that the first calls meet no page fault
_MADV_POPULATE_WRITE = 23  # Linux 5.14
_MADV_REMOVE = 9
_KEPT = ("plans", "chunks", "count_arrays", "spare_chunks")


class _Word:
    """A field of the control page: an integer of 4 or 8 bytes."""

    __slots__ = ("_index", "_mask", "_view")

    def __init__(self, name: str) -> None:
        offset, size, code = layout.CONTROL.fields[name]
        self._index = offset // size
        self._view = {"Q": "_u64", "I": "_u32", "i": "_i32"}[code]
        self._mask = -1 if code == "i" else (1 << 8 * size) - 1

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        return int(getattr(block, self._view)[self._index])

    def __set__(self, block: ControlBlock, value: int) -> None:
        # one more than what was read, which the target may have written
        getattr(block, self._view)[self._index] = value & self._mask


class _Fixed(_Word):
    """A field that nobody changes once the block is filled: what it holds later is not read."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        value = block.kept.get(self._name)
        return super().__get__(block) if value is None else value


class _Count(_Word):
    """How much of something the agent has used: never more than `most`."""

    __slots__ = ("_most",)

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self._most = most

    def __get__(self, block: ControlBlock, _: type[ControlBlock] | None = None) -> int:
        return min(super().__get__(block), self._most)


class ControlBlock:
    """A mapped control block. `fd` is its file, `size` its bytes.

    `target_size` are the bytes that the target maps at first: all but most count arrays.

    Every scalar field of `struct sosc_control` is an attribute that can be read and set.
    """

    magic = _Word("magic")
    wire_version = _Word("wire_version")
    control_size = _Word("control_size")
    owner_pid = _Word("owner_pid")
    command = _Word("command")
    owner_start = _Word("owner_start")
    heartbeat = _Word("heartbeat")
    plans = _Fixed("plans")
    flags = _Word("flags")
    when_full = _Word("when_full")
    string_limit = _Word("string_limit")
    chunks = _Fixed("chunks")
    count_arrays = _Fixed("count_arrays")
    main_name = _Word("main_name")
    main_path = _Word("main_path")
    state = _Word("state")
    error = _Word("error")
    error_at = _Word("error_at")
    agent_flags = _Word("agent_flags")
    agent_base = _Word("agent_base")
    agent_size = _Word("agent_size")
    tsc_start = _Word("tsc_start")
    realtime_start = _Word("realtime_start")
    monotonic_start = _Word("monotonic_start")
    cost_inner = _Word("cost_inner")
    cost_outer = _Word("cost_outer")
    image_count = _Count("images", layout.MAX_IMAGES)
    slot_count = _Count("slots", layout.MAX_SLOTS)
    strings_used = _Word("strings")
    counts_used = _Word("counts_used")
    sites = _Count("sites", layout.MAX_SITES)
    loader_hook = _Word("loader_hook")
    ring_seq = _Word("ring_seq")
    ring_waiters = _Word("ring_waiters")
    ring_drained = _Word("ring_drained")
    dropped_exits = _Word("dropped_exits")
    slots_left = _Word("slots_left")
    images_dropped = _Word("images_dropped")
    slots_dropped = _Word("slots_dropped")
    spare_chunks = _Fixed("spare_chunks")
    reader_gone = _Word("reader_gone")
    starved = _Word("starved")
    call_site_count = _Count("call_sites", layout.MAX_CALL_SITES)
    overwritten = _Word("overwritten")
    turn = _Word("turn")
    gates = _Word("gates")
    question = _Word("question")
    unanswered = _Word("unanswered")
    answers = _Word("answers")
    functions_used = _Word("functions_used")

    def __init__(self, fd: int) -> None:
        """Map the control block of a shared file; `fd` belongs to the block from here on.

        Raises FormatError where the file is not one of this wire version.
        """
        self.fd = fd
        self.size = self.target_size = os.fstat(fd).st_size
        if self.size < layout.PAGE:
            raise FormatError("not a control block: too short", field="size", offset=0)
        self.mapping = mmap.mmap(fd, self.size)
        self._u8 = memoryview(self.mapping)
        whole = self._u8[: self.size & ~7]
        self._u32 = whole.cast("I")
        self._i32 = whole.cast("i")
        self._u64 = whole.cast("Q")
        self._states = self._u8[:0]
        self._ring = 0
        self._sections: list[tuple[int, int]] = []
        self._plans: list[tuple[int, ...]] = []
        self.kept: dict[str, int] = {}
        # names whose functions the tables have beside those that they began with, by the number
        # of the instrument; False: it was asked about one, and nobody knows it
        self.told: dict[int, dict[str, bool]] = {}
        # what is to be done when the images of the program are there: called with its pid
        self.when_loaded: Callable[[int], object] | None = None
        if self.magic:
            self._check()

    # ---- life ----

    @classmethod
    def create(cls, plan: Plan, descriptor: int | None = None) -> ControlBlock:
        """Lay out a new control block for `plan`, owned by this process.

        `descriptor` is an empty shared file to use, None: make one. Raises NoSharedMemory
        where there is no memory for it.
        """
        if len(plan.instruments) > layout.PLANS:
            raise ValueError(f"{len(plan.instruments)} instruments, {layout.PLANS} at most")
        functions = bytearray()
        for instrument in plan.instruments:
            functions += instrument.functions
            functions += bytes(-len(functions) % 8)
        main_name = len(functions)
        functions += os.fsencode(os.path.basename(plan.main_path)) + b"\0"
        main_path = len(functions)
        functions += os.fsencode(plan.main_path) + b"\0"
        chunks = plan.chunks + plan.spare_chunks
        array = countarrays.size_of(plan)
        numbers = layout.MAX_CALL_SITES if chunks or countarrays.by_call_site(plan) else 0
        chains = 0
        if numbers and plan.flags & layout.FLAG_FOLLOW:
            chains = layout.CALL_SITE_HEADS + numbers
        sizes = {
            layout.SEC_PATTERNS: len(plan.patterns),
            layout.SEC_RULES: sum(len(instrument.rules) for instrument in plan.instruments),
            layout.SEC_FUNCTIONS: len(functions) + plan.function_room,
            layout.SEC_IMAGES: layout.MAX_IMAGES * layout.IMAGE.size,
            layout.SEC_SLOTS: layout.MAX_SLOTS * layout.SLOT.size,
            layout.SEC_STRINGS: plan.strings_size,
            layout.SEC_CHUNK_STATES: chunks * 4,
            layout.SEC_RING: chunks * layout.CHUNK_SIZE,
            layout.SEC_PLACES: plan.slot_places * 4,
            layout.SEC_CALL_SITES: numbers * layout.CALL_SITE.size,
            layout.SEC_CALL_SITE_CHAINS: chains * 4,
            layout.SEC_PATCHES: len(plan.patches),
            layout.SEC_GATES: 0 if plan.gate is None else layout.GATES * 4,
            layout.SEC_COUNTS: plan.count_arrays * array,  # the last one
        }
        sections = [0] * (2 * layout.SECTIONS)
        end = layout.PAGE
        own = []
        for instrument in plan.instruments:
            own.append((end, instrument.own_size))
            end += instrument.own_size
            end += -end % layout.PAGE
        for section, size in sizes.items():
            alignment = layout.CHUNK_SIZE if section == layout.SEC_RING else layout.PAGE
            end += -end % alignment
            sections[2 * section : 2 * section + 2] = end, size
            end += size
        end += -end % layout.PAGE
        later = plan.count_arrays - plan.ready_arrays
        if descriptor is None:
            descriptor = sharedfile.create(end)
        else:
            sharedfile.resize(descriptor, end)
        try:
            block = cls(descriptor)
        except (OSError, MemoryError) as error:
            os.close(descriptor)
            number = error.errno if isinstance(error, OSError) else errno.ENOMEM
            reason = os.strerror(number or errno.ENOMEM).lower()
            raise sharedfile.refusal("map", end, reason, number) from error
        block.main_name, block.main_path = main_name, main_path
        block.functions_used = len(functions)
        block.target_size = end - later * array
        block._fill(plan, sections, own, bytes(functions))
        return block

    def _fill(
        self, plan: Plan, sections: list[int], own: list[tuple[int, int]], functions: bytes
    ) -> None:
        self.wire_version = layout.WIRE_VERSION
        self.control_size = layout.CONTROL.size
        at, size, _ = layout.CONTROL.fields["build_id"]
        self._u8[at : at + size] = plan.build_id[:size].ljust(size, b"\0")
        self.plans = len(plan.instruments)
        self.flags = plan.flags
        self.when_full = plan.when_full
        self.string_limit = plan.string_limit
        self.chunks = plan.chunks + plan.spare_chunks
        self.spare_chunks = plan.spare_chunks
        self.count_arrays = plan.count_arrays
        self.strings_used = 1  # offset 0 is ""
        at = layout.CONTROL.offset("section") // 8
        for index, value in enumerate(sections):
            self._u64[at + index] = value
        self.keep_layout()
        at = layout.CONTROL.offset("plan")
        first_rule = tables = 0
        for instrument, (start, size) in zip(plan.instruments, own, strict=True):
            count = len(instrument.rules) // layout.RULE.size
            words = (instrument.instrument, instrument.flags, first_rule, count, tables, 0)
            layout.PLAN.struct.pack_into(self._u8, at, *words, start, size)
            self._u8[start : start + len(instrument.own)] = instrument.own
            at += layout.PLAN.size
            first_rule += count
            tables += len(instrument.functions)
            tables += -tables % 8
        for section, content in (
            (layout.SEC_PATTERNS, plan.patterns),
            (layout.SEC_RULES, b"".join(each.rules for each in plan.instruments)),
            (layout.SEC_FUNCTIONS, functions),
            (layout.SEC_PATCHES, plan.patches),
            (layout.SEC_GATES, b"\x01" if plan.gate else b""),
        ):
            start, _ = self.section(section)
            self._u8[start : start + len(content)] = content
        self.take_over()
        self.keep_layout()
        self.prefault(_PREFAULT)
        self.magic = layout.MAGIC

    def take_over(self) -> None:
        """Make this process the owner: the agent waits for readers that live."""
        self.owner_pid = os.getpid()
        try:
            with open("/proc/self/stat", "rb") as stat:
                # The name in brackets may hold blanks and brackets; field 22 counts behind it.
                self.owner_start = int(stat.read().rpartition(b")")[2].split()[19])
        except OSError:
            self.owner_start = 0  # no /proc, or no descriptor: not known

    def _check(self) -> None:
        def refuse(field: str) -> None:
            at = layout.CONTROL.offset(field)
            raise FormatError(
                f"not a control block of this soscope: {field} at offset {at}",
                field=field,
                offset=at,
            )

        if self.magic != layout.MAGIC:
            refuse("magic")
        if self.wire_version != layout.WIRE_VERSION:
            refuse("wire_version")
        if self.control_size != layout.CONTROL.size:
            refuse("control_size")
        self.keep_layout()
        for offset, size in self._sections:
            if offset % 8 or offset + size > self.size:
                refuse("section")
        for *_, start, size in self._plans:
            if start + size > self.size:
                refuse("plan")
        chunks = self.chunks
        if self.section(layout.SEC_RING)[1] != chunks * layout.CHUNK_SIZE:
            refuse("chunks")
        if self.section(layout.SEC_CHUNK_STATES)[1] != chunks * 4:
            refuse("chunks")

    def keep_layout(self) -> None:
        """Note where everything lies: the target may write what it likes over that."""
        at = layout.CONTROL.offset("section") // 8
        words = self._u64[at : at + 2 * layout.SECTIONS].tolist()
        self._sections = list(zip(words[::2], words[1::2], strict=True))
        at = layout.CONTROL.offset("plan")
        end = at + min(self.plans, layout.PLANS) * layout.PLAN.size
        self._plans = list(layout.PLAN.struct.iter_unpack(self._u8[at:end]))
        self.kept = {}
        self.kept = {name: getattr(self, name) for name in _KEPT}
        self._ring = self.section(layout.SEC_RING)[0]
        states, size = self.section(layout.SEC_CHUNK_STATES)
        self._states = self._u8[states : states + size]

    def prefault(self, size: int) -> None:
        """Make pages of the first `size` bytes of the ring, where the kernel can."""
        size = min(size, self.chunks * layout.CHUNK_SIZE)
        if size:
            try:
                self.mapping.madvise(_MADV_POPULATE_WRITE, self._ring, size)
            except OSError:
                pass  # an older kernel, or no memory: the agent makes its own pages

    def give_back(self) -> None:
        """Give back the memory behind the first page; who still has it mapped reads zeros.

        Forked children that are hooked still, and share it, must use none of it.
        """
        self.command = layout.COMMAND_STOP
        try:
            self.mapping.madvise(_MADV_REMOVE, layout.PAGE, self.size - layout.PAGE)
        except OSError:
            pass  # an unusual file: its memory is given back when the process ends

    def close(self) -> None:
        """Unmap the block and close its file; views that were handed out must be gone.

        Raises BufferError where one is left: the mapping goes with it.
        """
        os.close(self.fd)
        self.fd = -1
        for view in (self._states, self._u32, self._i32, self._u64, self._u8):
            view.release()
        self.mapping.close()

    # ---- what the agent found ----

    def section(self, section: int) -> tuple[int, int]:
        """Return (offset, size) of a section in the shared file, in bytes."""
        return self._sections[section]

    def view(self, section: int, start: int, end: int) -> memoryview:
        """Return the bytes [start, end) of a section, cut to its size."""
        offset, size = self.section(section)
        return self._u8[offset + min(start, size) : offset + min(end, size)]

    @property
    def instruments(self) -> list[int]:
        """What sees the calls: INSTRUMENT_ constants, in the order of the plan."""
        return [plan[0] for plan in self._plans]

    @property
    def words(self) -> memoryview:
        """All of it as words of 8 bytes."""
        return self._u64

    def own_start(self, instrument: int) -> int:
        """Return where the bytes that are the instrument's own begin, 0 where there are none."""
        for plan in self._plans:
            if plan[0] == instrument:
                return plan[-2] if plan[-1] else 0
        return 0

    def functions_start(self, number: int) -> int:
        """Return the offset of the table of functions of instrument `number` in their section."""
        return self._plans[number][4]

    def own(self, instrument: int) -> memoryview:
        """Return the bytes that are the instrument's own, none where the plan has not got it.

        The view must be released before the block is closed.
        """
        for each, *_, start, size in self._plans:
            if each == instrument:
                return self._u8[start : start + size]
        return self._u8[:0]

    @property
    def dropped(self) -> tuple[int, ...]:
        """Lost entries by reason (`layout.DROP_…`)."""
        at = layout.CONTROL.offset("dropped") // 8
        return tuple(self._u64[at : at + layout.DROP_KINDS])

    @property
    def build_id(self) -> bytes:
        """The agent's build-id, zero padded to 32 bytes."""
        at, size, _ = layout.CONTROL.fields["build_id"]
        return bytes(self._u8[at : at + size])

    def string(self, offset: int) -> str:
        """Return the name at `offset` of the strings; damage gives a shorter name."""
        start, size = self.section(layout.SEC_STRINGS)
        if not 0 < offset < size:
            return ""
        end = self.mapping.find(b"\0", start + offset, start + size)
        if end < 0:
            end = start + offset
        return os.fsdecode(self.mapping[start + offset : end])

    def images(self, process: int, start: int = 0) -> list[TracedImage]:
        """Return the images from index `start` on that the agent has finished writing."""
        images = []
        count = min(self.image_count, layout.MAX_IMAGES)
        table = self.view(layout.SEC_IMAGES, 0, count * layout.IMAGE.size)
        for index in range(start, count):
            image = records.image_of(table, index * layout.IMAGE.size, index, process, self.string)
            if image is not None:
                images.append(image)
        return images

    def image_start(self, index: int) -> int:
        """Return the lowest addr of an image that the agent has written down, by its index."""
        at = index * layout.IMAGE.size + layout.IMAGE.offset("start")
        return int.from_bytes(self.view(layout.SEC_IMAGES, at, at + 8), "little")

    def slots(
        self,
        process: int,
        images: list[TracedImage],
        start: int = 0,
        chosen: Iterable[int] | None = None,
        instrument: int | None = None,
    ) -> list[TracedSlot]:
        """Return the slots from index `start` on that the agent has finished writing.

        `chosen` are the indices of those wanted, None: all. There may be tens of thousands.
        `instrument` is the one that has hooked them, None: any.
        """
        by_index = {image.index: image for image in images}
        names: dict[int, str] = {}

        def string(offset: int) -> str:
            name = names.get(offset)
            if name is None:
                name = names[offset] = self.string(offset)
            return name

        slots = []
        count = min(self.slot_count, layout.MAX_SLOTS)
        table = self.view(layout.SEC_SLOTS, 0, count * layout.SLOT.size)
        by = layout.SLOT.offset("instrument")
        for index in range(start, count) if chosen is None else sorted(chosen):
            if not start <= index < count:
                continue
            at = index * layout.SLOT.size
            if instrument is not None and table[at + by] != instrument:
                continue
            slot = records.slot_of(table, at, index, process, string, by_index)
            if slot is not None:
                slots.append(slot)
        return slots

    def refused_slots(self) -> list[int]:
        """Return the indices of slots that were asked for and are not hooked."""
        count = min(self.slot_count, layout.MAX_SLOTS)
        table = self.view(layout.SEC_SLOTS, 0, count * layout.SLOT.size)
        column = table[layout.SLOT.offset("refusal") :: layout.SLOT.size].tolist()
        return [index for index, refusal in enumerate(column) if refusal]

    def partial_slots(self) -> list[int]:
        """Return the indices of slots whose counts are a lower bound."""
        count = min(self.slot_count, layout.MAX_SLOTS)
        table = self.view(layout.SEC_SLOTS, 0, count * layout.SLOT.size)
        column = table[layout.SLOT.offset("flags") :: layout.SLOT.size].tolist()
        return [index for index, flags in enumerate(column) if flags & layout.SLOT_PARTIAL]

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
        count = min(self.slot_count, layout.MAX_SLOTS)
        column = self._u32[first : first + count * width : width].tolist()
        return [index for index, offset in enumerate(column) if offset in offsets]

    def counts(self) -> dict[int, int]:
        """Return slot index -> calls, of COUNT; see `countarrays`."""
        return countarrays.counts(self._count_arrays())

    def stats(self) -> Stats:
        """Return what STATS has added up, by slot index; see `countarrays`."""
        return countarrays.stats(self._count_arrays())

    def _count_arrays(self) -> CountArrays:
        return CountArrays(
            self.fd,
            self._u64,
            *self.section(layout.SEC_COUNTS),
            arrays=self.count_arrays,
            used=self.counts_used + 1,
            slots=min(self.slot_count, layout.MAX_SLOTS),
            call_sites=min(self.call_site_count, layout.MAX_CALL_SITES),
        )

    def rules_matched(self, instrument: int) -> list[int]:
        """Return how many slots (or images) each rule of an instrument matched."""
        _, _, first, count, *_ = self._plans[self.instruments.index(instrument)]
        at, size = self.section(layout.SEC_RULES)
        rules = range(first, min(first + count, size // layout.RULE.size))
        at += layout.RULE.offset("matched")
        return [self._u32[(at + rule * layout.RULE.size) // 4] for rule in rules]

    # ---- the ring ----

    def chunk(self, index: int) -> memoryview:
        """Return the CHUNK_SIZE bytes of chunk `index`."""
        start = self._ring + index * layout.CHUNK_SIZE
        return self._u8[start : start + layout.CHUNK_SIZE]

    def chunk_states(self) -> bytes:
        """Return CHUNK_FREE, CHUNK_OWNED or CHUNK_FULL of each chunk, as they are now."""
        return self._states.tobytes()[::4]

    def set_chunk_state(self, index: int, state: int) -> None:
        """Change the state of chunk `index`, which must be this process's to change."""
        self._states[index * 4] = state

    @property
    def ring(self) -> memoryview:
        """The bytes of the whole ring."""
        return self._u8[self._ring : self._ring + self.chunks * layout.CHUNK_SIZE]

    def free_chunks(self, indices: list[int]) -> None:
        """Give chunks back to the writers and wake those that wait.

        A chunk without a sequence number is not read until its next owner has cleared it.
        """
        if not indices:
            return
        first, count = indices[0], len(indices)
        if indices == [*range(first, first + count)]:  # many at once, while writers run
            at, step = (self._ring + first * layout.CHUNK_SIZE) // 8, layout.CHUNK_SIZE // 8
            self._u64[at : at + count * step : step] = memoryview(bytes(8 * count)).cast("Q")
            free = bytes([layout.CHUNK_FREE]) * count
            self._states[4 * first : 4 * (first + count) : 4] = free
        else:
            for index in indices:
                self._u64[(self._ring + index * layout.CHUNK_SIZE) // 8] = 0
                self.set_chunk_state(index, layout.CHUNK_FREE)
        # Writers count how often they were woken in vain since it last moved.
        self.heartbeat += 1
        self.ring_drained = (self.ring_drained + 1) & 0xFFFF_FFFF
        if self.ring_waiters:
            wake(self.mapping, "ring_drained", count)  # more would find nothing

    def answer(self) -> None:
        """Have who has asked a question go on: the tables have what there is to know."""
        self.heartbeat += 1
        self.question = 0
        self.answers = (self.answers + 1) & 0xFFFF_FFFF
        wake(self.mapping, "answers", layout.MAX_IMAGES)
