# SPDX-License-Identifier: Apache-2.0
"""Find the files of a stub's program: below a sysroot, by the stub, or on this machine.

A file on this machine may not be the one that the program uses, so callers compare it with
memory.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import Segment
from soscope.binfmt.source import BufferSource
from soscope.entry.remote.stub import RemoteFiles, RemoteStub
from soscope.errors import FormatError, LaunchError, RemoteError
from soscope.linker.machine import is_native, kind_of, machine_of
from soscope.linker.paths import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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
        raise RemoteError(f"the stub's program is another one than {path}")


def _descriptors(path: str) -> Iterator[int]:
    """Yield the descriptor of a file, if it can be read."""
    try:
        yield os.open(path, _FLAGS)
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
