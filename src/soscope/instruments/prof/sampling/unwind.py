# SPDX-License-Identifier: Apache-2.0
"""The images of a sampled process by address, with their unwind tables."""

from __future__ import annotations

import mmap
import os
import time
from bisect import bisect_right, insort

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import Segment
from soscope.binfmt.elf.unwind import AT_CFA, FrameTable, Registers, Row, caller
from soscope.binfmt.source import ByteSource, FileSource, open_regular
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.image import ImageFile, LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.perf import MapEvent


_PAGE = mmap.PAGESIZE
_NO_IDENTITY = b"\0"  # the identity of no file
_PAUSE = 0.1  # seconds between looks for new images


class SampledImage:
    """Code of one image, [start, end) at run time. `image` is None for the agent's code."""

    def __init__(
        self, image: LoadedImage | None, start: int, end: int, memory: ByteSource | None = None
    ) -> None:
        """Make the code of a segment of an image, or of the agent, whose code is in `memory`."""
        self.image = image
        self.start = start
        self.end = end
        self.bias = start
        self.name = self.path = ""
        self.identity = b""  # same as `ElfImage.identity`
        self._memory = memory
        self._file: ImageFile | None = None
        self.inode = self.offset = 0
        self._table: FrameTable | bool | None = True
        if image is not None:
            self.bias = image.load_bias
            self.name = image.name
            self.path = "" if image.is_vdso else image.path
            self.inode = 0 if image.mapping is None else image.mapping.inode
            self.identity = self._identity_of(image)

    @classmethod
    def of_file(cls, file: ImageFile, segment: Segment, bias: int, identity: bytes) -> SampledImage:
        """Return a segment of a file, which need not be mapped any more.

        `identity` is the identity of the file's `elf`.
        """
        start = segment.vaddr + bias
        made = cls(None, start, start + segment.memsz)
        made._file, made.bias, made.inode = file, bias, file.inode
        made.offset = segment.offset
        made.path, made.name = file.path, os.path.basename(file.path)
        made.identity = identity
        return made

    def _identity_of(self, image: LoadedImage) -> bytes:
        try:
            if image.build_id or not self.inode:
                return image.build_id
            if image.file is not None:
                return image.file.elf.checksum
        except (SoscopeError, OSError):
            pass  # the image is damaged
        return _NO_IDENTITY  # by now, another file may be at its path

    def has(self, event: MapEvent) -> bool:
        """Return whether the mapped code is this code, or a part of it."""
        return (
            self.inode == event.inode
            and self.start - event.start == self.offset - event.offset
            and self.start - _PAGE < event.start < self.end
            and (self.path == event.path or not (self.inode and self.path))
        )

    def is_replaced_by(self, event: MapEvent) -> bool:
        """Return whether other code was mapped where this code is."""
        return event.start < self.end and self.start < event.end and not self.has(event)

    @property
    def is_agent(self) -> bool:
        """Return whether it is the code of soscope's agent."""
        return self._memory is not None

    def row(self, addr: int) -> tuple[Row, int, int] | None:
        """Return the unwind row for an address, and the range that it is valid for."""
        if self._table is True:
            self._table = self._make_table()
        if not isinstance(self._table, FrameTable):
            return None
        try:
            known = self._table.row_and_extent(addr - self.bias)
        except (SoscopeError, OSError):
            return None  # the tables are damaged
        if known is None:
            return None
        row, start, end = known
        return row, start + self.bias, end + self.bias

    def symbol(self, addr: int) -> str | None:
        """Return the name of the function at an address, by symbols in memory, or None."""
        if self.image is None:
            return None
        try:
            place = self.image.locator.at(addr - self.bias)
        except (SoscopeError, OSError):
            return None  # the symbols are damaged, but the frame still has an address
        return place.symbol.name if place.is_found and place.symbol is not None else None

    def _make_table(self) -> FrameTable | None:
        image = self.image
        try:
            if self._file is not None:
                return FrameTable(self._file.elf)
            if image is None:
                assert self._memory is not None
                return FrameTable(ElfImage.from_memory(self._memory, self.start))
            # The file if there is one, as reading memory would bring pages of it into the process.
            return FrameTable(image.elf if image.file is None else image.file.elf)
        except (SoscopeError, OSError):
            return None  # stacks end here, and are marked as not whole


