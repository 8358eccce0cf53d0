# SPDX-License-Identifier: Apache-2.0
"""One image of a process: a link map entry, and everything that can be read from it.

All data except its address is read on first use, because a look-up needs only a few of five
hundred images.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import (
    Dynamic,
    Encoding,
    Segment,
    encoding,
    read_header,
    read_segments,
    unpack_segments,
)
from soscope.errors import FormatError
from soscope.live.images.space import Space
from soscope.proc.maps import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported when a symbol is needed
    from soscope.binfmt.elf.symbols.table import SymbolTable
    from soscope.live.images.imagefile import ImageFile
    from soscope.live.names.locate import Locator
    from soscope.live.names.staticnames import ImageNames
    from soscope.model.arch import Arch

_DELETED = " (deleted)"
_HEAD = 1024  # bytes; enough for nearly every ELF header with program headers


class LoadedImage:
    """One image; `index` counts in link-map order, `namespace` is 0 unless dlmopen loaded it.

    `load_bias` may be negative. `dynamic` is the run-time address of its dynamic section, 0 if it
    has none. `link_map` is the address of its entry, 0 for an image that is in no link map.
    """

    __slots__ = (
        "_arch",
        "_build_id",
        "_elf",
        "_file",
        "_loader_name",
        "_locator",
        "_name",
        "_name_addr",
        "_names",
        "_path",
        "_ranges",
        "_reader",
        "_segments",
        "_symbols",
        "dynamic",
        "index",
        "is_main",
        "is_vdso",
        "link_map",
        "load_bias",
        "namespace",
        "space",
    )

    def __init__(
        self,
        space: Space,
        index: int,
        namespace: int,
        load_bias: int,
        dynamic: int,
        *,
        link_map: int = 0,
        name_addr: int = 0,
        segments: list[Segment] | None = None,
        is_main: bool = False,
        is_vdso: bool = False,
    ) -> None:
        self.space = space
        self._arch: tuple[Arch | None, ...] = ()
        self.index = index
        self.namespace = namespace
        # a prelinked image may lie below its link-time address
        self.load_bias = load_bias - (1 << space.bits if load_bias > dynamic > 0 else 0)
        self.dynamic = dynamic
        self.link_map = link_map
        self.is_main = is_main
        self.is_vdso = is_vdso
        self._name_addr = name_addr
        self._segments = segments
        self._ranges: list[tuple[int, int]] | None = None
        self._loader_name: str | None = None
        self._name: str | None = None
        self._path: str | None = None
        self._build_id: bytes | None = None
        self._elf: ElfImage | None = None
        self._reader: ElfImage | None = None
        self._symbols: SymbolTable | None = None
        self._file: ImageFile | bool | None = False
        self._names: ImageNames | None = None
        self._locator: Locator | None = None

    def __repr__(self) -> str:
        """Show its name and its load bias."""
        return f"<LoadedImage {self.name} at {self.load_bias:#x}>"

    # ---- names ----

    @property
    def loader_name(self) -> str:
        """`l_name`, the path that the loader opened; "" for the program itself."""
        if self._loader_name is None:
            text = self.space.read(self._name_addr, 256) if self._name_addr else b""
            if text and b"\0" not in text:
                text = self.space.read(self._name_addr, 4096)
            self._loader_name = os.fsdecode(text.split(b"\0", 1)[0])
        return self._loader_name

    @property
    def path(self) -> str:
        """The kernel's path, else the loader's; without "(deleted)"."""
        if self._path is None:
            mapping = self.mapping
            path = "" if mapping is None else mapping.path.replace("\\012", "\n")
            if mapping is not None and path.endswith(_DELETED):
                path = self._without_mark(path, mapping)
            if not path or path.startswith("["):
                path = self.loader_name or path
            self._path = path
        return self._path

    def _without_mark(self, path: str, mapping: Mapping) -> str:
        """Remove the kernel's " (deleted)", unless the file name itself ends so."""
        try:
            if os.stat(f"{self.space.roots[0]}{path}").st_ino == mapping.inode:
                return path
        except OSError:
            pass  # no file has that name: the kernel added the suffix
        return path.removesuffix(_DELETED)

    @property
    def name(self) -> str:
        """The last part of its path, by which users know it; the loader's path comes first."""
        if self._name is None:
            loader = self.loader_name
            if not loader or loader.startswith("/proc/"):
                loader = self.path
            self._name = os.path.basename(loader) or loader
        return self._name

    @property
    def soname(self) -> str:
        """The DT_SONAME, "" if there is none or it cannot be read."""
        try:
            return self.reader.soname or ""
        except FormatError:
            return ""

    def is_called(self, text: str) -> bool:
        """Return whether `text` is its soname, file name or path."""
        names = {self.loader_name, self.name, self.path, os.path.basename(self.path), self.soname}
        return text in names - {""}

    # ---- contents ----

    @property
    def encoding(self) -> Encoding:
        """The class and byte order of its numbers."""
        return encoding(self.space.bits, self.space.order)

    @property
    def mapping(self) -> Mapping | None:
        """The mapping that contains its dynamic section, else its first segment."""
        addr = self.dynamic
        if not addr:
            loads = [segment for segment in self.segments if segment.type == c.PT_LOAD]
            addr = loads[0].vaddr + self.load_bias if loads else 0
        return self.space.mapping_at(addr)

    @property
    def machine(self) -> int:
        """The e_machine of its ELF header, 0 if that is neither mapped nor in its file."""
        head = self.space.read(self.ranges[0][0], 20) if self.ranges else b""
        if head[:4] == b"\x7fELF":
            return int.from_bytes(head[18:20], self.space.endian)
        header = None if self.file is None else self.file.elf.header
        return 0 if header is None else header.machine

    @property
    def arch(self) -> Arch | None:
        """The row of model/arch.py for its machine; if that is not known, for the process's."""
        if not self._arch:
            from soscope.model.arch import arch_of_process

            self._arch = (arch_of_process(self.machine, self.space.bits, self.space.order),)
        return self._arch[0]

    @property
    def segments(self) -> list[Segment]:
        """The program headers; empty if they are neither mapped nor in its file."""
        if self._segments is None:
            self._segments = self._find_segments()
        return self._segments

    @property
    def elf(self) -> ElfImage:
        """The image as it is in memory."""
        if self._elf is None:
            self._elf = ElfImage(
                self.space.memory,
                encoding=self.encoding,
                header=None,
                segments=self.segments,
                load_bias=self.load_bias,
                is_mapped=True,
                dynamic=self.reader.dynamic if self.dynamic else None,
            )
        return self._elf

    @property
    def build_id(self) -> bytes:
        """The GNU build-id in its memory, empty if there is none.

        Raises FormatError if its notes are damaged.
        """
        if self._build_id is None:
            self._build_id = ElfImage(  # not `elf`, which reads the whole dynamic section
                self.space.memory,
                encoding=self.encoding,
                header=None,
                segments=self.segments,
                load_bias=self.load_bias,
                is_mapped=True,
            ).build_id
        return self._build_id

    @property
    def reader(self) -> ElfImage:
        """The tables of its dynamic section; this does not read the program headers.

        Raises FormatError if the dynamic section cannot be read.
        """
        if self._reader is None:
            coding, memory = self.encoding, self.space.memory
            self._reader = ElfImage(
                memory,
                encoding=coding,
                header=None,
                segments=[],
                load_bias=self.load_bias,
                is_mapped=True,
                dynamic=Dynamic.read(memory, coding, self.dynamic) if self.dynamic else Dynamic([]),
            )
        return self._reader

    @property
    def symbols(self) -> SymbolTable:
        """The dynamic symbols.

        Raises FormatError if the dynamic section cannot be read.
        """
        if self._symbols is None:
            self._symbols = self.reader.symbols
        return self._symbols

    @property
    def file(self) -> ImageFile | None:
        """The file that was mapped, None if it cannot be opened any more."""
        if isinstance(self._file, bool):
            from soscope.live.images.imagefile import open_file

            self._file = open_file(self)
        return self._file

    @property
    def names(self) -> ImageNames:
        """The static symbols of its own file and of debug files."""
        if self._names is None:
            from soscope.live.names.staticnames import ImageNames

            file = self.file
            try:
                build_id = self.build_id
            except FormatError:
                build_id = b"" if file is None else file.build_id
            self._names = ImageNames(
                None if file is None else file.elf,
                build_id=build_id,
                path=self.path,
                roots=self.space.roots,
            )
        return self._names

    @property
    def locator(self) -> Locator:
        """Symbols by link-time address."""
        if self._locator is None:
            from soscope.live.names.locate import DYNAMIC, MEMORY, VDSO, Locator

            rule = VDSO if self.is_vdso else DYNAMIC if self.link_map or self.is_main else MEMORY
            # prefer the file, because a tracer changes what is in memory
            elf = self.elf if self.file is None else self.file.elf
            self._locator = Locator(elf, self.names, rule=rule)
        return self._locator

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The run-time addresses (start, end) of its PT_LOADs, sorted."""
        if self._ranges is None:
            bias = self.load_bias
            self._ranges = sorted(
                (segment.vaddr + bias, segment.vaddr + segment.memsz + bias)
                for segment in self.segments
                if segment.type == c.PT_LOAD
            )
        return self._ranges

    @property
    def mappings(self) -> list[Mapping]:
        """The mappings that contain a part of its PT_LOADs."""
        from bisect import bisect_left, bisect_right

        ranges = self.ranges
        every = self.space.mappings
        if not ranges:
            return []
        low = bisect_right(every, ranges[0][0], key=lambda mapping: mapping.end)
        high = bisect_left(every, ranges[-1][1], low, key=lambda mapping: mapping.start)
        return [
            mapping
            for mapping in every[low:high]
            if any(mapping.start < end and start < mapping.end for start, end in ranges)
        ]

    def executes(self, addr: int) -> bool:
        """Return whether `addr` lies in one of its executable segments."""
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_X
            and 0 <= addr - self.load_bias - segment.vaddr < segment.memsz
            for segment in self.segments
        )

    def contains(self, addr: int) -> bool:
        """Return whether `addr` lies in one of its PT_LOADs."""
        return any(start <= addr < end for start, end in self.ranges)

    @property
    def has_no_segments_yet(self) -> bool:
        """Return whether its program headers have not been read yet."""
        return self._segments is None

    def take_segments(self, segments: list[Segment]) -> None:
        """Set the program headers, which the caller has read already."""
        self._segments = segments
        self._ranges = None

    def _find_segments(self) -> list[Segment]:
        """Read the program headers at the start of the image, which is nearly always l_addr."""
        segments = self._segments_at(self.load_bias)
        if segments is not None:
            return segments
        mapping = self.space.mapping_at(self.dynamic)
        if mapping is not None and mapping.inode:
            same = self.space.mappings_of(mapping.inode)
            for candidate in reversed([piece for piece in same if piece.start <= mapping.start]):
                segments = self._segments_at(candidate.start)
                if segments is not None:
                    return segments
        # its file is found by its dynamic section, else by these segments
        file = self.file if self.dynamic else None
        return [] if file is None else file.elf.segments

    def _segments_at(self, addr: int) -> list[Segment] | None:
        """Return the program headers of the ELF header at `addr`, if it is this image's."""
        head = self.space.read(addr, _HEAD)
        if head[:4] != b"\x7fELF":
            return None
        coding = self.encoding
        try:
            header = read_header(self.space.memory, addr)
            size = header.phnum * coding.segment.size
            if header.phentsize == coding.segment.size and header.phoff + size <= len(head):
                segments = unpack_segments(coding, head[header.phoff : header.phoff + size])
            else:
                segments = read_segments(self.space.memory, header, addr)
        except FormatError:
            return None
        for segment in segments:
            if segment.type == c.PT_DYNAMIC and segment.vaddr + self.load_bias == self.dynamic:
                return segments
        return None
