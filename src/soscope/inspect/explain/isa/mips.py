# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on MIPS, and registers they keep, as published by the loaders."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.explain.resolvers import GLIBC, RETURN, SYMBOL, Resolver, ResolverArgument

RESOLVERS = (
    *(
        Resolver(
            GLIBC,
            arch,
            "_dl_runtime_resolve",
            "__dl_runtime_resolve(symbol, return address, gp, stub)",
            "glibc, all versions",
            saves,
            "none",
            aligns,
            "sysdeps/mips/dl-trampoline.c",
            (ResolverArgument("t8", -1, SYMBOL), ResolverArgument(kept, -1, RETURN)),
        )
        for arch, saves, aligns, kept in (
            ("mips", "a0-a3, and the return address of t7", "a frame of 40 bytes", "t7"),
            ("mips64", "a0-a7, and the return address of t3", "a frame of 80 bytes", "t3"),
        )
    ),
)

FIRST_WORD = 0  # index in the GOT: the resolver comes first
_GP = 0x7FF0  # distance from DT_PLTGOT to the value of %gp


def pointer(mapped: ElfMap) -> int:
    """Return the base of position-independent code: the value of %gp."""
    told = mapped.tag(c.DT_PLTGOT)
    return 0 if told is None else told + _GP
