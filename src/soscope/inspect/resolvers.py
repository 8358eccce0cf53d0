# SPDX-License-Identifier: Apache-2.0
"""What dynamic linkers publish of their lazy resolvers: data, each with its source.

glibc: sysdeps/ARCH/dl-trampoline.S, elf/dl-runtime.c. dyld: src/dyld_stub_binder.s and
src/stub_binding_helper.s of opensource.apple.com's releases. The numbers behind "dyld" are those
of its releases: dyld-132 came with Mac OS X 10.6, dyld-353 with 10.10, dyld-852 with macOS 11,
dyld-940 with macOS 12.
"""

from __future__ import annotations

from typing import NamedTuple

GLIBC = "glibc"
MUSL = "musl"
BIONIC = "bionic"
DYLD = "dyld"
CLASSIC = "dyld, without LC_DYLD_INFO"

LINK_MAP = "link_map"
INDEX = "index"  # of the relocation
OFFSET = "offset"  # of the relocation in DT_JMPREL
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


class Argument(NamedTuple):
    """One thing that a resolver is given: `place` is a register, or a word of the stack.

    `word` counts the words of the stack from where the stack pointer points to, -1 for a
    register.
    """

    place: str
    word: int
    meaning: str


class Resolver(NamedTuple):
    """One generation of a resolver on one architecture.

    `name` is the trampoline's, `calls` the function behind it, `versions` those that have it.
    `saves` are the registers that it keeps, `vectors` the vector registers among them, `aligns`
    what it does about the stack. `source` is where that is published.
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
    arguments: tuple[Argument, ...]


_X86_64_GLIBC = (Argument("(%rsp)", 0, LINK_MAP), Argument("8(%rsp)", 1, INDEX))
_I386_GLIBC = (Argument("(%esp)", 0, LINK_MAP), Argument("4(%esp)", 1, OFFSET))
_AARCH64_GLIBC = (
    Argument("x16", -1, GOT_2),
    Argument("[sp]", 0, SLOT),
    Argument("[sp, #8]", 1, RETURN),
)
_ARM_GLIBC = (Argument("ip", -1, SLOT), Argument("lr", -1, GOT_2), Argument("[sp]", 0, RETURN))
_RISCV_GLIBC = (Argument("t0", -1, LINK_MAP), Argument("t1", -1, THIRD))
_S390X_GLIBC = (Argument("48(%r15)", -1, LINK_MAP), Argument("56(%r15)", -1, OFFSET))
_X86_64_DYLD = (Argument("(%rsp)", 0, CACHE), Argument("8(%rsp)", 1, LAZY_INFO))
_I386_DYLD = (Argument("(%esp)", 0, CACHE), Argument("4(%esp)", 1, LAZY_INFO))
_ARM64_DYLD = (Argument("[sp]", 0, LAZY_INFO), Argument("[sp, #8]", 1, CACHE))

_INTEGER_64 = "rax rcx rdx rsi rdi r8 r9"
_FIXUP = "_dl_fixup(link_map, index)"
_BY_OFFSET = "_dl_fixup(link_map, offset)"
_FAST = "_dyld_fast_stub_entry(cache, lazy info)"

RESOLVERS = (
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve_xsavec, _xsave or _fxsave, as the CPU has it",
        _FIXUP,
        "glibc 2.27 and later",
        _INTEGER_64,
        "xmm, ymm, zmm and mask registers by xsavec or xsave; xmm0-15 by fxsave",
        "and $-64,%rsp for xsave, 16 for fxsave; keeps the old %rsp in %rbx",
        "sysdeps/x86_64/dl-trampoline.h, dl-trampoline.S",
        _X86_64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve_sse, _avx or _avx512",
        _FIXUP,
        "glibc 2.23 to 2.26",
        _INTEGER_64,
        "xmm0-7, ymm0-7 or zmm0-7 by moves",
        "and $-VEC_SIZE,%rsp: 16, 32 or 64",
        "sysdeps/x86_64/dl-trampoline.h",
        _X86_64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve",
        _FIXUP,
        "glibc up to 2.22",
        _INTEGER_64,
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
    Resolver(
        GLIBC,
        "aarch64",
        "_dl_runtime_resolve",
        _BY_OFFSET,
        "glibc 2.17 and later",
        "x0-x9, x30",
        "q0-q7; of SVE's registers only these halves",
        "208 bytes below a stack that is aligned to 16 already",
        "sysdeps/aarch64/dl-trampoline.S",
        _AARCH64_GLIBC,
    ),
    Resolver(
        GLIBC,
        "arm",
        "_dl_runtime_resolve",
        _BY_OFFSET,
        "glibc, all versions",
        "r0-r3",
        "none",
        "r4 is pushed with them: with the word that PLT0 pushed, 24 bytes",
        "sysdeps/arm/dl-trampoline.S",
        _ARM_GLIBC,
    ),
    Resolver(
        GLIBC,
        "riscv64",
        "_dl_runtime_resolve",
        _BY_OFFSET,
        "glibc 2.27 and later",
        "a0-a7, ra",
        "fa0-fa7; none of the vector extension",
        "its frame has a multiple of 16 bytes",
        "sysdeps/riscv/dl-trampoline.S",
        _RISCV_GLIBC,
    ),
    Resolver(
        GLIBC,
        "s390x",
        "_dl_runtime_resolve_vx, or _dl_runtime_resolve without the vector facility",
        _BY_OFFSET,
        "glibc 2.24 and later",
        "r0, r2-r5, r14, r15",
        "f0 f2 f4 f6; _vx also v24-v31",
        "in the caller's save area, and a frame of 160 bytes or 288 of its own",
        "sysdeps/s390/s390-64/dl-trampoline.h",
        _S390X_GLIBC,
    ),
    *(
        Resolver(
            GLIBC,
            arch,
            "_dl_runtime_resolve",
            _BY_OFFSET,
            "glibc, all versions for ELFv1 and ELFv2",
            "r3-r10, lr",
            "none: the loader keeps off those that have arguments",
            "a frame of its own: the ABI's smallest, and 64 bytes",
            "sysdeps/powerpc/powerpc64/dl-trampoline.S",
            (Argument("r11", -1, LINK_MAP), Argument("r0", -1, INDEX)),
        )
        for arch in ("ppc64le", "ppc64")
    ),
    Resolver(
        GLIBC,
        "ppc",
        "_dl_runtime_resolve",
        _BY_OFFSET,
        "glibc, all versions",
        "r0, r3-r10, lr, cr",
        "none: the loader keeps off those that have arguments",
        "a frame of 64 bytes of its own",
        "sysdeps/powerpc/powerpc32/dl-trampoline.S",
        (Argument("r12", -1, LINK_MAP), Argument("r11", -1, OFFSET)),
    ),
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
            (Argument("t8", -1, SYMBOL), Argument(kept, -1, RETURN)),
        )
        for arch, saves, aligns, kept in (
            ("mips", "a0-a3, and the return address of t7", "a frame of 40 bytes", "t7"),
            ("mips64", "a0-a7, and the return address of t3", "a frame of 80 bytes", "t3"),
        )
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
            (Argument(first, 0, HEADER), Argument(second, 1, LAZY_POINTER)),
        )
        for arch, saves, vectors, aligns, first, second in (
            (
                "x86_64",
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
            (Argument("r12", -1, HEADER), Argument("r11", -1, LAZY_POINTER)),
        )
        for arch, aligns in (
            ("ppc", "a frame of 144 bytes of its own"),
            ("ppc64", "a frame of 288 bytes of its own"),
        )
    ),
    Resolver(
        DYLD,
        "x86_64",
        "dyld_stub_binder",
        _FAST,
        "dyld-353 to dyld-852: OS X 10.10 to macOS 11",
        "rdi rsi rdx rcx rbx rax r8 r9",
        "all that CPUID says, by xsave; without it xmm0-7",
        "stops the program if 16 is not kept; and $-64 for xsave",
        "dyld_stub_binder.s",
        _X86_64_DYLD,
    ),
    Resolver(
        DYLD,
        "x86_64",
        "dyld_stub_binder",
        _FAST,
        "dyld-239: OS X 10.9",
        "rdi rsi rdx rcx r8 r9 rax",
        "ymm0-7 by vmovdqu where the comm page says AVX, else xmm0-7",
        "by the two words that the helper pushed, and rbp",
        "dyld_stub_binder.s",
        _X86_64_DYLD,
    ),
    Resolver(
        DYLD,
        "x86_64",
        "dyld_stub_binder",
        _FAST,
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
        _FAST,
        "dyld-132 to dyld-852: Mac OS X 10.6 to macOS 10.14, the last to run i386",
        "eax ecx edx",
        "xmm0-3 by movdqa",
        "sub $100,%esp: 16 is reached with the two words that the helper pushed",
        "dyld_stub_binder.s",
        _I386_DYLD,
    ),
    Resolver(
        DYLD,
        "arm64",
        "dyld_stub_binder",
        _FAST,
        "dyld-353 to dyld-852: up to macOS 11 and iOS 14",
        "x0-x9, x29, x30",
        "q0-q7",
        "240 bytes below a stack that is aligned to 16 already",
        "dyld_stub_binder.s",
        _ARM64_DYLD,
    ),
)

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
# Of processors for which dyld was given up before it stopped to bind lazily.
_ALWAYS_LAZY = ("ppc", "i386")
_OLD_DYLD = (
    "dyld binds it at the first call, unless DYLD_BIND_AT_LAUNCH is set: every version for {}"
)

NEVER_LAZY = (MUSL, BIONIC)

_SAME = {"x86_64h": "x86_64", "arm64e": "arm64"}


def laziness_of(loader: str, arch: str) -> str | None:
    """Say when a loader binds what a file leaves to the first call, None where that is unknown."""
    family = "ppc" if arch.startswith("ppc") else arch
    if loader == DYLD and family in _ALWAYS_LAZY:
        return _OLD_DYLD.format(family)
    return LAZINESS.get(loader)


def resolvers_of(loader: str, arch: str) -> tuple[Resolver, ...]:
    """Return the generations of a loader's resolver on an architecture, the newest first."""
    wanted = _SAME.get(arch, arch)
    if loader == CLASSIC and arch.startswith("ppc") and arch != "ppc64":
        wanted = "ppc"  # or ppc750, ppc970, …
    return tuple(one for one in RESOLVERS if (one.loader, one.arch) == (loader, wanted))
