# SPDX-License-Identifier: Apache-2.0
"""The table of all supported machines: numbers and names, but no code.

A row is one architecture as a file tells it: e_machine with a class, a byte order and, for MIPS,
bits of e_flags. The code for an instruction set is in the folders called `isa/` of the other
parts, under the name in the row's field `isa`.

Sources: e_machine and relocations are in the psABI supplement of each processor, and have its
names here. Numbers of system calls are in the kernel's unistd.h. The names of the folders in
which loaders search for a machine's libraries are in linker/machine.py.

Starting a trace imports this module, so the rows are plain objects.
"""

from __future__ import annotations

from soscope.model.record import Record

EM_386 = 3
EM_MIPS = 8
EM_PPC = 20
EM_PPC64 = 21
EM_S390 = 22
EM_ARM = 40
EM_X86_64 = 62
EM_AARCH64 = 183
EM_RISCV = 243
EM_SPARCV9 = 43
EM_LOONGARCH = 258
EM_ALPHA = 0x9026

# values of cputype (Apple's <mach/machine.h>)
CPU_I386 = 7
CPU_ARM = 12
CPU_PPC = 18
_CPU_64, _CPU_64_32 = 0x0100_0000, 0x0200_0000
CPU_X86_64 = CPU_I386 | _CPU_64
CPU_ARM64 = CPU_ARM | _CPU_64
CPU_ARM64_32 = CPU_ARM | _CPU_64_32
CPU_PPC64 = CPU_PPC | _CPU_64

# The argument that _dl_fixup gets for a lazy slot (glibc's sysdeps/*/dl-trampoline.S). The stubs
# of x86-64 push the index of the relocation, the stubs of i386 and s390x its offset. On aarch64
# and arm the stub passes the slot's address, on RISC-V its own address. PLT0 and the trampoline
# subtract the first address and turn the distance into the offset of the relocation (24 bytes
# each, 12 on 32-bit RISC-V, 8 on arm). The branches of 64-bit PowerPC and the PLT of MIPS pass the
# index, and the trampoline turns it into the offset. The words of the GOT of MIPS have a resolver
# function of their own, which gets the symbol's index.
BY_INDEX = 1  # index of the relocation in DT_JMPREL
BY_OFFSET = 2  # its offset in DT_JMPREL, in bytes

# Kinds of slots that no relocation fills. They stand in place of a relocation's type, and are
# larger than any type.
GOT_WORD = 1 << 32  # the loader fills it when it loads the image
STUBBED_GOT_WORD = GOT_WORD + 1  # holds the address of a stub until the first call

_EF_MIPS_ABI2 = 0x20  # the n32 ABI
_ANY_PAGES = (4096, 16384, 65536)


class RelocationTypes(Record, kw_only=True, frozen=True):
    """A machine's relocation types that matter for slots, by role; 0 if it has no such type."""

    prefix: str  # prefix of the names in `types`
    types: dict[int, str]  # types that fill a slot, with their names
    jump_slot: int
    glob_dat: int = 0
    copy: int
    relative: int
    irelative: frozenset[int] = frozenset()
    tlsdesc: int = 0
    dtpmod: int  # module number of a thread-local variable
    tpoff: int = 0  # offset of a thread-local variable from the thread pointer, to be added
    word: int  # a plain pointer to a symbol
    # types that fill a slot only if it lies in the GOT, because they fill all other pointers, too
    words: frozenset[int] = frozenset()


UNKNOWN = RelocationTypes(prefix="", types={}, jump_slot=0, copy=0, relative=0, dtpmod=0, word=0)


