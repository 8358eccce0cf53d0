# SPDX-License-Identifier: Apache-2.0
"""Programs of other machines: file, loader and sysroot of each, its emulator, and one run of it."""

from __future__ import annotations

import os
import shutil

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import ElfReader, Segment
from soscope.binfmt.elf.sections import relative_words
from soscope.binfmt.source import BufferSource
from soscope.control.breakpoints.program import BRK_NAME, ProgramRun, TracedProgram, dynamic_of
from soscope.control.breakpoints.watch import CallWatch
from soscope.control.program import Program
from soscope.control.settings import Hooks, SessionSettings
from soscope.entry.breakpoint import Points
from soscope.entry.remote.conventions import convention_of
from soscope.entry.remote.qemu import emulator_of
from soscope.errors import FormatError, LaunchError, RemoteError, SoscopeError
from soscope.linker.machine import is_native, kind_of, machine_of
from soscope.linker.paths import Root
from soscope.model.arch import Arch, arch_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


class ForeignProgram(TracedProgram):
    """One program. `elf` is its image, `sysroot` the root of its system.

    `loader` is the file of its loader, None if it is statically linked.
    """

    __slots__ = ("elf", "emulator", "loader", "sysroot")

    loader: ElfImage | None

    def __init__(
        self, command: list[str], cwd: str | None, sysroot: str | None, qemu: str | None
    ) -> None:
        """Find all of these. Raises LaunchError if one is missing or does not fit the others."""
        self.path = _find(command[0], cwd, sysroot)
        elf = _opened(self.path)
        arch = None if elf.header is None else elf.header.arch
        if arch is not None and arch is arch_here():
            raise LaunchError(
                f"cannot emulate '{command[0]}': it is for {arch.name}, as this machine is",
                hint="leave out --sysroot, --qemu and --check; its engines are sites and entries",
                slug="own-machine",
            )
        self._know(elf, command[0], LaunchError)
        self.emulator = emulator_of(self.arch, qemu)
        interpreter = elf.interpreter
        self.sysroot = _sysroot(elf, self.arch, command[0], sysroot, interpreter)
        self.root = Root(self.sysroot)
        self.loader = None if interpreter is None else self._loader(interpreter)

    def _know(self, elf: ElfImage, name: str, error: type[SoscopeError]) -> None:
        """Set what the program's file tells. Raises `error` for an unknown machine."""
        arch = None if elf.header is None else elf.header.arch
        convention = None if arch is None else convention_of(arch)
        if arch is None or convention is None:
            machine = "an unknown machine" if elf.header is None else elf.header.arch_name
            raise error(
                f"cannot trace '{name}': calls of programs for {machine} are not understood",
                slug="unknown-machine",
            )
        self.elf, self.arch, self.convention, self.coding = elf, arch, convention, elf.encoding

    def _loader(self, interpreter: str) -> ElfImage:
        path = self.root.host(interpreter)
        if not os.path.exists(path):
            raise LaunchError(
                f"{self.sysroot} has no {interpreter}, which {self.path} needs",
                hint="--sysroot DIR: where the system of its machine lies",
                slug="sysroot",
            )
        loader = _opened(path)
        mine, its = kind_of(self.elf), kind_of(loader)
        if (mine.machine, mine.bits, mine.order) != (its.machine, its.bits, its.order):
            other = "another machine" if loader.header is None else loader.header.arch_name
            raise LaunchError(
                f"{self.sysroot} is for {other}, and {self.path} is for {self.arch.name}",
                slug="sysroot",
            )
        return loader

    def code_of_loader(self, vaddr: int) -> int:
        """Return the address of a loader function's code, through its descriptor if it has one."""
        loader = self.loader
        assert loader is not None
        if not self.convention.descriptor:
            return vaddr
        word = self.coding.word
        told = relative_words(loader).get(vaddr)
        return told or int(word.unpack(loader.read(vaddr, word.size, ".opd"))[0])


class RemoteRun(ProgramRun):
    """One executed program behind a stub, from its first instruction on.

    `dynamic` is the address of its dynamic section, and `brk` of the function that its loader
    calls when images have come or gone. `make_watch` makes the watch that notices its calls.
    """

    __slots__ = ("brk", "dynamic", "make_watch")

    make_watch: Callable[[Points], CallWatch]

    def __init__(
        self,
        program: Program,
        traced: ForeignProgram,
        hooks: Hooks,
        settings: SessionSettings,
        make_room: Callable[[], object],
        *,
        segments: list[Segment],
        bias: int,
        base: int,
    ) -> None:
        """`segments` and `bias` are the program's, and `base` is its loader's bias.

        Raises RemoteError for an unknown loader.
        """
        assert traced.loader is not None
        brk = traced.loader.symbols.addr(BRK_NAME)
        if brk is None:
            raise RemoteError(f"the program's loader is of an unknown kind: it has no {BRK_NAME}")
        super().__init__(program, traced, hooks, settings, make_room)
        self.dynamic = (dynamic_of(segments) or 0) + bias
        self.brk = traced.code_of_loader(brk) + base


def is_foreign(path: str, cwd: str | None) -> bool:
    """Return whether a program is for another, supported processor than this one."""
    try:
        elf = _opened(os.path.join(cwd or "", path))
    except LaunchError:
        return False  # starting it will report the error
    arch = None if elf.header is None else elf.header.arch
    return arch is not None and convention_of(arch) is not None and not is_native(kind_of(elf))


def _find(name: str, cwd: str | None, sysroot: str | None) -> str:
    """Return the file of a command's word, below the sysroot first. Raises LaunchError."""
    if "/" not in name:
        if sysroot:
            for folder in _FOLDERS:
                path = Root(sysroot).host(f"{folder}/{name}")
                if os.path.isfile(path):
                    return path
        there = shutil.which(name)
        if there is None:
            raise LaunchError.not_found(name)
        return there
    if sysroot and name.startswith("/"):
        path = Root(sysroot).host(name)
        if os.path.isfile(path):
            return path
    path = os.path.join(cwd or "", name)
    if not os.path.lexists(path):
        raise LaunchError.not_found(name)
    return path


def _opened(path: str) -> ElfImage:
    try:
        with open(path, "rb") as file:
            return ElfImage.from_source(BufferSource(file.read(), path))
    except FormatError as error:
        raise LaunchError.not_executable(path, error.message) from error
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise LaunchError.not_executable(path, reason, errno=error.errno) from error


def _sysroot(
    elf: ElfReader, arch: Arch, name: str, given: str | None, interpreter: str | None
) -> str:
    if given:
        if not os.path.isdir(given):
            raise LaunchError(f"--sysroot {given}: there is no such directory", slug="sysroot")
        return given
    triplet = machine_of(kind_of(elf), elf.header.flags if elf.header else 0).triplet
    known = f"/usr/{triplet}"
    if os.path.isdir(known):
        return known
    if interpreter is None:
        return "/"
    raise LaunchError(
        f"'{name}' is a program for {arch.name}, and the place of its libraries is not known",
        hint=f"soscope trace --sysroot DIR -- {name}",
        slug="sysroot",
    )
