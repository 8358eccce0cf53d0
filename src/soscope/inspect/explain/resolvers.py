# SPDX-License-Identifier: Apache-2.0
"""Published facts about dynamic linkers' lazy resolvers, each with its source.

glibc: sysdeps/ARCH/dl-trampoline.S, elf/dl-runtime.c. dyld: src/dyld_stub_binder.s and
src/stub_binding_helper.s in the releases at opensource.apple.com. The numbers behind "dyld" are
its releases: dyld-132 came with Mac OS X 10.6, dyld-353 with 10.10, dyld-852 with macOS
11, dyld-940 with macOS 12.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.model.arch import EM_386, Arch, arch_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.filemap import ElfMap

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
    THIRD: "a third of the offset of the relocation in DT_JMPREL, which is the slot's offset",
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


# Arguments of the loaders' resolvers, and registers that they keep, as the loaders publish them.

_X86_64_GLIBC = (ResolverArgument("(%rsp)", 0, LINK_MAP), ResolverArgument("8(%rsp)", 1, INDEX))
_I386_GLIBC = (ResolverArgument("(%esp)", 0, LINK_MAP), ResolverArgument("4(%esp)", 1, OFFSET))
_X86_64_DYLD = (ResolverArgument("(%rsp)", 0, CACHE), ResolverArgument("8(%rsp)", 1, LAZY_INFO))
_I386_DYLD = (ResolverArgument("(%esp)", 0, CACHE), ResolverArgument("4(%esp)", 1, LAZY_INFO))
_X86_64_INTEGERS = "rax rcx rdx rsi rdi r8 r9"
_AARCH64_GLIBC = (
    ResolverArgument("x16", -1, GOT_2),
    ResolverArgument("[sp]", 0, SLOT),
    ResolverArgument("[sp, #8]", 1, RETURN),
)
_ARM64_DYLD = (ResolverArgument("[sp]", 0, LAZY_INFO), ResolverArgument("[sp, #8]", 1, CACHE))
_ARM_GLIBC = (
    ResolverArgument("ip", -1, SLOT),
    ResolverArgument("lr", -1, GOT_2),
    ResolverArgument("[sp]", 0, RETURN),
)
_RISCV_GLIBC = (ResolverArgument("t0", -1, LINK_MAP), ResolverArgument("t1", -1, THIRD))
_S390X_GLIBC = (
    ResolverArgument("48(%r15)", -1, LINK_MAP),
    ResolverArgument("56(%r15)", -1, OFFSET),
)

_RESOLVERS = (
    # x86-64 and i386
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve_xsavec, _xsave or _fxsave, as the CPU has it",
        FIXUP,
        "glibc 2.27 and later",
        _X86_64_INTEGERS,
        "xmm, ymm, zmm and mask registers by xsavec or xsave; xmm0-15 by fxsave",
        "and $-64,%rsp for xsave, 16 for fxsave; keeps the old %rsp in %rbx",
        "sysdeps/x86_64/dl-trampoline.h, dl-trampoline.S",
        _X86_64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve_sse, _avx or _avx512",
        FIXUP,
        "glibc 2.23 to 2.26",
        _X86_64_INTEGERS,
        "xmm0-7, ymm0-7 or zmm0-7 by moves",
        "and $-VEC_SIZE,%rsp: 16, 32 or 64",
        "sysdeps/x86_64/dl-trampoline.h",
        _X86_64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve",
        FIXUP,
        "glibc up to 2.22",
        _X86_64_INTEGERS,
        "none: a test of glibc's saw to it that ld.so used none",
        "by the two words that the stub pushed, and 56 bytes of its own",
        "sysdeps/x86_64/dl-trampoline.S",
        _X86_64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "i386",
        "_dl_runtime_resolve",
        "_dl_fixup(link_map, offset), by registers",
        "glibc, all versions",
        "eax ecx edx",
        "none: ld.so is built without",
        "not at all; leaves by ret $12",
        "sysdeps/i386/dl-trampoline.S",
        _I386_GLIBC,
    ),
    *(
        Resolver(
            CLASSIC,
            arch,
            "stub_binding_helper_interface",
            "dyld::bindLazySymbol(mach_header, lazy pointer)",
            "up to dyld-852, for images without LC_DYLD_INFO",
            saves,
            vectors,
            aligns,
            "stub_binding_helper.s",
            (ResolverArgument(first, 0, HEADER), ResolverArgument(second, 1, LAZY_POINTER)),
        )
        for arch, saves, vectors, aligns, first, second in (
            (
                "x86-64",
                "rdi rsi rdx rcx r8 r9 rax",
                "xmm0-7 by movdqa",
                "by the two words that the helper pushed, and rbp",
                "(%rsp)",
                "8(%rsp)",
            ),
            (
                "i386",
                "eax ecx edx",
                "xmm0-3 by movdqa",
                "sub $100,%esp: 16 is reached with the two words that the helper pushed",
                "(%esp)",
                "4(%esp)",
            ),
        )
    ),
    Resolver(
        DYLD,
        "x86-64",
        "dyld_stub_binder",
        FAST,
        "dyld-353 to dyld-852: OS X 10.10 to macOS 11",
        "rdi rsi rdx rcx rbx rax r8 r9",
        "all that CPUID says, by xsave; without it xmm0-7",
        "stops the program if 16 is not kept; and $-64 for xsave",
        "dyld_stub_binder.s",
        _X86_64_DYLD,
    ),
    Resolver(
        DYLD,
        "x86-64",
        "dyld_stub_binder",
        FAST,
        "dyld-239: OS X 10.9",
        "rdi rsi rdx rcx r8 r9 rax",
        "ymm0-7 by vmovdqu where the comm page says AVX, else xmm0-7",
        "by the two words that the helper pushed, and rbp",
        "dyld_stub_binder.s",
        _X86_64_DYLD,
    ),
    Resolver(
        DYLD,
        "x86-64",
        "dyld_stub_binder",
        FAST,
        "dyld-132 of Mac OS X 10.6 and after, before dyld-239",
        "rdi rsi rdx rcx r8 r9 rax",
        "xmm0-7 by movdqa: the upper halves of ymm registers are lost",
        "by the two words that the helper pushed, and rbp",
        "dyld_stub_binder.s",
        _X86_64_DYLD,
    ),
    Resolver(
        DYLD,
        "i386",
        "dyld_stub_binder",
        FAST,
        "dyld-132 to dyld-852: Mac OS X 10.6 to macOS 10.14, the last to run i386",
        "eax ecx edx",
        "xmm0-3 by movdqa",
        "sub $100,%esp: 16 is reached with the two words that the helper pushed",
        "dyld_stub_binder.s",
        _I386_DYLD,
    ),
    # aarch64
    Resolver(
        GLIBC,
        "aarch64",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc 2.17 and later",
        "x0-x9, x30",
        "q0-q7; of SVE's registers only these halves",
        "208 bytes below a stack that is aligned to 16 already",
        "sysdeps/aarch64/dl-trampoline.S",
        _AARCH64_GLIBC,
    ),
    Resolver(
        DYLD,
        "aarch64",
        "dyld_stub_binder",
        FAST,
        "dyld-353 to dyld-852: up to macOS 11 and iOS 14",
        "x0-x9, x29, x30",
        "q0-q7",
        "240 bytes below a stack that is aligned to 16 already",
        "dyld_stub_binder.s",
        _ARM64_DYLD,
    ),
    # 32-bit ARM
    Resolver(
        GLIBC,
        "arm",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc, all versions",
        "r0-r3",
        "none",
        "r4 is pushed with them: with the word that PLT0 pushed, 24 bytes",
        "sysdeps/arm/dl-trampoline.S",
        _ARM_GLIBC,
    ),
    # RISC-V
    Resolver(
        GLIBC,
        "riscv64",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc 2.27 and later",
        "a0-a7, ra",
        "fa0-fa7; none of the vector extension",
        "its frame has a multiple of 16 bytes",
        "sysdeps/riscv/dl-trampoline.S",
        _RISCV_GLIBC,
    ),
    # s390x
    Resolver(
        GLIBC,
        "s390x",
        "_dl_runtime_resolve_vx, or _dl_runtime_resolve without the vector facility",
        BY_OFFSET,
        "glibc 2.24 and later",
        "r0, r2-r5, r14, r15",
        "f0 f2 f4 f6; _vx also v24-v31",
        "in the caller's save area, and a frame of 160 bytes or 288 of its own",
        "sysdeps/s390/s390-64/dl-trampoline.h",
        _S390X_GLIBC,
    ),
    # PowerPC
    *(
        Resolver(
            GLIBC,
            arch,
            "_dl_runtime_resolve",
            BY_OFFSET,
            "glibc, all versions for ELFv1 and ELFv2",
            "r3-r10, lr",
            "none: the loader keeps off those that have arguments",
            "a frame of its own: the ABI's smallest, and 64 bytes",
            "sysdeps/powerpc/powerpc64/dl-trampoline.S",
            (ResolverArgument("r11", -1, LINK_MAP), ResolverArgument("r0", -1, INDEX)),
        )
        for arch in ("ppc64le", "ppc64")
    ),
    Resolver(
        GLIBC,
        "ppc",
        "_dl_runtime_resolve",
        BY_OFFSET,
        "glibc, all versions",
        "r0, r3-r10, lr, cr",
        "none: the loader keeps off those that have arguments",
        "a frame of 64 bytes of its own",
        "sysdeps/powerpc/powerpc32/dl-trampoline.S",
        (ResolverArgument("r12", -1, LINK_MAP), ResolverArgument("r11", -1, OFFSET)),
    ),
    *(
        Resolver(
            CLASSIC,
            arch,
            "stub_binding_helper_interface",
            "dyld::bindLazySymbol(mach_header, lazy pointer)",
            "for images without LC_DYLD_INFO, every version for PowerPC",
            "r3-r10, lr",
            "none",
            aligns,
            "stub_binding_helper.s",
            (ResolverArgument("r12", -1, HEADER), ResolverArgument("r11", -1, LAZY_POINTER)),
        )
        for arch, aligns in (
            ("ppc", "a frame of 144 bytes of its own"),
            ("ppc64", "a frame of 288 bytes of its own"),
        )
    ),
    # MIPS
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

# Tables by the name of a row of model/arch.py.

# Capstone's architecture and mode
CAPSTONE = {
    "x86-64": ("CS_ARCH_X86", "CS_MODE_64"),
    "i386": ("CS_ARCH_X86", "CS_MODE_32"),
    "aarch64": ("CS_ARCH_ARM64", "CS_MODE_ARM"),
}
# dyld dropped these machines before it stopped to bind lazily -> their name in the text
_ALWAYS_LAZY = {"i386": "i386", "ppc": "ppc", "ppc64": "ppc"}
# bytes of a relocation, for each index that the trampoline gets
INDEX_STEPS = {"ppc64": 24, "ppc64le": 24}

# Facts about an instruction set's GOT.

_RESOLVER_FIRST = ("mips", "riscv")  # the resolver is in the first word of the GOT, not behind it
_MIPS_GP = 0x7FF0  # distance from DT_PLTGOT to the value of %gp


def first_word(arch: Arch | None) -> int:
    """Return the index of the first word of the GOT that the loader fills."""
    return 0 if arch is not None and arch.isa in _RESOLVER_FIRST else 1


def pointer_of(mapped: ElfMap) -> int:
    """Return the base of position-independent code, 0 if the machine has none.

    It is the value of %gp on MIPS, and the GOT's address, in %ebx, on i386.
    """
    arch = mapped.machine
    if arch is None:
        return 0
    told = mapped.tag(c.DT_PLTGOT)
    if arch.isa == "mips":
        return 0 if told is None else told + _MIPS_GP
    if arch.number == EM_386:
        listed = {section.name: section.vaddr for section in mapped.sections.all}
        return told or listed.get(".got.plt") or listed.get(".got") or 0
    return 0


def laziness_of(loader: str, arch: str) -> str | None:
    """Return when a loader binds lazy slots, as text; None if that is not known."""
    row = arch_named(arch)
    if loader == DYLD and row is not None and row.name in _ALWAYS_LAZY:
        return _OLD_DYLD.format(_ALWAYS_LAZY[row.name])
    return LAZINESS.get(loader)


def resolvers_of(loader: str, arch: str) -> tuple[Resolver, ...]:
    """Return the versions of a loader's resolver on an architecture, newest first."""
    row = arch_named(arch)
    if row is None:
        return ()
    return tuple(
        resolver
        for resolver in _RESOLVERS
        if (resolver.loader, resolver.arch) == (loader, row.name)
    )
