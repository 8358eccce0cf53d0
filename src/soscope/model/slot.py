# SPDX-License-Identifier: Apache-2.0
"""A slot: one pointer cell that leads a caller's image to a function of another."""

from __future__ import annotations

from soscope.model.image import TracedImage
from soscope.model.record import Record

# Kinds of slots; the values are those of `enum sosc_slot_kind`.
SLOT_JUMP_SLOT = 1
SLOT_GLOB_DAT = 2  # every reference is a call or jump
SLOT_PLT_GOT = 3  # a re-aimed .plt.got stub in front of a GLOB_DAT
SLOT_CALL_SITES = 4  # re-aimed call sites: a lower bound
SLOT_METHOD = 5  # an entry of a Python method table; `caller` is the interpreter
SLOT_ENTRY = 6  # no cell, but the entry point of a function inside `callee`; no `caller`

# Why a chosen slot is not hooked; the values are those of `enum sosc_slot_refusal`.
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

# When a result is a failure; the values are those of `enum sosc_error_rule`.
ERROR_NONE = 0
ERROR_INT_NEGATIVE = 1
ERROR_LONG_NEGATIVE = 2
ERROR_NULL = 3
ERROR_MINUS_ONE = 4
ERROR_INT_NONZERO = 5
ERROR_INT_ZERO = 6
ERROR_INT_MINUS_ONE = 7

_MINUS_ONE = 0xFFFF_FFFF_FFFF_FFFF

# Of some rules: the bits of which one is set in a failure, and none in another result.
ERROR_BITS = {
    ERROR_NONE: 0,
    ERROR_INT_NEGATIVE: 0x8000_0000,
    ERROR_LONG_NEGATIVE: 1 << 63,
    ERROR_INT_NONZERO: 0xFFFF_FFFF,
}


def is_error(rule: int, result: int) -> bool:
    """Return whether the 64-bit word `result` is a failure by the error rule `rule`.

    The same rules run in the agent for `-c`; an unknown rule never fails.
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
    """One pointer cell of `caller` that holds a function of `callee`.

    `index` counts within the traced program `process`. `version` is "" without a symbol
    version. `caller` or `callee` is None where the image is not known. `addr` is the
    run-time address of the cell. `kind`, `refusal` and `error_rule` are constants of this
    module. `lazy`: it was unbound when it was hooked. `entry_only`: no exits for this
    function. `prototype` is an index into the prototypes, None = unknown function.
    `function` is the run-time address that calls went on to when it was hooked: of a lazy one
    the way to the resolver. `partial`: its address is loaded, too, and calls through that are not
    seen. `foreign`: it is not
    the function that soscope's table declares, but another library's of the same name.
    """

    __slots__ = (
        "addr",
        "callee",
        "caller",
        "entry_only",
        "error_rule",
        "foreign",
        "function",
        "index",
        "kind",
        "lazy",
        "partial",
        "process",
        "prototype",
        "refusal",
        "symbol",
        "version",
    )

    def __init__(
        self,
        index: int,
        process: int,
        symbol: str,
        version: str,
        caller: TracedImage | None,
        callee: TracedImage | None,
        addr: int,
        kind: int,
        refusal: int,
        lazy: bool,
        entry_only: bool,
        prototype: int | None,
        error_rule: int,
        partial: bool = False,
        foreign: bool = False,
        function: int = 0,
    ) -> None:
        self.index = index
        self.process = process
        self.symbol = symbol
        self.version = version
        self.caller = caller
        self.callee = callee
        self.addr = addr
        self.kind = kind
        self.refusal = refusal
        self.lazy = lazy
        self.entry_only = entry_only
        self.prototype = prototype
        self.partial = partial
        self.foreign = foreign
        self.function = function
        self.error_rule = error_rule

    @property
    def is_hooked(self) -> bool:
        """Return whether calls through it are seen."""
        return self.refusal == HOOKED