class ImageMap:
    """The images of the process `pid`. Later images are found when code of them runs.

    Raises NoSuchProcess and NotPermitted.
    """

    def __init__(self, pid: int) -> None:
        self.space = Space(pid)
        if self.space.bits != arch.BITS:
            self.space.close()
            raise SoscopeError(f"a process of {self.space.bits} bits")
        self.generation = 0  # increased when images have come or gone
        self.images: Images = self._find()
        self._watch = Watch(self.images)
        self._starts: list[int] = []
        self._there: list[SampledImage] = []
        self._known: dict[tuple[int, int, str, bytes], SampledImage] = {}
        self._next = 0.0
        self._hidden: set[SampledImage] = set()
        self.is_told = False  # whether the kernel reports all mapped code
        self._take()

    def close(self) -> None:
        """Close the process's memory."""
        self.space.close()

    def at(self, addr: int) -> SampledImage | None:
        """Return the image whose code is at an address."""
        there = self._at(addr)
        if (
            there is None
            and not self.is_told
            and time.monotonic() >= self._next
            and self._has_changed()
        ):
            there = self._at(addr)
        return there

    def look(self) -> None:
        """Read the images again if the loader's lists have changed.

        Raises NoSuchProcess if the process has ended, or runs another program.
        """
        self.space.check()
        if not self._watch.holds():
            self._look_again()

    def are_same(self) -> bool:
        """Return whether the loader's lists have not changed."""
        return self._watch.holds()

    def look_late(self) -> None:
        """Read the images again after a stack was copied while they had changed.

        Until `show_all`, new images are hidden, as they may have come after the copy.
        """
        before = set(self._there)
        self._look_again()
        # An agent that is found again is a new object, and lies where no image came.
        self._hidden = {each for each in self._there if not each.is_agent} - before

    def show_all(self) -> None:
        """Show all images again."""
        self._hidden = set()
        self.generation += 1

    # ---- if the kernel reports all mapped code ----

    def gone(self, event: MapEvent) -> None:
        """Forget the code that lay where other code was mapped."""
        kept = [each for each in self._there if each.is_agent or not each.is_replaced_by(event)]
        if len(kept) != len(self._there):
            self._there = kept
            self._renew()

    def mapped(self, event: MapEvent) -> None:
        """Note that code of a file, or code of no file, was mapped.

        `at` finds no image for code of no file.
        """
        if any(each.has(event) for each in self._there):
            return  # known code whose access rights have changed, or that was found before
        self.gone(event)
        image = self._known_at(event)
        if image is None and event.inode and self._find_more():
            image = self._known_at(event)
        if image is None:
            image = self._of_file(event) if event.inode else None
        there = self._agent_at(event.start) if image is None else image
        if there is not None:
            self._there.append(there)
            self._there.sort(key=lambda each: each.start)
            self._renew()

    def _known_at(self, event: MapEvent) -> SampledImage | None:
        return next((known for known in self._known.values() if known.has(event)), None)

    def _find_more(self) -> bool:
        try:
            self._segments(self._find())
        except (SoscopeError, OSError):
            return False  # the process ends, or executes another program
        return True

    def _of_file(self, event: MapEvent) -> SampledImage | None:
        """Return code of a file that may be unmapped by now, None if its path has another file."""
        descriptor = open_regular(f"/proc/{self.space.tid}/root{event.path}")
        if descriptor is None:
            return None
        try:
            elf = ElfImage.from_source(FileSource(descriptor, event.path))
            segments, identity = elf.segments, elf.identity
        except (SoscopeError, OSError):
            os.close(descriptor)
            return None
        try:
            file = ImageFile(descriptor, event.path, event.inode, 0, elf)  # closes it
        except FormatError:
            return None  # the file is being written
        if os.fstat(descriptor).st_ino != event.inode:
            return None
        for segment in segments:
            if segment.type == c.PT_LOAD and segment.flags & c.PF_X:
                start = event.start + segment.vaddr % _PAGE
                made = SampledImage.of_file(file, segment, start - segment.vaddr, identity)
                if made.has(event):
                    key = made.start, made.end, made.path, made.identity
                    return self._known.setdefault(key, made)
        return None

    def _renew(self) -> None:
        self.generation += 1
        self._starts = [image.start for image in self._there]

    def is_agent(self, addr: int) -> bool:
        """Return whether the code before an address is the agent's."""
        there = self._at(addr - 1)
        return there is not None and there.is_agent

    def _at(self, addr: int) -> SampledImage | None:
        at = bisect_right(self._starts, addr) - 1
        there = self._there[at] if at >= 0 else None
        if there is None or addr >= there.end or there in self._hidden:
            return None
        return there

    def _find(self) -> Images:
        images = find_images(self.space)
        _ = images.all  # also images that are in no list of a loader
        return images

    def _has_changed(self) -> bool:
        """Read the images again if the mappings have changed. Return whether they have."""
        self._next = time.monotonic() + _PAUSE
        try:
            self.space.forget()
            if self.space.maps_text == self.images.seen_maps:
                return False
        except (SoscopeError, OSError):
            return False  # the process has ended
        return self._look_again()

    def _look_again(self) -> bool:
        try:
            self.images = self._find()
        except (SoscopeError, OSError):
            return False  # the process ends, or executes another program
        self._watch = Watch(self.images)
        self._take()
        return True

    def _take(self) -> None:
        there = self._segments(self.images)
        there += self._agents()
        there.sort(key=lambda image: image.start)
        self._there = there
        self._renew()

    def _segments(self, images: Images) -> list[SampledImage]:
        return [
            self._image(image, segment)
            for image in images.all
            for segment in image.segments
            if segment.type == c.PT_LOAD and segment.flags & c.PF_X
        ]

    def _agents(self) -> list[SampledImage]:
        """Return the code of soscope's agents, as return addresses may lead through it."""
        agents = [
            self._agent_at(mapping.start)
            for mapping in self.space.mappings
            if mapping.flags[2] == "x" and not mapping.offset
        ]
        return [agent for agent in agents if agent is not None]

    def _agent_at(self, start: int) -> SampledImage | None:
        memory = self.space.memory
        if memory.read(start + layout.BLOB_DATA, 8) != layout.INSIDE_MAGIC.to_bytes(8, "little"):
            return None
        return SampledImage(None, start, start + layout.BLOB_SIZE, memory)

    def _image(self, image: LoadedImage, segment: Segment) -> SampledImage:
        start = segment.vaddr + image.load_bias
        new = SampledImage(image, start, start + segment.memsz)
        new.offset = segment.offset
        key = start, new.end, new.path or new.name, new.identity
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = new
        return known


