# SPDX-License-Identifier: Apache-2.0
"""The linking data of a file before it is loaded: slots, stubs, symbols.

These classes serve both ELF and Mach-O. All addresses are link-time addresses (`vaddr`). An
offset counts from the start of the file that holds the image, fat or thin.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ELF = "elf"
MACHO = "mach-o"

# When a slot is bound to its symbol.
LAZY = "lazy"  # at the first call
NOW = "now"  # when the image is loaded
IRELATIVE = "irelative"  # when the image is loaded, by calling a resolver of the image
WEAK = "weak"  # when it is loaded, to the first of all images' definitions
UNBOUND = "unbound"  # never: the file names a symbol, but asks no loader to fill it
PRELINKED = "prelinked"  # in the file already; valid as long as no library changes
TLSDESC = "tlsdesc"  # two words for a thread-local variable: a function and its argument

# Kinds of the linker's stubs.
PLT = "plt"  # an entry of the procedure linkage table, with its lazy half
PLT_SEC = "plt.sec"  # the half that code calls, if the lazy half is elsewhere
PLT_GOT = "plt.got"  # without a lazy half
IPLT = "iplt"  # for a function that chooses its own implementation (IFUNC)
RETPOLINE = "retpoline"  # jumps by a return, against speculation
CALL_STUB = "call-stub"  # between functions, one for each group of them (PowerPC)
MIPS_STUB = "mips-stub"  # passes the symbol's index to the loader
STUB = "stub"  # __stubs, __symbol_stub1, …
PIC_STUB = "pic-stub"  # __picsymbolstub1, …
AUTH_STUB = "auth-stub"  # checks the signature of the pointer in the slot
OBJC_STUB = "objc-stub"  # loads a selector, then calls objc_msgSend
JUMP_TABLE = "jump-table"  # __jump_table of i386: stub and slot in one
# Code that a lazy slot leads to at first, and that nothing calls directly. No `Stub` has these
# kinds; they appear only in the path of a call.
LAZY_HALF = "lazy-half"  # belongs to a PLT_SEC entry
GLINK = "glink"  # belongs to a CALL_STUB


class Signed(NamedTuple):
    """How a pointer is signed (arm64e): key "IA", "IB", "DA" or "DB", and a 16-bit diversity.

    If `address_diversity` is true, the address of the slot is part of the signature, too.
    """

    key: str
    diversity: int
    address_diversity: bool


class Stub(NamedTuple):
    """Code of the linker that jumps through the slot at `slot`; 0 if that is no slot.

    `section` is None if the file has no section headers. `selector` is the name of the method
    that an OBJC_STUB calls.
    """

    vaddr: int
    size: int
    section: str | None
    kind: str
    slot: int
    selector: str | None = None


class FileSlot(NamedTuple):
    """One pointer cell through which code of this file reaches a symbol.

    `offset` is None if the file has no bytes for the slot. `kind` is the name of the relocation
    (R_X86_64_JUMP_SLOT) or of the Mach-O record (lazy-bind, chained-bind, indirect-symbol, …).
    `symbol` is "" if the slot has none (an IFUNC of this file whose name is lost). `version` is
    None if the symbol has none. `symbol_type` is "function", "object", "tls", "ifunc", "section",
    "none" or "unknown". `defined_here` tells whether this file defines the symbol.

    `library` is the file that the version requirement, or the two-level name space, names. It is
    "" if neither does. `binding` is a constant of this module. `resolver_argument` is what the C
    function behind the lazy resolver gets: the index of the relocation on x86-64, its offset on
    other machines, the offset of the record in Mach-O files, the symbol's index for a MIPS GOT
    word. `helper` is the address that the slot holds before it is bound, None if it is never
    lazy.
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

    `vaddr` is 0 if this file does not define it. `type` has the values of `FileSlot.symbol_type`.
    `binding` is "local", "global", "weak", "unique" or "unknown". `library` has the values of
    `FileSlot.library`.
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
    """What one file, or one slice of a fat file, says about its linking.

    The reader of each format has one such class. It reads each part when the caller asks for it,
    and then never raises FormatError: `partial` lists what could not be read.
    """

    @property
    def format(self) -> str:
        """The format of the file: ELF or MACHO."""

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
        """The kind of file.

        ELF: "executable", "pie", "shared", "static", "static-pie", "relocatable", "core". Mach-O:
        "executable", "dylib", "bundle", "object", "dylinker", "kext", ….
        """

    @property
    def build_id(self) -> str:
        """The GNU build-id or LC_UUID in hexadecimal, "" if it has none."""

    @property
    def soname(self) -> str | None:
        """The name that other files use to ask for it, None if it has none."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the libraries that it needs, in order."""

    @property
    def partial(self) -> Sequence[str]:
        """Reasons why parts of the file could not be read so far."""

    @property
    def slots(self) -> tuple[FileSlot, ...]:
        """The slots by rising address, with their stubs."""

    @property
    def stubs_without_slot(self) -> tuple[Stub, ...]:
        """Stubs that jump through a word that no relocation fills, or that could not be decoded."""

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that a loader sees, in order of their table."""

    def why_no_library(self, slot: FileSlot) -> str:
        """Return why `slot.library` is "", as far as the file alone tells."""

    def label(self, path: str) -> str:
        """Return the label of the image in the file at `path`, which may hold other images, too."""
