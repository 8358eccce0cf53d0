# SPDX-License-Identifier: Apache-2.0
"""One image of an inspected process, and the file that it was mapped from."""

from __future__ import annotations

import errno
import os
import stat

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
from soscope.binfmt.source import READING, ByteSource, FileSource
from soscope.errors import FormatError
from soscope.live.images.space import Space, open_same
from soscope.proc.maps import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.symboltable import SymbolTable
    from soscope.live.names.locate import Locator
    from soscope.live.names.staticnames import ImageNames
    from soscope.model.arch import Arch


# One image of a process: a link map entry, and everything that can be read from it.
#
# All data except its address is read on first use, because a look-up needs only a few of five
# hundred images.

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


# Open the file of an image: the mapped file, not the file that has its name now.
#
# The mapping that contains the dynamic section leads to it. `/proc/PID/map_files` opens exactly
# that file, even if it was renamed or deleted. If that is not allowed, a path is used whose inode
# is the mapping's. Finally the build-id in memory must match.


class SliceSource(ByteSource):
    """A file inside another file (an uncompressed member of an archive)."""

    __slots__ = ("_base", "_source")

    def __init__(self, source: ByteSource, base: int) -> None:
        super().__init__(source.name)
        self._source = source
        self._base = base

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset` of the inner file."""
        return self._source.read(self._base + offset, size) if offset >= 0 else b""


class ImageFile:
    """An open file from which an image was mapped.

    `base` is the offset of its ELF header, which is 0 except for a member of an archive. `path`
    is the kernel's path, as the process sees it. `source` reads the file from `base` on.
    """

    __slots__ = ("base", "build_id", "descriptor", "elf", "inode", "path", "source")

    def __init__(self, descriptor: int, path: str, inode: int, base: int, elf: ElfImage) -> None:
        """Take ownership of the descriptor; `elf` reads from `base` on.

        Raises FormatError if the file's notes are damaged.
        """
        self.descriptor = descriptor
        self.path = path
        self.inode = inode
        self.base = base
        self.source = elf.source
        self.elf = elf
        self.build_id = elf.build_id

    def __del__(self) -> None:
        os.close(self.descriptor)


def open_file(image: LoadedImage) -> ImageFile | None:
    """Open the file from which `image` was mapped, None if it cannot be opened."""
    if image.is_vdso:
        return None
    mapping = image.mapping
    if mapping is None or not mapping.inode:
        return None
    if not image.space.is_here:
        for descriptor in image.space.files_at(mapping.path):
            file = _taken(image, mapping, descriptor)
            if file is not None:
                return file
        return None
    opened = _open(image, mapping)
    return None if opened is None else _taken(image, mapping, opened)


def _taken(image: LoadedImage, mapping: Mapping, descriptor: int) -> ImageFile | None:
    """Return an open file if `image` was mapped from it; otherwise close it and return None."""
    member = _elf_in(image, mapping, descriptor)
    if member is None:
        os.close(descriptor)
        return None
    try:
        file = ImageFile(descriptor, image.path, mapping.inode, *member)
    except FormatError:
        return None
    return file if _agrees(image, file) else None


def _with_room(path: str) -> int:
    """Open a file; raise the limit of descriptors first if a process with many images needs it."""
    try:
        return os.open(path, READING)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return os.open(path, READING)


def _open(image: LoadedImage, mapping: Mapping) -> int | None:
    tid = image.space.tid
    # The names in map_files, unlike the addresses in maps, have no leading zeros.
    path = f"/proc/{tid}/map_files/{mapping.start:x}-{mapping.end:x}"
    try:
        descriptor = _with_room(path)
    except OSError:  # needs CAP_CHECKPOINT_RESTORE, or the mapping has changed
        name = mapping.path.replace("\\012", "\n")
        return open_same(
            (f"/proc/{tid}/exe", f"/proc/{tid}/root{name}", name),
            mapping.inode,
        )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _elf_in(image: LoadedImage, mapping: Mapping, descriptor: int) -> tuple[int, ElfImage] | None:
    """Return the offset of the image's ELF header in the file, and the ELF image there.

    Return None if no ELF header in the file can be the image's.
    """
    whole = FileSource(descriptor, image.path)
    starts = [piece.offset for piece in image.space.mappings_of(mapping.inode) if piece.offset]
    for start in (0, *starts):
        source = SliceSource(whole, start) if start else whole
        try:
            elf = ElfImage.from_source(source)
        except FormatError:
            continue  # not an ELF image: try another member
        wanted = c.PT_DYNAMIC if image.dynamic else c.PT_LOAD
        for segment in elf.segments:
            addr = segment.vaddr + image.load_bias
            if segment.type == wanted and mapping.start <= addr < mapping.end:
                return start, elf
    return None


def _agrees(image: LoadedImage, file: ImageFile) -> bool:
    """Return whether the file matches the memory, by build-id and program headers."""
    if image.has_no_segments_yet:  # the image's program headers may have to be read from this file
        return True
    ours = [
        (segment.type, segment.offset, segment.vaddr, segment.filesz) for segment in image.segments
    ]
    theirs = [
        (segment.type, segment.offset, segment.vaddr, segment.filesz)
        for segment in file.elf.segments
    ]
    if ours != theirs:
        return False
    try:
        mapped = image.build_id
    except FormatError:
        return True
    return not mapped or not file.build_id or mapped == file.build_id