class Arch(Record, kw_only=True, frozen=True):
    """One machine; a file's machine follows from `number` (e_machine), `bits`, `order`, `flags`."""

    # No code changes these dicts, so all rows may share one default (RUF012).
    number: int
    bits: int = 64
    order: str = ""  # "<" or ">", "" for either
    flags: tuple[int, int] = (0, 0)  # (mask, value) for e_flags
    name: str  # the name that soscope prints
    aliases: tuple[str, ...] = ()  # Apple's names for the same code
    unames: tuple[str, ...] = ()  # uname(2)'s names
    isa: str = ""  # file or folder of its code in each `isa/`, "" if there is none
    cputype: int = 0  # cputype in Mach-O files
    apple: dict[int, str] = {}  # Mach-O's names by subtype, -1 for any other  # noqa: RUF012
    pages: tuple[int, ...] = (4096,)  # page sizes that kernels are built for, smallest first
    relocations: RelocationTypes = UNKNOWN  # no `types` if only the name is known
    has_descriptors: bool = False  # a function may be a descriptor; its first word is the address
    argument: int = BY_OFFSET  # what the lazy resolver gets
    # The dynamic tag that announces functions with a special calling convention, and the bit of
    # st_other that marks these functions. No lazy resolver knows which registers to keep for them,
    # so the loader binds them at load time.
    variant: tuple[int, int] = (0, 0)
    implied: dict[int, str] = {}  # names of the kinds of slots without a relocation  # noqa: RUF012
    stubbed: int = 0  # the kind among `implied` that may be lazy
    hash_word: int = 4  # bytes of a number in DT_HASH
    symbol_count: int = 0  # dynamic tag for the number of dynamic symbols
    # Dynamic tags that lead to the loader's list (r_debug) in place of DT_DEBUG. A word of the
    # image has the address of r_debug. The first tag has the distance from the dynamic entry to
    # that word, the second has the word's address.
    debug_maps: tuple[int, int] = (0, 0)
    # r_info is not one number, but a 32-bit symbol and four bytes, of which the last is the type
    has_split_info: bool = False
    has_stub_each: bool = False  # each JUMP_SLOT has a stub
    has_own_half: bool = False  # an unbound lazy slot leads into its own stub
    # A GNU property and its hardening bits: (bit, name, name in words).
    features: tuple[int, tuple[tuple[int, str, str], ...]] = (0, ())
    runs: tuple[int, ...] = ()  # other e_machines whose code it runs
    calls: dict[str, int] = {}  # numbers of system calls  # noqa: RUF012
    has_agent: bool = False
    emulator: str = ""  # qemu's name for the machine


_X86_64 = Arch(
    number=EM_X86_64,
    name="x86-64",
    order="<",
    isa="x86",
    aliases=("x86_64", "x86_64h"),
    unames=("x86_64",),
    cputype=CPU_X86_64,
    apple={-1: "x86_64", 8: "x86_64h"},
    relocations=RelocationTypes(
        prefix="R_X86_64_",
        types={6: "GLOB_DAT", 7: "JUMP_SLOT", 36: "TLSDESC", 37: "IRELATIVE"},
        jump_slot=7,
        glob_dat=6,
        copy=5,
        relative=8,
        irelative=frozenset((37,)),
        tlsdesc=36,
        dtpmod=16,
        tpoff=18,
        word=1,
    ),
    argument=BY_INDEX,
    has_stub_each=True,
    has_own_half=True,
    features=(0xC000_0002, ((1, "IBT", "IBT"), (2, "SHSTK", "shadow stacks"))),
    runs=(EM_386,),
    calls={"futex": 202, "get_robust_list": 274},
    has_agent=True,
    emulator="x86_64",
)
_AARCH64 = Arch(
    number=EM_AARCH64,
    name="aarch64",
    order="<",
    isa="aarch64",
    aliases=("arm64", "arm64e"),
    unames=("aarch64",),
    cputype=CPU_ARM64,
    apple={-1: "arm64", 2: "arm64e"},
    pages=_ANY_PAGES,
    relocations=RelocationTypes(
        prefix="R_AARCH64_",
        types={1025: "GLOB_DAT", 1026: "JUMP_SLOT", 1031: "TLSDESC", 1032: "IRELATIVE"},
        jump_slot=1026,
        glob_dat=1025,
        copy=1024,
        relative=1027,
        irelative=frozenset((1032,)),
        tlsdesc=1031,
        dtpmod=1028,
        tpoff=1030,
        word=257,
    ),
    variant=(0x7000_0005, 0x80),  # DT_AARCH64_VARIANT_PCS
    has_stub_each=True,
    features=(0xC000_0000, ((1, "BTI", "BTI"), (2, "PAC", "return address signing"))),
    calls={"futex": 98, "get_robust_list": 100},
    emulator="aarch64",
)
_RISCV_RELOCATIONS = RelocationTypes(
    prefix="R_RISCV_",
    types={1: "32", 2: "64", 5: "JUMP_SLOT", 12: "TLSDESC", 58: "IRELATIVE"},
    jump_slot=5,
    copy=4,
    relative=3,
    irelative=frozenset((58,)),
    tlsdesc=12,
    dtpmod=7,
    tpoff=11,
    word=2,
    words=frozenset((1, 2)),
)
_RISCV64 = Arch(
    number=EM_RISCV,
    name="riscv64",
    isa="riscv",
    unames=("riscv64",),
    relocations=_RISCV_RELOCATIONS,
    variant=(0x7000_0001, 0x80),  # DT_RISCV_VARIANT_CC
    has_stub_each=True,
    emulator="riscv64",
)
_S390X = Arch(
    number=EM_S390,
    name="s390x",
    emulator="s390x",
    order=">",
    isa="s390x",
    unames=("s390x",),
    relocations=RelocationTypes(
        prefix="R_390_",
        types={10: "GLOB_DAT", 11: "JMP_SLOT", 61: "IRELATIVE"},
        jump_slot=11,
        glob_dat=10,
        copy=9,
        relative=12,
        irelative=frozenset((61,)),
        dtpmod=54,
        tpoff=56,
        word=22,
    ),
    hash_word=8,
    has_stub_each=True,
)
_MIPS = Arch(
    number=EM_MIPS,
    bits=32,
    flags=(_EF_MIPS_ABI2, 0),
    name="mips",
    isa="mips",
    unames=("mips",),
    pages=_ANY_PAGES,
    relocations=RelocationTypes(
        prefix="R_MIPS_",
        types={3: "REL32", 51: "GLOB_DAT", 127: "JUMP_SLOT"},
        jump_slot=127,
        glob_dat=51,
        copy=126,
        relative=3,  # the relocation without a symbol
        dtpmod=38,
        tpoff=47,
        word=3,
        words=frozenset((3,)),
    ),
    implied={GOT_WORD: "DT_MIPS_GOTSYM", STUBBED_GOT_WORD: "DT_MIPS_GOTSYM"},
    stubbed=STUBBED_GOT_WORD,
    symbol_count=0x7000_0011,  # DT_MIPS_SYMTABNO
    debug_maps=(0x7000_0035, 0x7000_0016),  # DT_MIPS_RLD_MAP_REL, DT_MIPS_RLD_MAP
    emulator="mips",
)
_PPC64 = Arch(
    number=EM_PPC64,
    order=">",
    name="ppc64",
    emulator="ppc64",
    isa="ppc",
    unames=("ppc64",),
    cputype=CPU_PPC64,
    apple={-1: "ppc64"},
    pages=(4096, 65536),
    relocations=RelocationTypes(
        prefix="R_PPC64_",
        types={20: "GLOB_DAT", 21: "JMP_SLOT", 38: "ADDR64", 247: "JMP_IREL", 248: "IRELATIVE"},
        jump_slot=21,
        glob_dat=20,
        copy=19,
        relative=22,
        irelative=frozenset((247, 248)),
        dtpmod=68,
        tpoff=73,
        word=38,
        words=frozenset((38,)),
    ),
    has_descriptors=True,  # ELFv1
)

