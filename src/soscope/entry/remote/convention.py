# SPDX-License-Identifier: Apache-2.0
"""How functions are called on one architecture: which registers have what, and nothing that runs.

One file for each instruction set in `isa/` holds its rows.
"""

from __future__ import annotations

# Which arguments move on to the next integer register.
WORDS_BY_KIND = "kind"  # integers alone: floating-point numbers have registers of their own
WORDS_BY_PLACE = "place"  # each argument, whatever it is: numbers leave theirs empty

# What a long double is, and how it is passed.
LONG_DOUBLE_SHORT = "double"  # as a double
LONG_DOUBLE_X87 = "x87"  # of 80 bits, on the stack
LONG_DOUBLE_PAIR = "pair"  # the sum of two doubles, which are passed as two are
LONG_DOUBLE_QUAD = "quad"  # of 128 bits, in one register, or two of integers
LONG_DOUBLE_POINTER = "pointer"  # the same, by its address; so is a result

# How a complex number is passed and returned.
COMPLEX_RECORD = "record"  # as a structure of two numbers is
COMPLEX_SPLIT = "split"  # as two arguments are; a result is in the first two registers for those
COMPLEX_POINTER = "pointer"  # by its address; so is a result
COMPLEX_WORDS = "words"  # as it lies in memory; a result in registers for numbers, or two words
COMPLEX_UNKNOWN = ""  # compilers do not agree


class RecordRules:
    """How structures are passed and returned by value.

    Those of up to `most` bytes (-1: all) and of one of `sizes` (none: any) are passed in words as
    they lie in memory, others by address. `numbers`: one of up to so many floating-point numbers
    of one size is passed as those, with `has_unions` also where some lie in one place; with
    `is_mixed` so are up to two fields, not both integers, none in one place.
    `is_right`: smaller ones than a word are at its lower end. `is_undivided`: not in registers and
    memory both. Results of up to `result_most` bytes are in registers, in the same way; for others
    the caller passes an address as the first word, or in `pointer`. With `by_class` nothing of this
    holds: declarations say where each eight bytes are, by the psABI of x86-64.
    """

    __slots__ = (
        "by_class",
        "has_unions",
        "is_mixed",
        "is_right",
        "is_undivided",
        "most",
        "numbers",
        "pointer",
        "result_most",
        "sizes",
    )

    def __init__(
        self,
        *,
        most: int,
        numbers: int = 0,
        has_unions: bool = False,
        is_mixed: bool = False,
        sizes: tuple[int, ...] = (),
        is_right: bool = False,
        is_undivided: bool = False,
        result_most: int = 0,
        pointer: str = "",
        by_class: bool = False,
    ) -> None:
        self.by_class = by_class
        self.has_unions = has_unions
        self.most = most
        self.numbers = numbers
        self.is_mixed = is_mixed
        self.sizes = sizes
        self.is_right = is_right
        self.is_undivided = is_undivided
        self.result_most = result_most
        self.pointer = pointer


