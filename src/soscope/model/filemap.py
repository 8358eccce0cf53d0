# SPDX-License-Identifier: Apache-2.0
"""What a file says of its linking before any loader has seen it: slots, stubs, symbols.

The same for ELF and Mach-O. All addresses are link-time ones (`vaddr`), offsets are those in
the file that holds the image, fat or thin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

ELF = "elf"
MACHO = "mach-o"

# When a slot gets its symbol.
LAZY = "lazy"  # at the first call
NOW = "now"  # when the image is loaded
IRELATIVE = "irelative"  # when it is loaded, by asking a resolver of the image's own
WEAK = "weak"  # when it is loaded, from whichever image has the first of all definitions
UNBOUND = "unbound"  # never: the file names a symbol, but says nobody has to fill it
PRELINKED = "prelinked"  # in the file already, as long as no library has changed
TLSDESC = "tlsdesc"  # a pair of words for a thread-local variable: a function, and what it is given

# Kinds of stubs. Those of the linker:
PLT = "plt"  # an entry of the procedure linkage table, its lazy half included
PLT_SEC = "plt.sec"  # the half that is called, where another one is lazy
PLT_GOT = "plt.got"  # without a lazy half
IPLT = "iplt"  # for a function that chooses its implementation itself (IFUNC)
RETPOLINE = "retpoline"  # leaves by a return, against speculation
CALL_STUB = "call-stub"  # among the functions, one for each stretch of them (PowerPC)
MIPS_STUB = "mips-stub"  # gives the loader the symbol's index
STUB = "stub"  # __stubs, __symbol_stub1, …
PIC_STUB = "pic-stub"  # __picsymbolstub1, …
AUTH_STUB = "auth-stub"  # checks the slot's signature
OBJC_STUB = "objc-stub"  # loads a selector, then calls objc_msgSend
JUMP_TABLE = "jump-table"  # __jump_table of i386: stub and slot in one
# What nobody calls, and a slot leads to at first: no `Stub` has these, only the way of a call does.
LAZY_HALF = "lazy-half"  # of a PLT_SEC entry
GLINK = "glink"  # of CALL_STUBs


class Signed(NamedTuple):
    """How a pointer is signed (arm64e): key "IA", "IB", "DA" or "DB", and a 16-bit diversity.

    `address_diversity` says that the address of the slot goes into the signature, too.
    """

    key: str
    diversity: int
    address_diversity: bool


class Stub(NamedTuple):
    """Code of the linker's that leads through the slot at `slot`; 0 where that is no slot.

    `section` is None where the file has no section headers. `selector` is the name of the
    method that an OBJC_STUB calls.
    """

    vaddr: int
    size: int
    section: str | None
    kind: str
    slot: int
    selector: str | None = None


class FileSlot(NamedTuple):
    """One pointer cell through which code of this file reaches a symbol.

    `offset` is None where the file has no bytes for it. `kind` is the name of the relocation
    (R_X86_64_JUMP_SLOT) or of the Mach-O record (lazy-bind, chained-bind, indirect-symbol, …).
    `symbol` is "" where there is none (an IFUNC of the file's own that has lost its name),
    `version` None where there is none; `symbol_type` is "function", "object", "tls", "ifunc",
    "section", "none" or "unknown". `defined_here` says that this file defines the symbol.

    `library` is the file that the version requirement, or the two-level name space, names;
    "" where nothing does. `binding` is a constant of this module. `resolver_argument` is what
    the C function behind the lazy resolver is given: the index of the relocation on x86-64, its
    offset on others, of Mach-O that of the record; of a MIPS GOT word the symbol's index. `helper`
    is where the slot leads before it is bound, None where it is never lazy.
    """

    vaddr: int
    offset: int | None
    section: str | None
    kind: str
    symbol: str
    version: str | None
    symbol_type: str
    defined_here: bool
    library: str
    binding: str
    resolver_argument: int | None
    helper: int | None
    signed: Signed | None
    stubs: tuple[Stub, ...]


class Symbol(NamedTuple):
    """One symbol that a loader sees.

    `vaddr` is 0 where it is not defined here. `type` as of `Slot.symbol_type`; `binding` is
    "local", "global", "weak", "unique" or "unknown". `library` as of `FileSlot`.
    """

    name: str
    version: str | None
    type: str
    binding: str
    vaddr: int
    size: int
    defined_here: bool
    library: str


class FileMap(Protocol):
    """What one file, or one slice of a fat one, says of its linking.

    The readers of the formats have one such class each; they read each part when it is asked
    for, and none of them raises FormatError then: `partial` says what could not be read.
    """

    @property
    def format(self) -> str:
        """ELF or MACHO."""

    @property
    def arch(self) -> str:
        """The architecture's name, as `soscope map` prints it."""

    @property
    def bits(self) -> int:
        """The size of an address."""

    @property
    def endian(self) -> str:
        """The byte order: "little" or "big"."""

    @property
    def kind(self) -> str:
        """What kind of file it is.

        ELF: "executable", "pie", "shared", "static", "static-pie", "relocatable", "core".
        Mach-O: "executable", "dylib", "bundle", "object", "dylinker", "kext", ….
        """

    @property
    def build_id(self) -> str:
        """The GNU build-id or LC_UUID in hexadecimal, "" without one."""

    @property
    def soname(self) -> str | None:
        """The name by which other files ask for it; None where it has none."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the libraries that it needs, in order."""

    @property
    def partial(self) -> Sequence[str]:
        """What could not be read so far, a reason each."""

    @property
    def slots(self) -> tuple[FileSlot, ...]:
        """The slots by rising address, with their stubs."""

    @property
    def stubs_without_slot(self) -> tuple[Stub, ...]:
        """Stubs that lead through what nothing fills, or through what cannot be told."""

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that a loader sees, in order of their table."""

    def why_no_library(self, slot: FileSlot) -> str:
        """Say why `slot.library` is "", as far as the file alone tells."""

    def label(self, path: str) -> str:
        """Return what the image is called in the file at `path`, which may have others."""
