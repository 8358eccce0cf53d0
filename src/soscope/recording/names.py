# SPDX-License-Identifier: Apache-2.0
"""Images, slots and stacks by the numbers that the agent's records give them."""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right

from soscope.model.call import Delays
from soscope.model.image import (
    HOOKED,
    IMAGE_CLOSED,
    IMAGE_STARTUP,
    SLOT_JUMP_SLOT,
    TracedImage,
    TracedSlot,
)
from soscope.recording import format as form
from soscope.recording.clock import Clock
from soscope.recording.sink import Sink
from soscope.wire import layout, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.wire.block import ControlBlock


# Finds the image that was at an address, by the address itself or by the time.
#
# Images are loaded and closed, and another image may come to the same addresses. In stacks and
# trees, such an address contains the number of its image (IMAGE_SHIFT of soscope/wire.h). Return
# addresses of single calls do not, but they have a time, and the agent has recorded when each image
# was loaded and closed.

_MOST_PARENTS = 64  # limit, as damaged data may be circular


def in_image(addr: int) -> tuple[int | None, int]:
    """Return the index of the image in an address, and the address without it.

    The index is None if the address contains no index. If the address was in no recorded image,
    it contains `NO_IMAGE`, and the index returned for it belongs to no image.
    """
    number = addr >> layout.IMAGE_SHIFT & layout.NO_IMAGE
    return number - 1 if number else None, addr & (1 << layout.IMAGE_SHIFT) - 1


def with_image(addr: int, image: TracedImage | None) -> int:
    """Return an address with the index of its image."""
    number = layout.NO_IMAGE if image is None else image.index + 1
    return addr | number << layout.IMAGE_SHIFT


class Moves:
    """The times at which images of one program came and went (`struct sosc_move[]`)."""

    __slots__ = ("_forks", "_holes", "_last", "_moved", "_own", "count")

    def __init__(self) -> None:
        # By process and image: times (tsc), and whether the image is loaded from then on.
        self._own: dict[tuple[int, int], tuple[list[int], list[bool]]] = {}
        # By process: times of the forks that made it, and (parent, the parent's last known move).
        self._forks: dict[int, tuple[list[int], list[tuple[int, int]]]] = {}
        self._moved: set[int] = set()
        self._holes: list[int] = []  # rows that were incomplete when read
        self._last = 0
        self.count = 0

    def read(self, table: bytearray) -> None:
        """Read the new rows of the table."""
        size = layout.MOVE.size
        count = len(table) // size
        rows, self._holes = [*self._holes, *range(self.count, count)], []
        self.count = count
        for row in rows:
            kind, image, pid, parent, tsc, since = layout.MOVE.struct.unpack_from(table, row * size)
            self._last = max(self._last, tsc)
            if not kind:
                self._holes.append(row)
            elif kind == layout.MOVE_FORKED:
                times, parents = self._forks.setdefault(pid, ([], []))
                times.append(tsc)
                parents.append((parent, since))
            else:
                times, there = self._own.setdefault((pid, image), ([], []))
                times.append(tsc)
                there.append(kind == layout.MOVE_CAME)
                self._moved.add(image)

    def times(self) -> list[int]:
        """Return the times (tsc) of all changes."""
        own = {time for times, _ in self._own.values() for time in times}
        return sorted(own.union(*(times for times, _ in self._forks.values())))

    def has_moved(self, image: TracedImage) -> bool:
        """Return whether an image may have come or gone while the program was observed."""
        return not image.flags & IMAGE_STARTUP or image.index in self._moved

    def there(
        self, image: TracedImage, pid: int, time: int, ns: Callable[[int], int]
    ) -> bool | None:
        """Return whether process `pid` had an image at a time, None if that is not known.

        `ns` converts the times of moves (tsc) to the unit of `time`.
        """
        if not time or (self.count >= layout.MAX_MOVES and time >= ns(self._last)):
            return None
        for _ in range(_MOST_PARENTS):
            born, parents = self._forks.get(pid, ([], []))
            fork = max(bisect_right(born, time, key=ns) - 1, 0)
            times, there = self._own.get((pid, image.index), ([], []))
            at = bisect_right(times, time, key=ns) - 1
            if at >= 0 and (not born or times[at] >= born[fork]):
                return there[at]
            if not born:
                return bool(image.flags & IMAGE_STARTUP)
            pid, since = parents[fork]
            time = min(time, ns(since))
        return None