class Convention:
    """One architecture. Registers have the names of the target description.

    Arguments: `words` and `floats` are their registers, in order; further ones lie `stack` bytes
    behind the stack pointer at the entry. `by` is WORDS_BY_KIND or WORDS_BY_PLACE.
    `variadic_in_words`: numbers behind `...` are passed as integers are, `spills_into_words`: so
    are those that find no register. `pairs_even`: what takes two words begins at an even one.
    `long_double` and `complex` are of the above; `floats_hold_quads`: a register of numbers has
    room for a long double.
    `records` are the rules for structures; nothing in one is aligned to more than `most_aligned`.
    `instead` are beginnings of names of `floats`, and what a stub may call them as well. A float
    lies in its register as a double (`single_as_double`), in the upper half (`singles_high`), or
    two share one (`singles_packed`). Where a register and its bit (`is_whole`) say that registers
    of numbers are whole, stubs tell their lower half alone, else the next one has the upper half.
    `kept` are registers whose places in an emulator's memory are alike for all threads: integers,
    numbers, and one that stands behind those. `floats_lead`: only numbers before which there is
    nothing else are in those registers.

    Constants: `unlike` are functions with other arguments than on x86-64; `flags` has by the name
    of a set of flags those with other values: here -> on x86-64. `values` has the same for sets
    that are no flags. `errnos` are (first, how many, first on x86-64) of errno's values that are
    others.

    Results: `result`, with `result_upper` for the upper half of 64 bits where `result` is the lower
    one, or has the upper one and `result_lower` the lower; `result_float`, and `result_x87` of
    those of 80 bits, "": it has no name that is known. With `result_top` the number of both is in
    bits 11 to 13 of that one. `result_words` and `result_floats` have results of several numbers,
    none: those of arguments do.

    Calls: `returns` holds the return address, "": it is on the stack, which a return takes
    `popped` bytes off, at least and at most. `target` has to hold the address of a function that
    is entered, "": none has. A stub leaves the address of the slot that it jumps through in
    `slot_in`, and that of what stands behind its jump in `behind_in`, "": it leaves neither.
    `state` is a register and its bit that is the lowest bit of a function's address. `descriptor`:
    functions are named by three words, the first is the address, and these registers get the
    others. `local_entries`: calls inside an image enter functions behind their beginning.

    `thread` are the registers of the thread pointer, its upper part first; where there are none,
    code of ours that calls go through leaves it in `thread_at_call`. `plain` are the registers of
    a stub that does not describe them, each of a word, in order.

    Code: `code` is the least distance of two instructions, `breakpoint` the size that a breakpoint
    has for the stub. `system` are the bytes of a system call; `number`, `mmap` and `system_words`
    how mmap(2) is called, further arguments of it `system_stack` bytes behind the stack pointer;
    `mmap_by_address`: with the address of its arguments. `mmap_anonymous` is MAP_ANONYMOUS.
    """

    __slots__ = (
        "behind_in",
        "breakpoint",
        "by",
        "code",
        "complex",
        "descriptor",
        "errnos",
        "flags",
        "floats",
        "floats_hold_quads",
        "floats_lead",
        "instead",
        "is_whole",
        "kept",
        "local_entries",
        "long_double",
        "mmap",
        "mmap_anonymous",
        "mmap_by_address",
        "most_aligned",
        "number",
        "pairs_even",
        "pc",
        "plain",
        "popped",
        "records",
        "result",
        "result_float",
        "result_floats",
        "result_lower",
        "result_top",
        "result_upper",
        "result_words",
        "result_x87",
        "returns",
        "single_as_double",
        "singles_high",
        "singles_packed",
        "slot_in",
        "sp",
        "spills_into_words",
        "stack",
        "state",
        "system",
        "system_stack",
        "system_words",
        "target",
        "thread",
        "thread_at_call",
        "unlike",
        "values",
        "variadic_in_words",
        "words",
    )

    def __init__(
        self,
        *,
        pc: str = "pc",
        sp: str,
        returns: str,
        words: tuple[str, ...],
        floats: tuple[str, ...] = (),
        stack: int = 0,
        by: str = WORDS_BY_KIND,
        result: str,
        result_float: str = "",
        result_floats: tuple[str, ...] = (),
        result_words: tuple[str, ...] = (),
        target: str = "",
        thread: tuple[str, ...],
        slot_in: str = "",
        behind_in: str = "",
        popped: tuple[int, int] = (0, 0),
        single_as_double: bool = False,
        instead: tuple[tuple[str, str], ...] = (),
        variadic_in_words: bool = False,
        spills_into_words: bool = False,
        unlike: frozenset[str] = frozenset(),
        flags: dict[str, dict[int, int]] | None = None,
        singles_high: bool = False,
        singles_packed: bool = False,
        pairs_even: bool = False,
        long_double: str,
        complex: str = COMPLEX_RECORD,  # noqa: A002  what C calls it
        records: RecordRules,
        most_aligned: int = 8,
        floats_hold_quads: bool = False,
        local_entries: bool = False,
        descriptor: tuple[str, ...] = (),
        result_top: str = "",
        result_upper: str = "",
        result_x87: str = "",
        result_lower: str = "",
        state: tuple[str, int] | None = None,
        floats_lead: bool = False,
        is_whole: tuple[str, int] | None = None,
        kept: tuple[tuple[str, ...], tuple[str, ...], str] = ((), (), ""),
        values: dict[str, dict[int, int]] | None = None,
        errnos: tuple[tuple[int, int, int], ...] = (),
        thread_at_call: str = "",
        plain: tuple[str, ...] = (),
        mmap_by_address: bool = False,
        mmap_anonymous: int = 0x20,
        system_stack: int = 0,
        code: int = 4,
        breakpoint: int = 4,  # noqa: A002  what the protocol calls it
        system: bytes,
        number: str,
        mmap: int,
        system_words: tuple[str, ...] = (),
    ) -> None:
        self.pc = pc
        self.sp = sp
        self.returns = returns
        self.words = words
        self.floats = floats
        self.stack = stack
        self.by = by
        self.result = result
        self.result_float = result_float
        self.result_floats = result_floats or floats
        self.result_words = result_words or words
        self.target = target
        self.slot_in = slot_in
        self.behind_in = behind_in
        self.thread = thread
        self.popped = popped
        self.single_as_double = single_as_double
        self.instead = instead
        self.variadic_in_words = variadic_in_words
        self.spills_into_words = spills_into_words
        self.unlike = unlike
        self.flags = flags or {}
        self.values = values or {}
        self.errnos = errnos
        self.floats_lead = floats_lead
        self.is_whole = is_whole
        self.kept = kept
        self.thread_at_call = thread_at_call
        self.plain = plain
        self.mmap_anonymous = mmap_anonymous
        self.system_stack = system_stack
        self.singles_high = singles_high
        self.singles_packed = singles_packed
        self.descriptor = descriptor
        self.local_entries = local_entries
        self.pairs_even = pairs_even
        self.long_double = long_double
        self.complex = complex
        self.records = records
        self.most_aligned = most_aligned
        self.floats_hold_quads = floats_hold_quads
        self.result_top = result_top
        self.result_upper = result_upper
        self.result_x87 = result_x87
        self.result_lower = result_lower
        self.state = state
        self.mmap_by_address = mmap_by_address
        self.code = code
        self.breakpoint = breakpoint
        self.system = system
        self.number = number
        self.mmap = mmap
        self.system_words = system_words or words

    @property
    def has_unnamed_x87(self) -> bool:
        """Return whether no register is known that has a result of 80 bits."""
        return self.long_double == LONG_DOUBLE_X87 and not self.result_x87
