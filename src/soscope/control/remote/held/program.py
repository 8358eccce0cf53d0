# SPDX-License-Identifier: Apache-2.0
"""The program that a stub holds: its file here, its loader, and its sysroot."""

from __future__ import annotations

import os

from soscope.control.qemu.memory import RemoteSpace
from soscope.control.remote.files import compare, read_image
from soscope.control.remote.program import ForeignProgram
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.isa import convention_of
from soscope.errors import RemoteError
from soscope.linker.paths import Root
from soscope.model.arch import Arch


class HeldProgram(ForeignProgram):
    """One program, like `ForeignProgram`. soscope does not start it, so it has no emulator."""

    __slots__ = ()

    def __init__(self, space: RemoteSpace) -> None:
        """Find its files. Raises RemoteError, and LaunchError for a missing file."""
        self.sysroot = space.files.sysroot or "/"
        self.root = Root(self.sysroot)
        self.path = _here(space.files.program or "", self.root)
        self.elf = read_image(self.path)
        compare(self.elf, self.path, space.headers(), space.bits, space.order)
        header = self.elf.header
        arch = None if header is None else header.arch
        convention = None if arch is None else convention_of(arch)
        if arch is None or convention is None:
            name = "an unknown machine" if header is None else header.arch_name
            raise RemoteError(
                f"cannot trace '{self.path}': calls of programs for {name} are not understood",
                slug="unknown-machine",
            )
        self.arch: Arch = arch
        self.convention: Convention = convention
        self.emulator = ""
        interpreter = self.elf.interpreter
        self.loader = None if interpreter is None else read_image(_here(interpreter, self.root))


def _here(path: str, root: Root) -> str:
    """Return the path here of a file of the program's system. Raises RemoteError."""
    if not path:
        raise RemoteError(
            "the stub does not say which program it holds",
            hint="soscope trace --remote ADDRESS -- PROGRAM",
        )
    for candidate in (root.host(path), path):
        if os.path.isfile(candidate):
            return candidate
    raise RemoteError(
        f"{path}, which the stub's program was mapped from, is not here",
        hint="--sysroot DIR: where the system of the program lies",
    )