# If several rows have the same number and a file does not tell them apart, the first row counts.
ARCHES = (
    _X86_64,
    _X86_64.but(bits=32, aliases=(), unames=(), cputype=0, runs=(), has_agent=False),  # x32
    Arch(
        number=EM_386,
        bits=32,
        order="<",
        name="i386",
        emulator="i386",
        isa="x86",
        unames=("i386", "i686"),
        cputype=CPU_I386,
        apple={-1: "i386"},
        relocations=RelocationTypes(
            prefix="R_386_",
            types={6: "GLOB_DAT", 7: "JUMP_SLOT", 41: "TLS_DESC", 42: "IRELATIVE"},
            jump_slot=7,
            glob_dat=6,
            copy=5,
            relative=8,
            irelative=frozenset((42,)),
            tlsdesc=41,
            dtpmod=35,
            tpoff=14,
            word=1,
        ),
        has_stub_each=True,
        has_own_half=True,
        features=_X86_64.features,
        calls={"get_robust_list": 312},
    ),
    _AARCH64,
    _AARCH64.but(order=">", aliases=(), unames=(), cputype=0, calls={}),
    _AARCH64.but(  # ILP32: its own relocation types
        bits=32,
        order="",
        aliases=(),
        unames=(),
        cputype=CPU_ARM64_32,
        apple={-1: "arm64_32"},
        calls={},
        relocations=RelocationTypes(
            prefix="R_AARCH64_P32_",
            types={181: "GLOB_DAT", 182: "JUMP_SLOT", 187: "TLSDESC", 188: "IRELATIVE"},
            jump_slot=182,
            glob_dat=181,
            copy=180,
            relative=183,
            irelative=frozenset((188,)),
            tlsdesc=187,
            dtpmod=184,
            tpoff=186,
            word=1,
        ),
    ),
    Arch(
        number=EM_ARM,
        bits=32,
        name="arm",
        emulator="arm",
        isa="arm",
        cputype=CPU_ARM,
        apple={
            -1: "arm",
            5: "armv4t",
            6: "armv6",
            7: "armv5",
            9: "armv7",
            10: "armv7f",
            11: "armv7s",
            12: "armv7k",
        },
        relocations=RelocationTypes(
            prefix="R_ARM_",
            types={13: "TLS_DESC", 21: "GLOB_DAT", 22: "JUMP_SLOT", 160: "IRELATIVE"},
            jump_slot=22,
            glob_dat=21,
            copy=20,
            relative=23,
            irelative=frozenset((160,)),
            tlsdesc=13,
            dtpmod=17,
            tpoff=19,
            word=2,
        ),
        has_stub_each=True,
    ),
    _RISCV64,
    _RISCV64.but(
        bits=32,
        name="riscv32",
        unames=("riscv32",),
        relocations=_RISCV_RELOCATIONS.but(dtpmod=6, tpoff=10, word=1),
    ),
    _S390X,
    _S390X.but(bits=32, name="s390", isa="", unames=("s390",), hash_word=4, has_stub_each=False),
    _MIPS.but(order=">"),
    _MIPS.but(order="<", unames=(), emulator="mipsel"),
    _MIPS.but(
        bits=64, flags=(0, 0), name="mips64", unames=("mips64",), has_split_info=True, emulator=""
    ),
    _MIPS.but(flags=(_EF_MIPS_ABI2, _EF_MIPS_ABI2), name="mips64", unames=(), emulator=""),
    Arch(
        number=EM_PPC,
        bits=32,
        order=">",
        name="ppc",
        emulator="ppc",
        isa="ppc",
        unames=("ppc",),
        cputype=CPU_PPC,
        apple={-1: "ppc"},
        pages=(4096, 65536),
        relocations=RelocationTypes(
            prefix="R_PPC_",
            types={1: "ADDR32", 20: "GLOB_DAT", 21: "JMP_SLOT", 248: "IRELATIVE"},
            jump_slot=21,
            glob_dat=20,
            copy=19,
            relative=22,
            irelative=frozenset((248,)),
            dtpmod=68,
            tpoff=73,
            word=1,
            words=frozenset((1,)),
        ),
    ),
    _PPC64,
    _PPC64.but(order="<", name="ppc64le", unames=("ppc64le",), cputype=0, emulator="ppc64le"),
    # processors of which soscope knows only the names
    Arch(number=2, bits=32, order=">", name="sparc", pages=(8192,)),
    Arch(number=EM_SPARCV9, order=">", name="sparc64", pages=(8192,)),
    Arch(number=50, name="ia64", pages=(4096, 8192, 16384, 65536)),
    Arch(number=EM_LOONGARCH, name="loongarch", order="<", pages=_ANY_PAGES),
    Arch(number=EM_ALPHA, name="alpha", order="<", pages=(8192,), hash_word=8),
)


