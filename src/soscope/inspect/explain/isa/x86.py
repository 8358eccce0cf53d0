# SPDX-License-Identifier: Apache-2.0
"""Arguments of resolvers on x86-64 and i386, and registers they keep, as loaders publish them."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.explain.resolvers import (
    CACHE,
    CLASSIC,
    DYLD,
    FAST,
    FIXUP,
    GLIBC,
    HEADER,
    INDEX,
    LAZY_INFO,
    LAZY_POINTER,
    LINK_MAP,
    OFFSET,
    Resolver,
    ResolverArgument,
)
from soscope.model.arch import EM_386

_X86_64_GLIBC = (ResolverArgument("(%rsp)", 0, LINK_MAP), ResolverArgument("8(%rsp)", 1, INDEX))
_I386_GLIBC = (ResolverArgument("(%esp)", 0, LINK_MAP), ResolverArgument("4(%esp)", 1, OFFSET))
_X86_64_DYLD = (ResolverArgument("(%rsp)", 0, CACHE), ResolverArgument("8(%rsp)", 1, LAZY_INFO))
_I386_DYLD = (ResolverArgument("(%esp)", 0, CACHE), ResolverArgument("4(%esp)", 1, LAZY_INFO))
_INTEGER_64 = "rax rcx rdx rsi rdi r8 r9"

RESOLVERS = (
    Resolver(
        GLIBC,
        "x86-64",
        "_dl_runtime_resolve_xsavec, _xsave or _fxsave, as the CPU has it",
        FIXUP,
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
        FIXUP,
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
        FIXUP,
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
)

# Capstone's architecture and mode
CAPSTONE = {"x86-64": ("CS_ARCH_X86", "CS_MODE_64"), "i386": ("CS_ARCH_X86", "CS_MODE_32")}
# dyld dropped this machine before it stopped to bind lazily
ALWAYS_LAZY = {"i386": "i386"}


def pointer(mapped: ElfMap) -> int:
    """Return the base of position-independent code: on i386 the GOT's address, in %ebx."""
    if mapped.machine is None or mapped.machine.number != EM_386:
        return 0
    listed = {section.name: section.vaddr for section in mapped.sections.all}
    return mapped.tag(c.DT_PLTGOT) or listed.get(".got.plt") or listed.get(".got") or 0
