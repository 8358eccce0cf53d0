# SPDX-License-Identifier: Apache-2.0
"""What the code behind an unbound slot gives the lazy resolver, by its bytes.

The stub or its lazy half has the argument as a constant (x86, s390x), or the resolver works it
out from the slot's address (aarch64, arm, riscv64). glibc: sysdeps/<arch>/dl-trampoline.S.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.errors import FormatError
from soscope.model.filemap import Slot

_CODE = 32
# [endbr] push $argument
_PUSH = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x68(.{4})", re.DOTALL)
# mold: [endbr] mov $argument, %r11d or %ecx, in the stub
_MOVED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb|\xb9)(.{4})", re.DOTALL)
_FROM_SLOT = {"aarch64": 3, "arm": 3, "riscv64": 2}  # words of .got.plt before the first slot


def argument_of(found: ElfMap, slot: Slot) -> int | None:
    """Return what the resolver is given at the first call through a lazy slot.

    None where the code has no shape that is known here, or the resolver finds it otherwise.
    """
    if slot.helper is None:
        return None
    if found.arch in ("x86-64", "i386"):
        pushed = _PUSH.match(_read(found, slot.helper))
        if pushed is not None:
            return int.from_bytes(pushed[1], "little")
        moved = {
            int.from_bytes(match[1], "little")
            for stub in slot.stubs
            if (match := _MOVED.match(_read(found, stub.vaddr))) is not None
        }
        return moved.pop() if len(moved) == 1 else None
    before = _FROM_SLOT.get(found.arch)
    got = found.image.dynamic.get(c.DT_PLTGOT)
    if before is None or got is None:
        return None
    word = found.bits // 8
    place, rest = divmod(slot.vaddr - got - before * word, word)
    return None if rest else place


def _read(found: ElfMap, vaddr: int) -> bytes:
    try:
        return found.image.source.read(found.image.locate(vaddr), _CODE)
    except FormatError:
        return b""