def arch_of(number: int, bits: int, order: str = "", flags: int = 0) -> Arch | None:
    """Return the row for e_machine, class, byte order and e_flags, None for an unknown processor.

    If a file has a class or a byte order that its processor does not have, return the row that
    differs least.
    """
    best, most = None, -1
    for row in ARCHES:
        if row.number != number:
            continue
        mask, value = row.flags
        fits = 4 * (row.bits == bits) + 2 * (flags & mask == value)
        fits += not (row.order and order) or row.order == order
        if fits > most:
            best, most = row, fits
    return best


def arch_named(name: str) -> Arch | None:
    """Return the first row that has this name, ours or Apple's; None if there is none."""
    return next((row for row in ARCHES if name == row.name or name in row.aliases), None)


def arch_of_cputype(cputype: int) -> Arch | None:
    """Return the row for a cputype of a Mach-O file, None for an unknown cputype."""
    return next((row for row in ARCHES if cputype and row.cputype == cputype), None)


def arch_of_process(number: int, bits: int, order: str = "") -> Arch | None:
    """Return the row for a process; `number` is its e_machine, 0 if that is not known.

    If it is not known, return the row that this machine's processor runs with that many bits.
    """
    if number:
        return arch_of(number, bits, order)
    here = arch_here()
    known = () if here is None else (here.number, *here.runs)
    return next((a for a in ARCHES if a.number in known and a.bits == bits and a.unames), None)


def arch_here() -> Arch | None:
    """Return the row for the machine that soscope runs on (uname(2)), None if it has no row."""
    from os import uname

    machine = uname().machine
    return next((row for row in ARCHES if machine in row.unames), None)
