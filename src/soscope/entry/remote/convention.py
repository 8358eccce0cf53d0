# SPDX-License-Identifier: Apache-2.0
"""The calling convention of an architecture as data: which registers hold what.

entry/remote/conventions.py has the convention of each architecture.
"""

from __future__ import annotations

from soscope.model.record import Record

# Which arguments use up an integer register.
WORDS_BY_KIND = "kind"  # only integers: floats have their own registers
WORDS_BY_PLACE = "place"  # every argument: a float leaves its word register empty

# The format of a long double, and how it is passed.
LONG_DOUBLE_SHORT = "double"  # as a double
LONG_DOUBLE_X87 = "x87"  # of 80 bits, on the stack
LONG_DOUBLE_PAIR = "pair"  # the sum of two doubles, passed as two doubles
LONG_DOUBLE_QUAD = "quad"  # of 128 bits, in one register or two integer registers
LONG_DOUBLE_POINTER = "pointer"  # the same, passed and returned by its address

# How a complex number is passed and returned.
COMPLEX_RECORD = "record"  # as a structure of two numbers
COMPLEX_SPLIT = "split"  # as two arguments; a result is in the first two float registers
COMPLEX_POINTER = "pointer"  # passed and returned by its address
COMPLEX_WORDS = "words"  # as in memory; a result in float registers or two words
COMPLEX_UNKNOWN = ""  # compilers do not agree


class RecordRules(Record, kw_only=True):
    """How structures are passed and returned by value.

    Structures of up to `most` bytes (-1: all) and of one of `sizes` (none: any) are passed in
    words as they are in memory, others by address. A structure of up to `numbers` floating-point
    numbers of one size is passed in float registers, and with `has_unions` also if some of them
    overlap. With `is_mixed` this holds for up to two fields that are not both integers and do not
    overlap.

    With `is_right`, structures smaller than a word are at its lower end. With `is_undivided`, a
    structure is not passed partly in registers and partly in memory. Results of up to
    `result_most` bytes are in registers, by the same rules. For larger results the caller passes
    an address as the first word, or in `pointer`. With `by_class` none of this holds: prototypes
    tell where each eight bytes are, by the psABI of x86-64.
    """

    most: int
    numbers: int = 0
    has_unions: bool = False
    is_mixed: bool = False
    sizes: tuple[int, ...] = ()
    is_right: bool = False
    is_undivided: bool = False
    result_most: int = 0
    pointer: str = ""
    by_class: bool = False


_SAME: dict[str, dict[int, int]] = {}  # as on x86-64


