# SPDX-License-Identifier: Apache-2.0
"""The one table of machines: what is a number or a name, and nothing that is code.

A row is what the word "architecture" means to a file: e_machine with a class, a byte order and, for
MIPS, bits of e_flags. What the code of an instruction set is made of is in the folders called
`isa/` of the other parts, under the name that a row has in `isa`.

e_machine and relocations: the psABI supplement of each processor, under its names. System calls:
the kernel's unistd.h. What loaders call the folders of a machine is said in linker/machine.py.

Starting a trace imports this, so the rows are plain objects.
"""

from __future__ import annotations

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

# cputype, by Apple's <mach/machine.h>
CPU_I386 = 7
CPU_ARM = 12
CPU_PPC = 18
_CPU_64, _CPU_64_32 = 0x0100_0000, 0x0200_0000
CPU_X86_64 = CPU_I386 | _CPU_64
CPU_ARM64 = CPU_ARM | _CPU_64
CPU_ARM64_32 = CPU_ARM | _CPU_64_32
CPU_PPC64 = CPU_PPC | _CPU_64

# What _dl_fixup is given for a lazy slot, by glibc's sysdeps/*/dl-trampoline.S. x86-64's stubs push
# the index; i386's and s390x's have the offset in them. On aarch64 and arm the stub leaves the
# slot's address behind, on RISC-V its own; PLT0 and the trampoline turn the distance from the
# first one's into the offset of the relocation (24 bytes each; 12 on RISC-V of 32 bits, 8 on arm).
# 64-bit PowerPC's branches and the PLT of MIPS have the index, and the trampoline makes it the
# offset. For words of the GOT of MIPS it is another function's: it is given the symbol's index.
BY_INDEX = 1  # in DT_JMPREL
BY_OFFSET = 2  # in DT_JMPREL, in bytes

# In place of a relocation's type, which is never as large: slots that no relocation fills.
GOT_WORD = 1 << 32  # filled when the image is loaded
STUBBED_GOT_WORD = GOT_WORD + 1  # leads to a stub until the first call

