# SPDX-License-Identifier: Apache-2.0
"""The files and the address space of a program that a GDB stub holds."""

from __future__ import annotations

import os
from contextlib import suppress

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import Segment, encoding, read_header, read_segments
from soscope.binfmt.source import READING, BufferSource
from soscope.entry.remote.packets import RemoteAddress
from soscope.entry.remote.stub import RemoteFiles, RemoteStub, StubMemory
from soscope.errors import FormatError, LaunchError, RemoteError
from soscope.linker.machine import is_native, kind_of, machine_of
from soscope.linker.paths import Root
from soscope.live.images import linkmaps
from soscope.live.images.images import find_images
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.live.process import Process
from soscope.proc import maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# Find the files of a stub's program: below a sysroot, by the stub, or on this machine.
#
# A file on this machine may not be the one that the program uses, so callers compare it with
# memory.

_ORDERS = {"<": "little-endian", ">": "big-endian"}


class FoundFiles:
    """Opens these files. `program` is the program's file, `sysroot` the root of others ("": /)."""

    __slots__ = ("_elf", "_given", "_stub", "program", "sysroot")

    def __init__(
        self, stub: RemoteStub, pid: int, program: str | None, sysroot: str | None
    ) -> None:
        """Take the user's options. Raises LaunchError for a file that cannot be read."""
        if sysroot and not os.path.isdir(sysroot):
            raise LaunchError(f"--sysroot {sysroot}: there is no such directory", slug="sysroot")
        self._stub = RemoteFiles(stub, pid)
        self._given = "" if program is None else os.path.abspath(program)
        self._elf = None if program is None else read_image(program)
        self.program: str | None = self._given
        self.sysroot = sysroot or ""
        self._look_for_system()

    def _look_for_system(self) -> None:
        """Use the files of Debian's cross libraries, if the user has given no sysroot."""
        elf = self._elf
        if elf is None or self.sysroot or is_native(kind_of(elf)):
            return
        flags = elf.header.flags if elf.header else 0
        folder = f"/usr/{machine_of(kind_of(elf), flags).triplet}"
        self.sysroot = folder if os.path.isdir(folder) else ""

    def told(self, path: str, segments: list[Segment]) -> None:
        """Take the stub's path of its program. The file may not exist on this machine."""
        self.program = path
        try:
            elf = read_image(path)
        except LaunchError:
            return  # the file is in another system
        if _shape(elf.segments) == _shape(segments):
            self._elf = elf
            self._look_for_system()

    def compare(self, segments: list[Segment], bits: int, order: str) -> None:
        """Raise RemoteError if the file that the user named is not the stub's program."""
        if self._elf is not None:
            compare(self._elf, self._given, segments, bits, order)

    def there(self, path: str) -> bytes | None:
        """Return the content of a file of the stub's system, None if the stub cannot read it."""
        return self._stub.read(path)

    def opened(self, path: str) -> Iterator[int]:
        """Yield descriptors of the files that may be the program's `path`."""
        if path == self._given:
            yield from _descriptors(path)
        if self.sysroot:
            yield from _descriptors(Root(self.sysroot).host(path))
        content = self._stub.read(path)
        if content is not None:
            descriptor = os.memfd_create("soscope-file", os.MFD_CLOEXEC)
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield descriptor
        yield from _descriptors(path)


def compare(elf: ElfImage, path: str, segments: list[Segment], bits: int, order: str) -> None:
    """Raise RemoteError if the file at `path` is not the program that has these `segments`."""
    coding = elf.encoding
    if coding.order != order:
        raise RemoteError(
            f"{path} is {_ORDERS[coding.order]}, and the stub's program is {_ORDERS[order]}"
        )
    if coding.bits != bits:
        raise RemoteError(f"{path} has {coding.bits} bits, and the stub's program has {bits}")
    if _shape(elf.segments) != _shape(segments):
        raise RemoteError(f"the stub's program is not {path}")


def _descriptors(path: str) -> Iterator[int]:
    """Yield the descriptor of a file, if it can be read."""
    try:
        yield os.open(path, READING)
    except OSError:
        return  # the file cannot be read


def read_image(path: str) -> ElfImage:
    """Return the ELF image of a file. Raises LaunchError."""
    try:
        with open(path, "rb") as file:
            return ElfImage.from_source(BufferSource(file.read(), path))
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise LaunchError(f"cannot read '{path}': {reason}", errno=error.errno) from error
    except FormatError as error:
        raise LaunchError(f"'{path}' is no program: {error.message}") from error


def _shape(segments: list[Segment]) -> list[tuple[int, int, int]]:
    return [(each.offset, each.vaddr, each.filesz) for each in segments if each.type == c.PT_LOAD]


# The address space of a program that a stub holds, with the interface of `live`.
#
# The program is stopped until it is released, so nothing in it changes. If the stub opens files of
# the program's own system, /proc there lists the mappings, as it would here. Otherwise the program
# headers of the images in the loader's list are used.

_PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_LONGEST_PATH = 4096
_FLAGS_MEMORY = ((c.PF_R, "r"), (c.PF_W, "w"), (c.PF_X, "x"))


class RemoteSpace(Space):
    """The program of `stub`. `pid` and `tid` are the stub's numbers of the process and thread.

    `files` are the files of its images. `close` resumes the program.
    """

    __slots__ = ("_stub", "_told", "endian", "files", "order")

    is_here = False
    is_still = True

    def __init__(self, stub: RemoteStub, program: str | None, sysroot: str | None) -> None:
        """Examine the program, whose file is `program` if it is known, with its `sysroot`.

        Raises RemoteError, and LaunchError for a `program` that cannot be read.
        """
        self._stub = stub
        self._told: bool | None = None
        self.start = 0
        self.tid = stub.tid
        self.pid = stub.pid or self.tid
        self.endian = "little"
        self._held = None
        self._is_closed = False
        self._starts = []
        data = stub.object("auxv")
        if data is None:
            raise RemoteError("the stub does not say where its program is (qXfer:auxv)")
        self.auxv, self.bits, self.order = _vector(data)
        if self.order == ">":
            self.endian = "big"
        stub.use_order(self.order)
        self.memory = StubMemory(stub, self.bits)
        self.files = FoundFiles(stub, self.pid, program or None, sysroot)
        self.forget()
        if not program:
            self.files.told(self._program_path(), self.headers())
        else:
            self.files.compare(self.headers(), self.bits, self.order)

    @property
    def is_patchwork(self) -> bool:
        """Return False: files never replace the memory."""
        return False

    @property
    def roots(self) -> list[str]:
        """The root directories for the program's paths."""
        return [self.files.sysroot.rstrip("/")]

    def check(self) -> None:
        """Check that it was not closed. Raises SoscopeError."""
        self.check_open()

    def close(self) -> None:
        """Resume the program without a tracer. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._stub.let_go()

    def told(self, name: str) -> bytes:
        """Return the text of the program's file `name` in /proc. Raises OSError."""
        if self._told is None:
            # An emulator's /proc describes the emulator, not the program.
            self._told = self.files.there(f"/proc/{self.pid}/auxv") == self._stub.object("auxv")
        text = self.files.there(f"/proc/{self.pid}/{name}") if self._told else None
        if text is None:
            raise FileNotFoundError(f"/proc/{self.pid}/{name}")
        return text

    def files_at(self, path: str) -> Iterator[int]:
        """Yield descriptors of files that may be the program's `path`."""
        return self.files.opened(path)

    def thread_pointer(self, tid: int) -> int | None:
        """Return the thread pointer of a thread, None if the stub does not report it."""
        register = self._stub.registers.get("fs_base")
        if register is None or self.bits != 64:
            return None
        name = self._stub.thread.rpartition(".")[0]
        chosen = f"{name}.{tid:x}" if name else f"{tid:x}"
        if self._stub.ask(b"Hg" + chosen.encode()) != b"OK":
            return None
        answer = self._stub.ask(b"g")
        self._stub.ask(b"Hg" + self._stub.thread.encode())
        digits = answer[2 * register.offset : 2 * (register.offset + register.size)]
        try:
            return int.from_bytes(bytes.fromhex(digits.decode("ascii")), self.endian) or None
        except ValueError:
            return None  # the stub has the register, but not its value

    @property
    def threads(self) -> list[int]:
        """The ids of the threads, as the stub numbers them."""
        listed: list[int] = []
        for name in self._stub.threads():
            with suppress(ValueError):  # stubs choose thread names freely
                listed.append(int(name.rpartition(".")[2].lstrip("p"), 16))
        return sorted(listed) or [self.tid]

    # ---- mappings ----

    @property
    def maps_text(self) -> bytes:
        """The mappings in the format of /proc/PID/maps.

        They come from the stub, or from program headers if the stub does not list mappings.
        """
        if self._text is None:
            try:
                self._text = self.told("maps")
            except OSError:
                lines = list(self._lines_of_images())
                lines.sort(key=maps.start_of)
                self._text = b"".join(lines)
        return self._text

    def _lines_of_images(self) -> Iterator[bytes]:
        """Yield lines for the program headers of all images."""
        for number, (bias, path, segments) in enumerate(self._images(), 1):
            for segment in segments:
                if segment.type == c.PT_LOAD and segment.memsz:
                    yield self._line(segment, bias, number, path)

    def _line(self, segment: Segment, bias: int, number: int, path: str) -> bytes:
        page = self.auxv[maps.AT_PAGESZ]
        mask = (1 << self.bits) - 1
        start = (bias + segment.vaddr & mask) // page * page
        end = -(-(bias + segment.vaddr + segment.memsz & mask) // page) * page
        flags = "".join(letter if segment.flags & bit else "-" for bit, letter in _FLAGS_MEMORY)
        offset = segment.offset // page * page
        text = f"{start:08x}-{end:08x} {flags}p {offset:08x} 00:00 {number} {path}\n"
        return os.fsencode(text)

    def _images(self) -> Iterator[tuple[int, str, list[Segment]]]:
        """Yield bias, path and program headers of the program and of the loader's images."""
        coding = encoding(self.bits, self.order)
        main = self.headers()
        bias = self.bias(main)
        yield bias, self.files.program or "", main
        dynamic = next((each.vaddr + bias for each in main if each.type == c.PT_DYNAMIC), 0)
        seen = {dynamic}
        base = self.auxv.get(maps.AT_BASE, 0)
        listed: list[tuple[int, str]] = []
        try:
            debug = linkmaps.find_debug(self.memory, coding, dynamic) if dynamic else 0
            if debug:
                entries = linkmaps.read_list(self.memory, coding, debug).images
                listed = [(entry.load_bias, entry.path) for entry in entries if entry.path]
        except FormatError:
            pass  # incomplete list: only the kernel's mappings are known
        if base and all(bias != base for bias, _ in listed):
            listed.append((base, self._interpreter(main, bias)))
        for bias, path in listed:
            segments = self._segments_at(bias)
            dynamic = next((each.vaddr + bias for each in segments if each.type == c.PT_DYNAMIC), 0)
            if dynamic not in seen:
                seen.add(dynamic)
                yield bias, path, segments

    def headers(self) -> list[Segment]:
        """Return the program headers of the program. Raises RemoteError."""
        at, count = self.auxv.get(maps.AT_PHDR, 0), self.auxv.get(maps.AT_PHNUM, 0)
        try:
            return linkmaps.program_segments(
                self.memory, encoding(self.bits, self.order), at, count
            )
        except FormatError as error:
            raise RemoteError(f"the program's headers cannot be read: {error.message}") from error

    def bias(self, segments: list[Segment]) -> int:
        """Return the program's load bias, computed from its program headers."""
        at = self.auxv.get(maps.AT_PHDR, 0)
        vaddr = next((each.vaddr for each in segments if each.type == c.PT_PHDR), None)
        if vaddr is not None:
            return at - vaddr
        head = encoding(self.bits, self.order).header.size
        first = next(
            (each for each in segments if each.type == c.PT_LOAD and not each.offset), None
        )
        return at - head - first.vaddr if first is not None else 0

    def _segments_at(self, addr: int) -> list[Segment]:
        try:
            return read_segments(self.memory, read_header(self.memory, addr), addr)
        except FormatError:
            return []  # prelinked to an address: its mappings are not known

    def _interpreter(self, segments: list[Segment], bias: int) -> str:
        for segment in segments:
            if segment.type == c.PT_INTERP:
                return self._string(segment.vaddr + bias)
        return ""

    def _string(self, addr: int) -> str:
        data = self.memory.read(addr, _LONGEST_PATH)
        return os.fsdecode(data.partition(b"\0")[0])

    def _program_path(self) -> str:
        """Return the path of the program's file that the stub reports, "" if it does not."""
        told = self._stub.object("exec-file", f"{self.pid:x}")
        if told:
            return os.fsdecode(told)
        name = self.auxv.get(maps.AT_EXECFN, 0)
        return self._string(name) if name else ""


def _vector(data: bytes) -> tuple[dict[int, int], int, str]:
    """Return the auxiliary vector, the bits of an address, and the byte order."""
    for bits, order in ((64, "<"), (64, ">"), (32, "<"), (32, ">")):
        try:
            vector = maps.parse_auxv(data, bits=bits, order=order)
        except FormatError:
            continue  # other bits or byte order
        if vector.get(maps.AT_PAGESZ) in _PAGE_SIZES:
            return vector, bits, order
    raise RemoteError("the stub does not return a valid auxiliary vector")


# A program that a stub holds, with the interface of a process (`soscope resolve --remote`).


class RemoteProcess(Process):
    """A program that is stopped meanwhile. `close` resumes it."""

    __slots__ = ()

    def __init__(self, space: RemoteSpace) -> None:
        """Find its images. Raises RemoteError, NoSuchProcess."""
        self.pid = space.pid
        self._space = space
        self._known = None
        try:
            self._images = find_images(space)
            self._watch = Watch(self._images)
        except BaseException:
            space.close()
            raise


def open_remote(address: RemoteAddress, program: str | None, sysroot: str | None) -> RemoteSpace:
    """Connect to a waiting stub, and examine its program.

    `program` is the program's file, or None if the stub has to tell it. `sysroot` is the
    directory with its libraries. Raises RemoteError, LaunchError.
    """
    stub = RemoteStub(address.connect(), "<")
    try:
        return RemoteSpace(stub, program, sysroot)
    except BaseException:
        stub.let_go()
        raise
