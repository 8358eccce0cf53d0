# SPDX-License-Identifier: Apache-2.0
"""The images of a process by address, with their unwind tables, as long as it is sampled."""

from __future__ import annotations

import time
from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.cfi import FrameTable, Row
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import ByteSource
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.images import Images, find_images
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.wire import layout

_PAUSE = 0.1  # seconds between looks at images that come


class SampledImage:
    """Code of one image, [start, end) at run time; `image` None: it is the agent's."""

    __slots__ = ("_memory", "_table", "bias", "build_id", "end", "image", "name", "path", "start")

    def __init__(
        self, image: LoadedImage | None, start: int, end: int, memory: ByteSource | None = None
    ) -> None:
        """Take a segment of an image; the agent's whole code, which `memory` has."""
        self.image = image
        self.start = start
        self.end = end
        self.bias = start
        self.name = self.path = ""
        self.build_id = b""
        self._memory = memory
        self._table: FrameTable | bool | None = True
        if image is not None:
            self.bias = image.load_bias
            self.name = image.name
            self.path = "" if image.is_vdso else image.path
            try:
                self.build_id = image.build_id
            except FormatError:
                pass  # its notes are damaged

    def row(self, addr: int) -> tuple[Row, int, int] | None:
        """Return what the unwind tables say of an address, and of which ones that is true."""
        if self._table is True:
            self._table = self._make_table()
        if not isinstance(self._table, FrameTable):
            return None
        try:
            known = self._table.row_and_extent(addr - self.bias)
        except (SoscopeError, OSError):
            return None  # damaged tables say nothing
        if known is None:
            return None
        row, start, end = known
        return row, start + self.bias, end + self.bias

    def symbol(self, addr: int) -> str | None:
        """Return the name of the function that an address is in, by what is in memory."""
        if self.image is None:
            return None
        try:
            place = self.image.locator.at(addr - self.bias)
        except (SoscopeError, OSError):
            return None  # its symbols are damaged: the frame has an address
        return place.symbol.name if place.is_found and place.symbol is not None else None

    def _make_table(self) -> FrameTable | None:
        image = self.image
        try:
            if image is None:
                assert self._memory is not None
                return FrameTable(ElfImage.from_memory(self._memory, self.start))
            # the file, where there is one: reading memory would bring pages of it into the process
            return FrameTable(image.elf if image.file is None else image.file.elf)
        except (SoscopeError, OSError):
            return None  # stacks end there, and are said not to be whole


class ImageMap:
    """The images of the process `pid`; those that come later are found when code of them runs.

    Raises NoSuchProcess and NotPermitted.
    """

    def __init__(self, pid: int) -> None:
        self.space = Space(pid)
        if self.space.bits != arch.BITS:
            self.space.close()
            raise SoscopeError(f"a process of {self.space.bits} bits")
        self.generation = 0  # grows when images have come or gone
        self.images: Images = self._find()
        self._watch = Watch(self.images)
        self._starts: list[int] = []
        self._there: list[SampledImage] = []
        self._known: dict[tuple[int, int, str, bytes], SampledImage] = {}
        self._next = 0.0
        self._take()

    def close(self) -> None:
        """Let go of the process's memory."""
        self.space.close()

    def at(self, addr: int) -> SampledImage | None:
        """Return the image whose code is at an address."""
        there = self._at(addr)
        if there is None and time.monotonic() >= self._next and self._has_changed():
            there = self._at(addr)
        return there

    def look(self) -> None:
        """See whether the loader's lists are still the same; else look at the images again.

        Raises NoSuchProcess where the process has ended, or runs another program.
        """
        self.space.check()
        if not self._watch.holds():
            self._look_again()

    def is_agent(self, addr: int) -> bool:
        """Return whether the code in front of an address is soscope's own."""
        there = self._at(addr - 1)
        return there is not None and there.image is None

    def _at(self, addr: int) -> SampledImage | None:
        at = bisect_right(self._starts, addr) - 1
        there = self._there[at] if at >= 0 else None
        return there if there is not None and addr < there.end else None

    def _find(self) -> Images:
        images = find_images(self.space)
        _ = images.all  # those that no list names, too
        return images

    def _has_changed(self) -> bool:
        """Look at the images again, if the mappings are others; return whether they are."""
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
            return False  # it ends, or executes another program
        self._watch = Watch(self.images)
        self._take()
        return True

    def _take(self) -> None:
        self.generation += 1
        there = []
        for image in self.images.all:
            for segment in image.segments:
                if segment.type == c.PT_LOAD and segment.flags & c.PF_X:
                    start = segment.vaddr + image.load_bias
                    there.append(self._image(image, start, start + segment.memsz))
        there += self._agents()
        there.sort(key=lambda image: image.start)
        self._there = there
        self._starts = [image.start for image in there]

    def _agents(self) -> list[SampledImage]:
        """Return the code of soscope's agents: return addresses may lead through it."""
        memory, agents = self.space.memory, []
        magic = layout.INSIDE_MAGIC.to_bytes(8, "little")
        for mapping in self.space.mappings:
            start = mapping.start
            is_first = mapping.flags[2] == "x" and not mapping.offset
            if is_first and memory.read(start + layout.BLOB_DATA, 8) == magic:
                agents.append(SampledImage(None, start, start + layout.BLOB_SIZE, memory))
        return agents

    def _image(self, image: LoadedImage, start: int, end: int) -> SampledImage:
        new = SampledImage(image, start, end)
        key = start, end, new.path or new.name, new.build_id
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = new
        return known