_STRINGS_MOST = 256 << 20
_STACKS_MOST = 4 << 30
_PLACES_MOST = 1 << 16  # addresses whose images are cached
_FUNCTION_FLAGS = layout.SLOT.offset("function_flags")
_READY = layout.SLOT.offset("ready")
_INSTRUMENT = layout.SLOT.offset("instrument")
# Instruments whose calls only switch recording on and off, and are in no report.
_TRIGGERS = (layout.INSTRUMENT_OPEN, layout.INSTRUMENT_CLOSE)


NO_SLOT = 0xFFF_FFFF  # slot of an unknown call site


def _is_of(path: str, identity: bytes) -> bool:
    """Return whether a file has this identity (see `ElfImage`)."""
    from soscope.binfmt.elf.image import ElfImage  # seldom needed
    from soscope.binfmt.source import FileSource, open_regular
    from soscope.errors import SoscopeError

    fd = open_regular(path)
    if fd is None:
        return False
    try:
        return ElfImage.from_source(FileSource(fd, path)).identity == identity
    except (SoscopeError, OSError):
        return False
    finally:
        os.close(fd)


class RecordedProgram:
    """One traced program. `facts` is the content of PROGRAM, and `index` is its number.

    Unknown slots (if names were lost, or the recording is damaged) have the name "?".
    """

    __slots__ = (
        "_call_sites",
        "_facts",
        "_image_records",
        "_images",
        "_move_records",
        "_places",
        "_slot_records",
        "_slots",
        "_stacks",
        "_strings",
        "_twice",
        "index",
        "knows_errno",
        "moves",
        "sites",
        "sites_once",
        "slots_once",
        "tsc_start",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self._facts: dict[str, object] = {}
        self._twice: dict[int, bool] = {}
        # The addrs [start, end) of the agent's return trampolines, (0, 0) if not known. A call
        # whose return address is in it was tail-called by another hooked function.
        self.sites = (0, 0)
        self.knows_errno = False  # whether the agent can read errno
        self.tsc_start = 0  # origin of the times of OPEN and WHOLE units
        # By number of a call site, or of a slot: the slot, None if a call may return again.
        self.sites_once = _SlotsOnce(self, self.call_site)
        self.slots_once = _SlotsOnce(self, None)
        self._strings = bytearray()
        self._image_records = bytearray()
        self._slot_records = bytearray()
        self._call_sites = bytearray()
        self._move_records = bytearray()
        self.moves = Moves()  # when its images came and went
        self._places: dict[int, list[TracedImage]] = {}  # images that may have been at an address
        self._stacks = bytearray(8)  # no stack has number 0
        self._images: dict[int, TracedImage] | None = None
        self._slots: dict[int, TracedSlot] = {}

    # ---- input ----

    def add(self, kind: int, first: int, data: bytes) -> None:
        """Add records of images or slots from index `first` on, or strings from that offset.

        Raises ValueError if they cannot be there: behind a gap, or beyond all limits.
        """
        if kind == form.STRINGS:
            table, start, most = self._strings, first, _STRINGS_MOST
        elif kind == form.IMAGES:
            size = layout.IMAGE.size
            table, start, most = self._image_records, first * size, layout.MAX_IMAGES * size
        elif kind == form.STACKS:
            table, start, most = self._stacks, first * 8, _STACKS_MOST
        elif kind == form.CALL_SITES:
            size = layout.CALL_SITE.size
            table, start, most = self._call_sites, first * size, layout.MAX_CALL_SITES * size
        elif kind == form.MOVES:
            size = layout.MOVE.size
            table, start, most = self._move_records, first * size, layout.MAX_MOVES * size
        else:
            size = layout.SLOT.size
            table, start, most = self._slot_records, first * size, layout.MAX_SLOTS * size
        if start > len(table) or start + len(data) > most:
            raise ValueError("records behind a gap or beyond the limit")
        table[start : start + len(data)] = data
        if kind == form.MOVES:
            self.moves.read(table)
            return
        self.sites_once.clear()
        self.slots_once.clear()
        if kind in (form.CALL_SITES, form.STACKS):
            return
        # Slots refer to images, so they are made again, with the newest ones.
        self._images = None
        self._places.clear()
        self._slots.clear()
        self._twice.clear()

    @property
    def facts(self) -> dict[str, object]:
        """Return the object of PROGRAM."""
        return self._facts

    @facts.setter
    def facts(self, facts: dict[str, object]) -> None:
        self._facts = facts
        start = self.fact("agent_base") + layout.BLOB_SITES
        self.sites = (start, start + 32 * layout.MAX_SITES) if self.fact("agent_base") else (0, 0)
        self.tsc_start = self.fact("tsc_start") & 0xFFFF_FFFF_FFFF_FFFF
        self.knows_errno = bool(self.fact("agent_flags") & layout.AGENT_ERRNO)

    def fact(self, name: str) -> int:
        """Return a number from PROGRAM, 0 if it has none."""
        value = self.facts.get(name)
        return value if isinstance(value, int) else 0

    @property
    def path(self) -> str:
        """Return the path of the program."""
        return str(self.facts.get("path") or "")

    def ran_ns(self, clock: Clock) -> int:
        """Return how long it was observed, in ns."""
        return round((clock.newest - self.tsc_start) * clock.rate)

    def delays(self, clock: Clock) -> Delays:
        """Return how long its threads waited for a processor."""
        waited, over, unknown = map(self.fact, ("delayed", "delays_over", "delays_unknown"))
        return Delays(waited, over, unknown, self.ran_ns(clock))

    # ---- content ----

    def string(self, offset: int) -> str:
        """Return the name at `offset` of the strings. Damage gives a shorter one."""
        if not 0 < offset < len(self._strings):
            return ""
        end = self._strings.find(0, offset)
        return os.fsdecode(bytes(self._strings[offset : end if end >= 0 else offset]))

    def images(self) -> dict[int, TracedImage]:
        """Return the images by index."""
        if self._images is None:
            images = {}
            data = bytes(self._image_records)
            size = layout.IMAGE.size
            for index in range(len(data) // size):
                image = records.image_of(
                    data, index * size, index, self.index, self.string, self.path
                )
                if image is not None:
                    image.path = self._path_from_here(image)
                    images[index] = image
            self._images = images
        return self._images

    def _path_from_here(self, image: TracedImage) -> str:
        """Return the path of an image's file as seen from here: the program may have another root.

        The loader's paths begin at the root that the process had at that time, which may have
        been another one than later. So the file's identity decides.
        """
        root = str(self.facts.get("root") or "")
        below = root + image.path
        if root and image.path.startswith("/") and _is_of(below, image.identity):
            return below
        return image.path

    def image_of(self, word: int) -> TracedImage | None:
        """Return the image of a stack's return address, None if there is none.

        An address without an image index is in the first image that was there: see
        `sosc_with_image`.
        """
        index, addr = in_image(word)
        if index is not None:
            return self.images().get(index)
        there = self._at(addr - 1)
        if len(there) > 1 and not self.moves.count:
            return self.image_at(addr - 1)  # recorded before stacks had image indices
        return there[0] if there else None

    def word(
        self,
        addr: int,
        pid: int,
        time: int,
        ns: Callable[[int], int] = int,
        caller: TracedImage | None = None,
    ) -> int:
        """Return a return address as in a stack: with its image if there may be several.

        `ns` converts a tsc to the unit of `time`. `caller` is an image that was loaded at that
        time for certain.
        """
        if caller is not None and caller.start < addr <= caller.end:
            return with_image(addr, caller)
        if not self.needs_time(addr):
            return addr
        there = [image for image in self._at(addr - 1) if self.moves.there(image, pid, time, ns)]
        return with_image(addr, there[0] if len(there) == 1 else None)

    def needs_time(self, addr: int) -> bool:
        """Return whether the image of a return address depends on the time, as far as known."""
        if not self.moves.count:
            return False
        there = self._at(addr - 1)
        return len(there) > 1 or (len(there) == 1 and self.moves.has_moved(there[0]))

    def _at(self, addr: int) -> list[TracedImage]:
        """Return the images that may have contained `addr`, by index."""
        there = self._places.get(addr)
        if there is None:
            images = self.images().values()
            there = [image for image in images if image.start <= addr < image.end]
            if len(self._places) >= _PLACES_MOST:
                self._places.clear()
            self._places[addr] = there
        return there

    def files_at(self, addr: int) -> list[TracedImage]:
        """Return the images that contained `addr` in turn. An image that came back counts once."""
        files = {(image.path, image.identity, image.load_bias): image for image in self._at(addr)}
        return list(files.values())

    def image_at(self, addr: int) -> TracedImage | None:
        """Return the image that contained `addr`, None if there was none or several in turn."""
        files = self.files_at(addr)
        return files[0] if len(files) == 1 else None

    def open_at(self, addr: int) -> TracedImage | None:
        """Return the image that contained `addr` at the end, None if there was none or several."""
        files = [image for image in self.files_at(addr) if not image.flags & IMAGE_CLOSED]
        return files[0] if len(files) == 1 else None

    @property
    def slot_count(self) -> int:
        """Return the number of slot records, finished or not."""
        return len(self._slot_records) // layout.SLOT.size

    def has_slot(self, index: int) -> bool:
        """Return whether there is a finished record of slot `index`."""
        at = index * layout.SLOT.size + _READY
        return at < len(self._slot_records) and self._slot_records[at] != 0

    def slot(self, index: int) -> TracedSlot:
        """Return slot `index`, with the name "?" if it is not known."""
        slot = self._slots.get(index)
        if slot is None:
            slot = self._make(index)
            self._slots[index] = slot
        return slot

    def _make(self, index: int) -> TracedSlot:
        at = index * layout.SLOT.size
        if at + layout.SLOT.size <= len(self._slot_records):
            record = bytes(self._slot_records[at : at + layout.SLOT.size])
            slot = records.slot_of(record, 0, index, self.index, self.string, self.images())
            if slot is not None:
                return slot
        return TracedSlot(
            index,
            self.index,
            "?",
            "",
            None,
            None,
            0,
            SLOT_JUMP_SLOT,
            HOOKED,
            False,
            False,
            None,
            0,
        )

    @property
    def call_sites(self) -> bytes | bytearray:
        """Return the records of call sites, one behind the other."""
        return self._call_sites

    @property
    def stacks(self) -> bytes | bytearray:
        """Return the words of stacks, in the format of soscope/blocks.h."""
        return self._stacks

    def call_site(self, number: int) -> tuple[int, int]:
        """Return (slot, return address) of a call site, (NO_SLOT, 0) if it is not known."""
        at = number * layout.CALL_SITE.size
        if at + layout.CALL_SITE.size <= len(self._call_sites):
            (word,) = layout.CALL_SITE.struct.unpack_from(self._call_sites, at)
            if word:
                slot = (word & (1 << layout.CALL_SITE_SLOT) - 1) - 1
                return slot & NO_SLOT, word >> layout.CALL_SITE_SLOT
        return NO_SLOT, 0

    def slots(self) -> list[TracedSlot]:
        """Return all slots with finished records, by index, except for slots of triggers."""
        return [
            self.slot(index)
            for index in range(self.slot_count)
            if self.has_slot(index)
            and self._slot_records[index * layout.SLOT.size + _INSTRUMENT] not in _TRIGGERS
        ]

    def returns_twice(self, index: int) -> bool:
        """Return whether the function of slot `index` may return several times."""
        twice = self._twice.get(index)
        if twice is None:
            at = index * layout.SLOT.size + _FUNCTION_FLAGS
            flags = int.from_bytes(self._slot_records[at : at + 4], "little")
            twice = self._twice[index] = bool(flags & layout.FN_TWICE)
        return twice


class _SlotsOnce(dict[int, TracedSlot | None]):
    """Slots that are needed for each call, looked up at the first use."""

    __slots__ = ("_program", "_site")

    def __init__(
        self, program: RecordedProgram, site: Callable[[int], tuple[int, int]] | None
    ) -> None:
        super().__init__()
        self._program = program
        self._site = site

    def __missing__(self, number: int) -> TracedSlot | None:
        """Look up a call site or slot: None if its function may return several times."""
        program = self._program
        index = number if self._site is None else self._site(number)[0]
        slot = self[number] = None if program.returns_twice(index) else program.slot(index)
        return slot


class Programs:
    """The traced programs of a recording or of a live run, by number."""

    __slots__ = ("_programs", "clock")

    _MOST = 1 << 20

    def __init__(self, clock: Clock | None = None) -> None:
        """Begin without programs. `clock` is the clock of their records."""
        self.clock = Clock() if clock is None else clock
        self._programs: dict[int, RecordedProgram] = {}

    def __getitem__(self, index: int) -> RecordedProgram:
        """Return program `index`, an empty one if nothing is known about it.

        Raises ValueError for a number that no run reaches.
        """
        program = self._programs.get(index)
        if program is None:
            program = self._programs[self.checked(index)] = RecordedProgram(index)
        return program

    def checked(self, index: int) -> int:
        """Return the number of a program. Raises ValueError if no run reaches it."""
        if not 0 <= index < self._MOST:
            raise ValueError("program number beyond the limit")
        return index

    def all(self) -> list[RecordedProgram]:
        """Return the programs by number."""
        return [self._programs[index] for index in sorted(self._programs)]


# Reads stacks, and codes among them, from the memory of BLOCKS or TRACE, for a sink.
#
# A thread reserves room for a stack and then fills it, its head last. A stack without a head is
# being filled: everything from there on is passed on again until nothing is missing. A record only
# refers to complete stacks.

_COUNT = (1 << layout.STACK_API) - 1
_KEEPERS = (layout.INSTRUMENT_BLOCKS, layout.INSTRUMENT_TRACE)
_IS_CODE = 1 << layout.STACK_CODE


class StackTable:
    """The stacks of one control block, none if no instrument keeps any."""

    __slots__ = ("_block", "_first", "_room", "_seen", "_used", "_whole")

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._whole = 1  # all words before this one belong to complete stacks
        self._seen = 1  # number of words that were passed on last
        keeper = next(filter(block.own_start, _KEEPERS), None)
        self._room = self._first = self._used = 0
        if keeper is not None:
            start, fields = block.own_start(keeper), layout.BLOCKS
            said = memoryview(block.given(keeper)[: fields.size & ~7]).cast("Q")
            self._room = said[fields.offset("words") // 8]
            self._first = (start + said[fields.offset("first_word") // 8]) // 8
            self._used = (start + fields.offset("words_used")) // 8

    @property
    def used(self) -> int:
        """Return how many words are in use. Numbers of stacks are lower."""
        return min(self._block.words[self._used], self._room) if self._room else 0

    def fresh(self) -> tuple[int, bytes] | None:
        """Return (number of the first word, words) if there are new ones, else None."""
        if not self._room:
            return None
        count = min(self._block.words[self._used], self._room)
        if count <= self._seen and self._whole >= self._seen:
            return None
        first, whole = self._whole, self._skip(self._whole, count)
        if count <= self._seen and whole == first:
            return None
        self._seen, self._whole = max(count, self._seen), whole
        return first, self._words(first, count)

    def rest(self) -> tuple[int, bytes] | None:
        """Return the words that have not been passed on as complete stacks, at the end."""
        if not self._room or self._whole >= self._seen:
            return None
        return self._whole, self._words(self._whole, self._seen)

    def _skip(self, first: int, count: int) -> int:
        """Return the number of the first word from `first` on that is in no complete stack."""
        words, start = self._block.words, self._first
        while first < count:
            head = words[start + first]
            if not head:
                break
            first += 1 + (head >> layout.STACK_SIZE if head & _IS_CODE else head & _COUNT)
        return min(first, count)

    def _words(self, first: int, end: int) -> bytes:
        return self._block.words[self._first + first : self._first + end].tobytes()


_LAYOUTS = {
    layout.SEC_IMAGES: (form.IMAGES, layout.IMAGE, "ready", layout.MAX_IMAGES),
    layout.SEC_SLOTS: (form.SLOTS, layout.SLOT, "ready", layout.MAX_SLOTS),
    layout.SEC_MOVES: (form.MOVES, layout.MOVE, "kind", layout.MAX_MOVES),
    layout.SEC_CALL_SITES: (form.CALL_SITES, layout.CALL_SITE, "word", layout.MAX_CALL_SITES),
}


def _staying(record: layout.Layout, names: str) -> tuple[int, slice, bytes]:
    """Return a record's size, the place of its ready flag, and a mask of constant bytes."""
    mask = bytearray(record.size)
    for name in names.split():
        at, size, _ = record.fields[name]
        mask[at : at + size] = b"\xff" * size
    at, size, _ = record.fields["ready"]
    return record.size, slice(at, at + size), bytes(mask)


# Fields of a record that do not change once it is ready. Slots of an image that comes again are
# rewritten, and their names may be at another place then.
_STAYS = {
    form.STRINGS: (1, slice(0, 1), b"\xff"),
    form.CALL_SITES: (layout.CALL_SITE.size, slice(0, 8), b"\xff" * layout.CALL_SITE.size),
    form.MOVES: (layout.MOVE.size, slice(0, 4), b"\xff" * layout.MOVE.size),
    form.IMAGES: _staying(
        layout.IMAGE,
        "name path load_bias start end build_id build_id_size reserved tsc ready ns",
    ),
    form.SLOTS: _staying(layout.SLOT, "caller addr ready instrument reserved"),
}
_PIECE = 256  # units that are compared at once
_LAST_KIND = layout.SLOT_ENTRY
_LAST_REFUSAL = layout.REFUSED_NO_SITE
_LAST_RULE = layout.ERROR_INT_MINUS_ONE
_SLOT_FLAGS = layout.SLOT_LAZY | layout.SLOT_ENTRY_ONLY | layout.SLOT_PARTIAL


class _Table:
    """One section of records.

    In unfinished records `ready`, `kind` or the lower half of `word` is 0.
    """

    __slots__ = ("_block", "_kind", "_most", "_ready", "_section", "done", "seen", "size")

    def __init__(self, block: ControlBlock, section: int) -> None:
        self._block = block
        self._section = section
        self._kind, record, ready, self._most = _LAYOUTS[section]
        self.size = record.size
        self._ready = record.offset(ready) // 4
        self.done = 0  # all records before this one were ready
        self.seen = (0, 0)  # number of records, and of ready ones

    def fresh(self) -> tuple[int, int] | None:
        """Return the range of records to pass on, None if there are no new ones."""
        count = min(self._count(), self._most)
        if count == self.seen[0] == self.done:
            return None
        size = self.size
        view = self._block.view(self._section, self.done * size, count * size)
        ready = view.cast("I")[self._ready :: size // 4].tolist() if len(view) else []
        whole = self.done + len(ready) - ready.count(0)
        if (count, whole) == self.seen:
            return None
        first = self.done
        self.seen = count, whole
        self.done = first + ready.index(0) if 0 in ready else count
        return first, count

    def _count(self) -> int:
        if self._kind == form.IMAGES:
            return self._block.image_count
        if self._kind == form.SLOTS:
            return self._block.slot_count
        if self._kind == form.MOVES:
            return self._block.move_count
        return self._block.call_site_count

    def data(self, first: int, end: int) -> bytes:
        """Return the bytes of records."""
        size = self.size
        return bytes(self._block.view(self._section, first * size, end * size))


class TableReader:
    """Reads the tables of one control block."""

    __slots__ = (
        "_block",
        "_call_sites",
        "_images",
        "_kept",
        "_moves",
        "_passed",
        "_program",
        "_sink",
        "_slots",
        "_stacks",
        "_tail",
        "spoiled",
    )

    def __init__(self, block: ControlBlock, program: int, sink: Sink) -> None:
        self._block = block
        self._program = program
        self._sink = sink
        self._images = _Table(block, layout.SEC_IMAGES)
        self._slots = _Table(block, layout.SEC_SLOTS)
        self._call_sites = _Table(block, layout.SEC_CALL_SITES)
        self._moves = _Table(block, layout.SEC_MOVES)
        self._stacks = StackTable(block)
        self._tail = (0, 0, 0)  # start, end and CRC of the strings that were passed on last
        # kind -> end and CRC of what was passed on; the CRC is -1 if pieces overlap
        self._passed: dict[int, tuple[int, int]] = {}
        self._kept = {kind: bytearray() for kind in _STAYS}  # first version passed on
        self.spoiled = 0  # records and names that have changed wrongly

    def update(self) -> None:
        """Pass on everything new since the last time."""
        sites = self._call_sites.fresh()
        if sites is not None:
            self._pass_records(form.CALL_SITES, self._call_sites, *sites)
        moves = self._moves.fresh()
        if moves is not None:
            self._pass_records(form.MOVES, self._moves, *moves)
        stacks = self._stacks.fresh()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        images = self._images.fresh()
        slots = self._slots.fresh()
        if images is None and slots is None:
            return
        # A record is ready when its strings are there, so they are read after it. The agent may
        # have reserved a string's room before the last time and filled it since.
        self._pass_strings()
        if images is not None:
            self._pass_records(form.IMAGES, self._images, *images)
        if slots is not None:
            self._pass_records(form.SLOTS, self._slots, *slots)

    def finish(self) -> None:
        """Pass on everything that has changed since it was passed on."""
        self.update()
        self._look_for_spoiled()
        stacks = self._stacks.rest()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        self._pass_if_changed(form.STRINGS, self._block.view(layout.SEC_STRINGS, 0, self._used()))
        for kind, table in (
            (form.IMAGES, self._images),
            (form.SLOTS, self._slots),
            (form.CALL_SITES, self._call_sites),
            (form.MOVES, self._moves),
        ):
            self._pass_if_changed(kind, table.data(0, table.seen[0]))

    def _look_for_spoiled(self) -> None:
        """Count changes of data that must not change once it is there."""
        tables = {
            form.STRINGS: bytes(self._block.view(layout.SEC_STRINGS, 0, self._used())),
            form.IMAGES: self._images.data(0, self._images.seen[0]),
            form.SLOTS: self._slots.data(0, self._slots.seen[0]),
            form.CALL_SITES: self._call_sites.data(0, self._call_sites.seen[0]),
            form.MOVES: self._moves.data(0, self._moves.seen[0]),
        }
        kept = self._kept
        self.spoiled = sum(_changed(kept[kind], now, kind) for kind, now in tables.items())
        self.spoiled += _impossible(tables[form.SLOTS], tables[form.STRINGS], self._images.seen[0])

    def _used(self) -> int:
        return min(self._block.strings_used, self._block.section(layout.SEC_STRINGS)[1])

    def _pass(self, kind: int, first: int, data: bytes, start: int, end: int) -> None:
        """Pass on `data` from record `first`, which are the bytes [start, end) of a table."""
        if not data:
            return
        until, crc = self._passed.get(kind, (0, 0))
        crc = zlib.crc32(data, crc) if start == until and crc >= 0 else -1
        self._passed[kind] = max(end, until), crc
        self._keep(kind, start, data)
        self._sink.table(kind, self._program, first, data)

    def _keep(self, kind: int, start: int, data: bytes) -> None:
        """Keep the first version of ready records that are passed on."""
        kept = self._kept[kind]
        unit, ready, _ = _STAYS[kind]
        known = max(len(kept) - start, 0)
        for at in _differing(kept[start : start + len(data)], data[:known], unit):
            here = slice(start + at, start + at + unit)
            if not any(kept[here][ready]):
                kept[here] = data[at : at + unit]
        kept += data[known:]

    def _pass_records(self, kind: int, table: _Table, first: int, end: int) -> None:
        size = table.size
        self._pass(kind, first, table.data(first, end), first * size, end * size)

    def _pass_strings(self) -> None:
        used = self._used()
        start, end, crc = self._tail
        first = end
        if end > start and zlib.crc32(self._block.view(layout.SEC_STRINGS, start, end)) != crc:
            first = start
        if used > first:
            data = bytes(self._block.view(layout.SEC_STRINGS, first, used))
            self._tail = first, used, zlib.crc32(data)
            self._pass(form.STRINGS, first, data, first, used)

    def _pass_if_changed(self, kind: int, data: bytes | memoryview) -> None:
        if (len(data), zlib.crc32(data)) != self._passed.get(kind, (0, 0)):
            self._passed.pop(kind, None)
            self._pass(kind, 0, bytes(data), 0, len(data))

    def close(self) -> None:
        """Drop the block."""
        self._sink = Sink()


def _differing(before: bytes | bytearray, now: bytes, unit: int) -> Iterator[int]:
    """Yield the places of units that differ in `before` and `now`, as far as both reach.

    Tables are large and mostly unchanged, so equal pieces of many units are skipped.
    """
    size = min(len(before), len(now))
    for piece in range(0, size, unit * _PIECE):
        end = min(piece + unit * _PIECE, size)
        if before[piece:end] != now[piece:end]:
            for at in range(piece, end, unit):
                if before[at : at + unit] != now[at : at + unit]:
                    yield at


def _changed(before: bytearray, now: bytes, kind: int) -> int:
    """Return how many records, or bytes of strings, have changed after they were ready."""
    unit, ready, mask = _STAYS[kind]
    size = min(len(before), len(now))
    changed = (len(before) - size) // unit
    stays = int.from_bytes(mask)
    for at in _differing(before, now, unit):
        old = before[at : at + unit]
        is_same = not (int.from_bytes(old) ^ int.from_bytes(now[at : at + unit])) & stays
        changed += any(old[ready]) and not is_same
    return changed


def _impossible(slots: bytes, strings: bytes, images: int) -> int:
    """Return how many records of slots cannot have been written by an agent."""
    bad = 0
    for row in layout.SLOT.struct.iter_unpack(slots):
        symbol, version, caller, callee, *_, kind, refusal, flags, rule, ready, _, _, _, _ = row
        if ready:
            names = [at for at in (symbol, version) if at]
            is_named = all(at < len(strings) and not strings[at - 1] for at in names)
            is_placed = all(at < images or at == layout.NONE for at in (caller, callee))
            is_known = kind <= _LAST_KIND and refusal <= _LAST_REFUSAL and rule <= _LAST_RULE
            bad += not (is_named and is_placed and is_known and not flags & ~_SLOT_FLAGS)
    return bad