class Convention(Record, kw_only=True):
    """The calling convention of one architecture. Registers have target description names.

    Arguments: `words` and `floats` are their registers, in order. Further arguments are `stack`
    bytes above the stack pointer at the entry. `by` is WORDS_BY_KIND or WORDS_BY_PLACE. With
    `variadic_in_words`, floats behind `...` are passed as integers are, and with
    `spills_into_words` floats that find no float register. With `pairs_even`, an argument of two
    words begins at an even one. `long_double` and `complex` are constants of this module.
    `floats_hold_quads` tells that a float register has room for a long double. `records` are the
    rules for structures, whose fields are aligned to at most `most_aligned`.

    Float registers: `instead` are pairs of a name prefix in `floats` and another one that stubs
    may use. A single float is in its register as a double (`single_as_double`), in the upper half
    (`singles_high`), or two of them share a register (`singles_packed`). `is_whole` is a register
    and the bit that tells whether float registers have 64 bits. If they have, stubs report only
    their lower half. Otherwise the next register has the upper half. `kept` are registers that an
    emulator keeps in memory at the same distances for all threads: integer registers, float
    registers, and one register behind those. With `floats_lead`, only floats with no other
    argument before them are in float registers.

    Constants: `unlike` are functions with other arguments than on x86-64. `flags` maps the name
    of a set of flags to its differing values: here -> on x86-64. `constants` has the same for sets
    that are no flags. `errnos` are (first, count, first on x86-64) of differing values of errno.

    Results: `result` is the register of a result. For a 64-bit result on a 32-bit machine it has
    the lower half if `result_upper` is set, and the upper half if `result_lower` is set.
    `result_float` is the register of a float result, and `result_x87` of an 80-bit float ("": its
    name is not known). With `result_top`, the number of both is in bits 11 to 13 of that
    register. `words_of_result` and `floats_of_result` are the registers for results of several
    numbers (none: the registers of arguments).

    Calls: `returns` has the return address ("": it is on the stack, from which a return pops at
    least `popped[0]` and at most `popped[1]` bytes). `target` must have the address of an entered
    function ("": no register). A stub leaves the address of its slot in `slot_in`, and the
    address behind its jump in `behind_in` ("": it leaves neither). `state` is a register and its
    bit that is bit 0 of a function's address. `descriptor`: a function is named by three words,
    of which the first is the address, and these registers get the others. With `local_entries`,
    calls inside an image enter functions behind their beginning. `thread` are the registers of
    the thread pointer, its upper part first. If it is empty, soscope's code that calls run
    through puts it into `thread_at_call`. `plain` are the registers of a stub that does not
    describe them, each of a word, in order.

    Code: `code` is the smallest distance of two instructions, and `breakpoint` the breakpoint
    size in the protocol. `system` are the bytes of a system call instruction. `number`, `mmap`
    and `words_of_system` (none: `words`) tell how to call mmap(2), with further arguments
    `system_stack` bytes above the stack pointer, or with `mmap_by_address` with the address of
    its arguments. `mmap_anonymous` is MAP_ANONYMOUS.
    """

    pc: str = "pc"
    sp: str
    returns: str
    words: tuple[str, ...]
    floats: tuple[str, ...] = ()
    stack: int = 0
    by: str = WORDS_BY_KIND
    result: str
    result_float: str = ""
    floats_of_result: tuple[str, ...] = ()
    words_of_result: tuple[str, ...] = ()
    target: str = ""
    thread: tuple[str, ...]
    slot_in: str = ""
    behind_in: str = ""
    popped: tuple[int, int] = (0, 0)
    single_as_double: bool = False
    instead: tuple[tuple[str, str], ...] = ()
    variadic_in_words: bool = False
    spills_into_words: bool = False
    unlike: frozenset[str] = frozenset()
    flags: dict[str, dict[int, int]] = _SAME
    singles_high: bool = False
    singles_packed: bool = False
    pairs_even: bool = False
    long_double: str
    complex: str = COMPLEX_RECORD  # what C calls it
    records: RecordRules
    most_aligned: int = 8
    floats_hold_quads: bool = False
    local_entries: bool = False
    descriptor: tuple[str, ...] = ()
    result_top: str = ""
    result_upper: str = ""
    result_x87: str = ""
    result_lower: str = ""
    state: tuple[str, int] | None = None
    floats_lead: bool = False
    is_whole: tuple[str, int] | None = None
    kept: tuple[tuple[str, ...], tuple[str, ...], str] = ((), (), "")
    constants: dict[str, dict[int, int]] = _SAME
    errnos: tuple[tuple[int, int, int], ...] = ()
    thread_at_call: str = ""
    plain: tuple[str, ...] = ()
    mmap_by_address: bool = False
    mmap_anonymous: int = 0x20
    system_stack: int = 0
    code: int = 4
    breakpoint: int = 4  # what the protocol calls it
    system: bytes
    number: str
    mmap: int
    words_of_system: tuple[str, ...] = ()

    @property
    def result_words(self) -> tuple[str, ...]:
        """The integer registers for a result of several numbers."""
        return self.words_of_result or self.words

    @property
    def result_floats(self) -> tuple[str, ...]:
        """The float registers for a result of several numbers."""
        return self.floats_of_result or self.floats

    @property
    def system_words(self) -> tuple[str, ...]:
        """The registers for the arguments of a system call."""
        return self.words_of_system or self.words

    @property
    def has_unnamed_x87(self) -> bool:
        """Return whether the register of an 80-bit result is not known."""
        return self.long_double == LONG_DOUBLE_X87 and not self.result_x87
