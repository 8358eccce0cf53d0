# SPDX-License-Identifier: Apache-2.0
"""Images and their slots.

An image is one file as the loader mapped it into one process. A slot is one pointer cell that
leads a caller's image to a function of another.
"""

from __future__ import annotations

from soscope.model.record import Record

# Flags of an image, with the values of `enum sosc_image_flag`.
IMAGE_MAIN = 1
IMAGE_LOADER = 2
IMAGE_STARTUP = 4  # loaded before any code of the program ran
IMAGE_UNREADABLE = 8  # its headers were not found, so it is not hooked
IMAGE_LATE = 16  # hooked when its constructors may have run already
IMAGE_CLOSED = 32  # closed by dlclose
IMAGE_WRITE_REFUSED = 64  # its slots could not be written
IMAGE_METHODS_UNSEEN = 256  # it may have method tables, but soscope did not look for them


class TracedImage(Record):
    """One file as loaded (program, shared object, vDSO).

    `index` counts the images of one traced program. `process` is the index of that program: one
    exec with its control block, which forked children share. `load_bias`, `start` and `end` are
    run-time addresses; `end` is exclusive. `build_id` is empty if the file has none; then
    `checksum` (see `ElfImage`) tells the file apart, if it is known. `slots_left` counts the
    function slots that the filter does not want, `slots_refused` those that it wants and that
    cannot be hooked. `pid` is the process that loaded the image. `namespace` is 0 for the
    program's namespace; for images loaded by dlmopen or LD_AUDIT it is the loader's number for
    theirs.
    """

    index: int
    process: int
    name: str
    path: str
    load_bias: int
    start: int
    end: int
    build_id: bytes
    flags: int
    slots_hooked: int
    slots_left: int
    slots_refused: int
    pid: int
    namespace: int = 0
    checksum: bytes = b""

    def __repr__(self) -> str:
        """Show name, address and process, and the number of hooked slots."""
        slots = f"{self.slots_hooked:,} slot{'s' * (self.slots_hooked != 1)}"
        return f"<{self.label} at {self.start:#x} of process {self.pid}: {slots} hooked>"

    @property
    def identity(self) -> bytes:
        """The bytes that identify its file, as `ElfImage.identity`; empty if they are not known."""
        return self.build_id or self.checksum

    @property
    def is_main(self) -> bool:
        """Return whether this is the program itself."""
        return bool(self.flags & IMAGE_MAIN)

    @property
    def label(self) -> str:
        """The image's name, followed by its namespace's number if that is not the program's."""
        return f"{self.name}[{self.namespace}]" if self.namespace else self.name


# Kinds of slots, with the values of `enum sosc_slot_kind`.
SLOT_JUMP_SLOT = 1
SLOT_GLOB_DAT = 2  # every reference is a call or jump
SLOT_PLT_GOT = 3  # a re-aimed .plt.got stub that goes through a GLOB_DAT
SLOT_CALL_SITES = 4  # re-aimed call sites; there may be further calls
SLOT_METHOD = 5  # an entry of a Python method table; `caller` is the interpreter
SLOT_ENTRY = 6  # no cell, but the entry point of a function in `callee`; `caller` is None

# Why a chosen slot is not hooked, with the values of `enum sosc_slot_refusal`.
HOOKED = 0
REFUSED_ADDRESS_TAKEN = 1
REFUSED_NOT_A_CALL = 2
REFUSED_FULL = 3
REFUSED_WRITE = 4
REFUSED_TEXT = 5
REFUSED_FOREIGN = 6
REFUSED_IN_USE = 7
REFUSED_NO_SITE = 8
REFUSAL_NAMES = {
    HOOKED: "hooked",
    REFUSED_ADDRESS_TAKEN: "address-taken",
    REFUSED_NOT_A_CALL: "not-a-call",
    REFUSED_FULL: "full",
    REFUSED_WRITE: "write-refused",
    REFUSED_TEXT: "text-refused",
    REFUSED_FOREIGN: "foreign-value",
    REFUSED_IN_USE: "in-use",
    REFUSED_NO_SITE: "no-call-site",
}

# When a result counts as a failure, with the values of `enum sosc_error_rule`.
ERROR_NONE = 0
ERROR_INT_NEGATIVE = 1
ERROR_LONG_NEGATIVE = 2
ERROR_NULL = 3
ERROR_MINUS_ONE = 4
ERROR_INT_NONZERO = 5
ERROR_INT_ZERO = 6
ERROR_INT_MINUS_ONE = 7

_MINUS_ONE = 0xFFFF_FFFF_FFFF_FFFF

# For some rules, the bits of a result that show a failure: one of them is set in a failure, and
# none in any other result.
ERROR_BITS = {
    ERROR_NONE: 0,
    ERROR_INT_NEGATIVE: 0x8000_0000,
    ERROR_LONG_NEGATIVE: 1 << 63,
    ERROR_INT_NONZERO: 0xFFFF_FFFF,
}


def is_error(rule: int, result: int) -> bool:
    """Return whether the 64-bit word `result` is a failure by the error rule `rule`.

    The agent applies the same rules for `-c`. By an unknown rule no result is a failure.
    """
    if rule == ERROR_INT_NEGATIVE:
        failed = bool(result & 0x8000_0000)
    elif rule == ERROR_LONG_NEGATIVE:
        failed = bool(result >> 63 & 1)
    elif rule == ERROR_NULL:
        failed = result == 0
    elif rule == ERROR_MINUS_ONE:
        failed = result == _MINUS_ONE
    elif rule == ERROR_INT_NONZERO:
        failed = bool(result & 0xFFFF_FFFF)
    elif rule == ERROR_INT_ZERO:
        failed = not result & 0xFFFF_FFFF
    elif rule == ERROR_INT_MINUS_ONE:
        failed = result & 0xFFFF_FFFF == 0xFFFF_FFFF
    else:
        failed = False
    return failed


class TracedSlot(Record):
    """One pointer cell of `caller` that holds the address of a function of `callee`.

    `index` counts the slots of the traced program `process`. `version` is "" if the symbol has no
    version. `caller` or `callee` is None if the image is not known. `addr` is the run-time
    address of the cell. `kind`, `refusal` and `error_rule` are constants of this module. `lazy`
    is true if the slot was unbound when it was hooked. If `entry_only` is true, this function has
    no exits. `prototype` is an index into the prototypes, None for an unknown function.
    `function` is the run-time address that the slot held when it was hooked, and to which calls
    go on; for a lazy slot this address leads to the resolver. If `partial` is true, code also
    loads the function's address from the slot, and soscope does not see calls through that copy.
    If `foreign` is true, the function is not the one that soscope's table declares, but a
    function of the same name in another library.
    """

    index: int
    process: int
    symbol: str
    version: str
    caller: TracedImage | None
    callee: TracedImage | None
    addr: int
    kind: int
    refusal: int
    lazy: bool
    entry_only: bool
    prototype: int | None
    error_rule: int
    partial: bool = False
    foreign: bool = False
    function: int = 0

    @property
    def is_hooked(self) -> bool:
        """Return whether soscope sees the calls through this slot."""
        return self.refusal == HOOKED