# Walks the copy of a stack, fast, as two rules find most frames.
#
# Where unwind tables have no rule (code that was made at run time), the walk follows the frame
# pointer if that leads to code.

MOST_FRAMES = 512
_WORD = 8
_FP, _SP, _PC = arch.FP_COLUMN, arch.SP_COLUMN, arch.PC_COLUMN

BY_SP, BY_FP, BY_ROW, LAST, NOTHING = range(5)  # ways to find the caller
# Kind, distance of the CFA, distance from the CFA to the saved frame pointer (0: not saved), row.
Rule = tuple[int, int, int, Row | None]
_NO_RULE: Rule = (NOTHING, 0, 0, None)


class Unwinder:
    """Walks stacks in one process, and remembers the rules of its code."""

    def __init__(self, images: ImageMap) -> None:
        self._images = images
        self._generation = images.generation
        self._known: dict[int, Rule] = {}
        self._starts: list[int] = []  # ranges of code with one rule
        self._rules: dict[int, tuple[int, Rule]] = {}

    def walk(self, registers: Registers, start: int, stack: bytes) -> tuple[list[int], bool]:
        """Return addresses, innermost first, and whether the walk reached the end of the stack.

        `stack` is the memory from `start` on, which is below the stack pointer: a function that
        is about to return has left there the words that its rules refer to. Each address is one
        too large: a return address is behind its call, and the innermost address is the program
        counter plus 1.
        """
        words = memoryview(stack)[: len(stack) & -_WORD].cast("Q")
        count = len(words)
        pc, sp, fp = registers.get(_PC) or 0, registers.get(_SP) or 0, registers.get(_FP) or 0
        addrs = [pc + 1]
        back = 0  # the innermost and an interrupted address are exact: 0
        known, find = self._known, self._find
        for _ in range(MOST_FRAMES):
            rule = known.get(pc - back)
            if rule is None:
                rule = find(pc - back)
            kind, distance, saved, row = rule
            if kind == BY_SP:
                cfa = sp + distance
            elif kind == BY_FP:
                cfa = fp + distance
            elif kind == LAST:
                return addrs, True
            elif kind == BY_ROW:
                assert row is not None
                if len(addrs) > 1:
                    registers = {_PC: pc, _SP: sp, _FP: fp}
                above = self._by_row(row, registers, words, start)
                if above is None:
                    return addrs, False
                pc, cfa, fp = above
                if not pc:
                    return addrs, True
                back = 0 if row.is_signal else 1
                if not row.is_signal and cfa <= sp:
                    return addrs, False
                sp = cfa
                addrs.append(pc + 1 - back)
                continue
            else:
                at = fp - start >> 3
                if not fp or not 0 <= at < count - 1 or fp % _WORD or fp < sp:
                    return addrs, False
                if self._images.at(words[at + 1] - 1) is None:
                    return addrs, False
                cfa, saved = fp + 2 * _WORD, -2 * _WORD
            at = cfa - start >> 3
            if not 0 < at <= count or cfa <= sp or cfa & 7:
                return addrs, False
            pc = words[at - 1]
            if saved:
                at += saved >> 3
                if at >= 0:  # else the function has restored the frame pointer already
                    fp = words[at] if at < count else 0
            sp, back = cfa, 1
            if not pc:
                return addrs, True
            addrs.append(pc)
        return addrs, False

    def _by_row(
        self, row: Row, registers: Registers, words: memoryview, start: int
    ) -> tuple[int, int, int] | None:
        """Return the caller's program counter, stack and frame pointer, None if not known."""

        def read(addr: int) -> int | None:
            at = addr - start >> 3
            if 0 <= at < len(words) and not addr & 7:
                return int(words[at])
            data = self._images.space.memory.read(addr, _WORD)
            return int.from_bytes(data, "little") if len(data) == _WORD else None

        try:
            above = caller(row, registers, read, _SP)
        except (FormatError, OSError):
            return None  # damaged rules, or the process has ended
        pc, sp = above.get(_PC), above.get(_SP)
        return None if pc is None or sp is None else (pc, sp, above.get(_FP) or 0)

    def _find(self, pc: int) -> Rule:
        if self._generation != self._images.generation:
            self._generation = self._images.generation
            self._known.clear()
            self._starts.clear()
            self._rules.clear()
        at = bisect_right(self._starts, pc) - 1
        if at >= 0:
            end, rule = self._rules[self._starts[at]]
            if pc < end:
                self._known[pc] = rule
                return rule
        image = self._images.at(pc)
        known = None if image is None else image.row(pc)
        if known is None:
            return _NO_RULE  # the rule is not kept, as code made at run time changes
        row, start, end = known
        rule = _rule_of(row)
        if start not in self._rules:
            insort(self._starts, start)
        self._rules[start] = end, rule
        self._known[pc] = rule
        return rule


def _rule_of(row: Row) -> Rule:
    """Return the short form of a row, if it has one."""
    if row.is_last:
        return LAST, 0, 0, row
    rules = row.rules
    by_fp = rules.get(_FP)
    is_plain = (
        row.expression is None
        and row.register in (_SP, _FP)
        and row.returns == _PC
        and not row.is_signal
        and rules.get(_PC) == (AT_CFA, -_WORD)
        and _SP not in rules
        and (by_fp is None or by_fp[0] == AT_CFA)
    )
    if not is_plain:
        return BY_ROW, 0, 0, row
    saved = by_fp[1] if by_fp is not None else 0
    assert isinstance(saved, int)
    return BY_SP if row.register == _SP else BY_FP, row.offset, saved, row
