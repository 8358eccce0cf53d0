# SPDX-License-Identifier: Apache-2.0
"""Published facts about dynamic linkers' lazy resolvers, each with its source.

The data are in `isa/`, a file for each instruction set.

glibc: sysdeps/ARCH/dl-trampoline.S, elf/dl-runtime.c. dyld: src/dyld_stub_binder.s and
src/stub_binding_helper.s in the releases at opensource.apple.com. The numbers behind "dyld" are
those of its releases: dyld-132 came with Mac OS X 10.6, dyld-353 with 10.10, dyld-852 with macOS
11, dyld-940 with macOS 12.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.inspect.explain import isa
from soscope.model.arch import arch_named

GLIBC = "glibc"
MUSL = "musl"
BIONIC = "bionic"
DYLD = "dyld"
CLASSIC = "dyld, without LC_DYLD_INFO"

LINK_MAP = "link_map"
INDEX = "index"  # index of the relocation
OFFSET = "offset"  # offset of the relocation in DT_JMPREL
THIRD = "third"
SYMBOL = "symbol"
SLOT = "slot"
GOT_2 = "got[2]"
RETURN = "return"
CACHE = "cache"
LAZY_INFO = "lazy-info"
LAZY_POINTER = "lazy-pointer"
HEADER = "header"

MEANINGS = {
    LINK_MAP: "the image's link_map",
    INDEX: "the index of the relocation in DT_JMPREL",
    OFFSET: "the offset of the relocation in DT_JMPREL, in bytes",
    THIRD: "a third of the offset of the relocation in DT_JMPREL: that of the slot",
    SYMBOL: "the index of the symbol in .dynsym",
    SLOT: "the slot",
    GOT_2: "&GOT[2]: the word in front of it is the link_map",
    RETURN: "the caller's return address",
    CACHE: "where dyld keeps its ImageLoader for this image",
    LAZY_INFO: "the offset of the record in the lazy bind opcodes",
    LAZY_POINTER: "the slot",
    HEADER: "the image's mach_header",
}


class ResolverArgument(NamedTuple):
    """One argument of a resolver; `place` is a register, or a word of the stack.

    `word` is the index of the word on the stack, counted from the stack pointer, -1 for a
    register.
    """

    place: str
    word: int
    meaning: str


class Resolver(NamedTuple):
    """One version of a resolver on one architecture.

    `name` is the trampoline's name, `calls` the function behind it, `versions` the releases that
    have it. `saves` are the registers that it keeps, `vectors` the vector registers among them,
    `aligns` how it aligns the stack. `source` is where that is published.
    """

    loader: str
    arch: str
    name: str
    calls: str
    versions: str
    saves: str
    vectors: str
    aligns: str
    source: str
    arguments: tuple[ResolverArgument, ...]


FIXUP = "_dl_fixup(link_map, index)"
BY_OFFSET = "_dl_fixup(link_map, offset)"
FAST = "_dyld_fast_stub_entry(cache, lazy info)"

LAZINESS = {
    GLIBC: (
        "glibc binds it at the first call: any version, unless LD_BIND_NOW is set,"
        " or the file is opened by dlopen(RTLD_NOW)"
    ),
    MUSL: ("musl binds it when it loads the image, in every version: there is no lazy path"),
    BIONIC: ("Android's linker binds it when it loads the image: there is no lazy path"),
    DYLD: (
        "dyld binds it at the first call until macOS 11 (dyld-852), unless it runs the program by a"
        " closure (dyld3) or DYLD_BIND_AT_LAUNCH is set; since macOS 12 (dyld-940) when it loads"
        " the image: dyld_stub_binder only aborts"
    ),
}
_OLD_DYLD = (
    "dyld binds it at the first call, unless DYLD_BIND_AT_LAUNCH is set: every version for {}"
)

NEVER_LAZY = (MUSL, BIONIC)


def laziness_of(loader: str, arch: str) -> str | None:
    """Return when a loader binds lazy slots, as text; None if that is not known."""
    row = arch_named(arch)
    always = isa.known(row, "ALWAYS_LAZY", {})
    if loader == DYLD and row is not None and row.name in always:
        return _OLD_DYLD.format(always[row.name])
    return LAZINESS.get(loader)


def resolvers_of(loader: str, arch: str) -> tuple[Resolver, ...]:
    """Return the versions of a loader's resolver on an architecture, newest first."""
    row = arch_named(arch)
    if row is None:
        return ()
    listed: tuple[Resolver, ...] = isa.known(row, "RESOLVERS", ())
    return tuple(
        resolver for resolver in listed if (resolver.loader, resolver.arch) == (loader, row.name)
    )