_EF_MIPS_ABI2 = 0x20  # n32
_ANY_PAGES = (4096, 16384, 65536)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self, dataclass_transform
else:  # importing it costs milliseconds

    def dataclass_transform(**_how: object) -> object:
        """Do nothing: type checkers alone ask."""
        return lambda made: made


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Row:
    """A row whose fields are the annotations of its class, given by name."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def but(self, **changes: object) -> Self:
        """Return a row that differs from this one in some fields."""
        return type(self)(**{**vars(self), **changes})


class RelocationTypes(_Row):
    """The relocation types of a machine that matter to slots, by role; 0 where there is none."""

    prefix: str  # of the names in `types`
    types: dict[int, str]  # those that fill a slot
    jump_slot: int
    glob_dat: int = 0
    copy: int
    relative: int
    irelative: frozenset[int] = frozenset()
    tlsdesc: int = 0
    dtpmod: int  # the module of a thread's variable
    tpoff: int = 0  # its distance from the thread pointer, which is added to that
    word: int  # the plain pointer to a symbol
    # types that fill a slot only where it lies in the GOT: any other pointer is filled by the same
    words: frozenset[int] = frozenset()


UNKNOWN = RelocationTypes(prefix="", types={}, jump_slot=0, copy=0, relative=0, dtpmod=0, word=0)


class Arch(_Row):
    """One machine. A file's is told by `number` (e_machine), `bits`, `order` and `flags`."""

    # The dicts are read alone, so that all may share one (RUF012).
    number: int
    bits: int = 64
    order: str = ""  # "<" or ">", "" for either
    flags: tuple[int, int] = (0, 0)  # (mask, value) of e_flags
    name: str  # the one that soscope prints
    aliases: tuple[str, ...] = ()  # what Apple calls the same code
    unames: tuple[str, ...] = ()  # what uname(2) does
    isa: str = ""  # the file or folder of its code in each `isa/`, "": there is none
    cputype: int = 0  # Mach-O's
    apple: dict[int, str] = {}  # Mach-O's names by subtype, -1 for any other  # noqa: RUF012
    pages: tuple[int, ...] = (4096,)  # the sizes that kernels are built for, the smallest first
    relocations: RelocationTypes = UNKNOWN  # without `types` where nothing but the name is known
    has_descriptors: bool = False  # a function may be named by words, the first is its address
    argument: int = BY_OFFSET  # what the lazy resolver is given
    # The dynamic tag that says that there are functions with a calling convention of their own, and
    # the bit of st_other that they have. No resolver knows which registers to keep for them, so the
    # loader binds them at once.
    variant: tuple[int, int] = (0, 0)
    implied: dict[int, str] = {}  # names of the kinds of slots without a relocation  # noqa: RUF012
    stubbed: int = 0  # the one of them that may be lazy
    hash_word: int = 4  # bytes of a number in DT_HASH
    symbol_count: int = 0  # the dynamic tag that has the number of dynamic symbols
    # Dynamic tags that say where the loader's list is, in place of DT_DEBUG: by the distance from
    # the entry of a word that has its address, or by the address of that.
    debug_maps: tuple[int, int] = (0, 0)
    # r_info is no number, but a 32-bit symbol and four bytes, the last of them the type
    has_split_info: bool = False
    has_stub_each: bool = False  # each JUMP_SLOT has a stub
    has_own_half: bool = False  # and what a lazy one leads to at first is part of it
    # A GNU property, and its bits that harden: (bit, name, the same in words).
    features: tuple[int, tuple[tuple[int, str, str], ...]] = (0, ())
    runs: tuple[int, ...] = ()  # further e_machines that the processor runs itself
    calls: dict[str, int] = {}  # numbers of system calls  # noqa: RUF012
    has_agent: bool = False
    emulator: str = ""  # what qemu calls the machine


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
        relative=3,  # without a symbol
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

# Of several rows with one number the first is what it means where nothing tells them apart.
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
    _AARCH64.but(  # ILP32: relocations of its own
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
    # processors of which nothing but names are known
    Arch(number=2, bits=32, order=">", name="sparc", pages=(8192,)),
    Arch(number=EM_SPARCV9, order=">", name="sparc64", pages=(8192,)),
    Arch(number=50, name="ia64", pages=(4096, 8192, 16384, 65536)),
    Arch(number=EM_LOONGARCH, name="loongarch", order="<", pages=_ANY_PAGES),
    Arch(number=EM_ALPHA, name="alpha", order="<", pages=(8192,), hash_word=8),
)


def arch_of(number: int, bits: int, order: str = "", flags: int = 0) -> Arch | None:
    """Return the row for e_machine, class, byte order and e_flags, None for an unknown processor.

    Where a file has a class or an order that its processor has not, the row is the one that
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
    """Return the first row with a name of ours, or of Apple's for the same code; None without."""
    return next((row for row in ARCHES if name == row.name or name in row.aliases), None)


def arch_of_cputype(cputype: int) -> Arch | None:
    """Return the row for a cputype of Mach-O's, None for an unknown one."""
    return next((row for row in ARCHES if cputype and row.cputype == cputype), None)


def arch_of_process(number: int, bits: int, order: str = "") -> Arch | None:
    """Return the row for a process; where `number` is 0, its e_machine is not known.

    Then it is what this processor runs with that many bits.
    """
    if number:
        return arch_of(number, bits, order)
    here = arch_here()
    known = () if here is None else (here.number, *here.runs)
    return next((a for a in ARCHES if a.number in known and a.bits == bits and a.unames), None)


def arch_here() -> Arch | None:
    """Return the row for what uname(2) calls the processor that this runs on, None for others."""
    from os import uname

    machine = uname().machine
    return next((row for row in ARCHES if machine in row.unames), None)
