# SPDX-License-Identifier: Apache-2.0
"""The compiled file of prototypes: its parts, its rows, its special treatment of functions."""

from __future__ import annotations

import marshal
import os
from struct import Struct

from soscope.binfmt.elf.lookup import gnu_hash
from soscope.select.patterns import Automaton
from soscope.wire import layout

# The compiled file: its contents, and how to read it.
#
# It has a header (magic, then offset and size of every part) and the parts. Before the traced
# program starts, only one of the tables and the automata are read. Data for printing are read when
# there is something to print. Parts other than tables are in Python's marshal format.

# It changes whenever the meaning of rows, tables or programs changes.
MAGIC = b"soscope prototypes 12\n\0\0"

# Parts of the file.
TABLE_FULL = 0  # SEC_FUNCTIONS
TABLE_ENTRY = 1  # the same without programs for returns
TABLE_NAMES = 2  # the same without any programs
AUTOMATA = 3  # automata of the table's globs, in order
DETAILS = 4
GROUPS = 5  # automata of groups.txt, by name
PREAMBLE = 6  # declarations of types that all others may use, as C
FAMILIES = 7  # automata of families.txt, by index
_PARTS = 8
HEADER = Struct(f"<{len(MAGIC)}s{2 * _PARTS}Q")


class Compiled:
    """A compiled file, open or in memory: tables, automata, and details on request."""

    __slots__ = ("_content", "_offsets", "_path")

    def __init__(self, content: bytes, path: str = "") -> None:
        # Without a path, `content` is the whole file, else only its header.
        self._content = content
        self._path = path
        _, *offsets = HEADER.unpack_from(content)
        self._offsets = offsets

    def part(self, number: int) -> bytes:
        """Return one part. Raises OSError if the file is gone."""
        offset, size = self._offsets[2 * number : 2 * number + 2]
        if not self._path:
            return self._content[offset : offset + size]
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)

    def automata(self) -> tuple[AutomatonParts, ...]:
        """Return the automata of the table's globs."""
        automata: tuple[AutomatonParts, ...] = marshal.loads(self.part(AUTOMATA))  # noqa: S302  our own file
        return automata

    def preamble(self) -> str:
        """Return the declarations of types that all functions may use, as C."""
        return self.part(PREAMBLE).decode()

    def families(self) -> tuple[tuple[int, AutomatonParts], ...]:
        """Return (index, automaton for names of its images and versions) of each family."""
        families: tuple[tuple[int, AutomatonParts], ...] = marshal.loads(self.part(FAMILIES))  # noqa: S302  our own file
        return families

    def groups(self) -> dict[str, AutomatonParts]:
        """Return the automata of the sets of functions, by the sets' names."""
        groups: dict[str, AutomatonParts] = marshal.loads(self.part(GROUPS))  # noqa: S302  our own file
        return groups

    def details(self) -> PackedDetails:
        """Return the data for printing."""
        details: PackedDetails = marshal.loads(self.part(DETAILS))  # noqa: S302  our own file
        return details


class Rows:
    """The rows of all functions by number, each unpacked on first use: a run prints only a few.

    >>> import marshal
    >>> from soscope.prototypes.compiled import Rows
    >>> Rows([marshal.dumps(("f",))])[0]
    ('f',)
    """

    __slots__ = ("_packed",)

    def __init__(self, packed: list[bytes]) -> None:
        self._packed = packed

    def __getitem__(self, number: int) -> FunctionRow:
        row: FunctionRow = marshal.loads(self._packed[number])  # noqa: S302  our own file
        return row


def opened(path: str) -> Compiled | None:
    """Return the compiled file at `path`, None if there is none that is usable."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        header = os.pread(file, HEADER.size, 0)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    if len(header) < HEADER.size or not header.startswith(MAGIC):
        return None
    compiled = Compiled(header, path)
    # A file that was cut is not usable.
    return compiled if size == sum(compiled._offsets[-2:]) else None


# The row of a compiled prototype: all that is needed to print a call.
#
# A row is nested tuples of strings and numbers, so that a compiled file stores it directly and
# nothing needs parsing when a program is started. This module gives names to its parts.

# How an argument is passed (System V psABI x86-64 §3.2.3).
PLACE_INT = 0  # integer register: rdi, rsi, rdx, rcx, r8, r9
PLACE_FLOAT = 1  # low half of xmm0 .. xmm7
PLACE_STACK = 2  # words above the return address
PLACE_NONE = 3  # not recorded
PLACE_REGISTERS = 4  # a structure in one or two registers, by `index`: see packed()
PLACE_RESULT = 5  # a result in registers other than the first integer or vector register: likewise
PLACE_VECTOR = 7  # the whole vector register `index`
PLACE_MEMORY = 6  # a result at the address in the first integer register

# Numbers of registers in a packed index. Without an offset: rdi, rsi, …; in a result rax, rdx.
SECOND_FLOAT = 0x10  # xmm0, xmm1, …
SECOND_X87 = 0x20  # st0

# Formats of a number.
SHOW_DECIMAL = "decimal"
SHOW_OCTAL = "octal"
SHOW_HEX = "hex"
SHOW_CHAR = "char"
SHOW_WCHAR = "wchar"
SHOW_BOOL = "bool"
SHOW_POINTER = "pointer"
SHOW_ENUM = "enum"
SHOW_FLAGS = "flags"
SHOW_OCTAL_FLAGS = "octal flags"  # bits without a name are printed in octal
SHOW_FLOAT = "float"
SHOW_LONG_DOUBLE = "long double"
SHOW_STRUCT = "struct"  # by value, in one register
SHOW_COMPLEX = "complex"
SHOW_TEXT = "text"  # an array of characters
SHOW_SIGNALS = "signals"  # a set of signals: the kernel's first word
SHOW_BITS = "bits"  # as "FIRST:WIDTH:SHOW:SET": a bit-field within that many bytes
SHOW_WORD = "word"  # of unknown type
SHOW_BY = "enum by"  # as "SET:N": the set in the enum SET for argument number N

# Kinds of data at a pointer's target.
LEADS_NOWHERE = ""
LEADS_TO_STRING = "string"
LEADS_TO_WIDE = "wide string"
LEADS_TO_STRING_AT = "string at"  # a pointer to a string
LEADS_TO_WIDE_AT = "wide string at"
LEADS_TO_BYTES = "bytes"
LEADS_TO_VALUES = "values"
LEADS_TO_STRUCT = "struct"
LEADS_TO_SOCKET = "socket address"
LEADS_TO_DESCRIPTORS = "descriptors"  # a set of descriptors
LEADS_TO_FIELDS = "fields"  # a structure's fields in the format of argument N: "STRUCT:N"

# A number: (SHOW_, size in bytes, signed, set or structure).
Show = tuple[str, int, bool, str]
# When the call has written the data at an argument's target: all these numbers, with their values
# at the entry, compare so with 0. None: it never writes.
Writes = tuple[tuple[int, str], ...] | None
# One argument or a result: (C type, kind of location, index there, Show, kind of target, Show of
# the target, number of elements, when to print the data at the return, whether to print those at
# the call, too, name). The number of elements is ~N if it is in argument number N (BY_RESULT: in
# the result), otherwise it is not negative.
ArgumentRow = tuple[str, int, int, Show, str, Show | None, int, Writes, bool, str]
# All must be true: (number of the deciding argument, "&" or "==", values).
Conditions = tuple[tuple[int, str, tuple[int, ...]], ...]
# Arguments that exist only under conditions.
OptionalRow = tuple[Conditions, tuple[ArgumentRow, ...]]
# An argument that has another type under conditions: (its number, conditions, that argument).
OtherRow = tuple[int, Conditions, ArgumentRow]
# When a field is printed; all must be true: (offset and size of the deciding member, "&" or "==",
# values).
When = tuple[tuple[int, int, str, tuple[int, ...]], ...]
# Structures by name: (field, offset, format, conditions); fields of arrays have no names.
Structs = dict[str, tuple[tuple[str, int, Show, When], ...]]
# (name, arguments, optionals, tail, result, error rule, where errno is, alternative arguments,
# declaration, its file and line).
FunctionRow = tuple[
    str,
    tuple[ArgumentRow, ...],
    tuple[OptionalRow, ...],
    str,
    ArgumentRow | None,
    int,
    str,
    tuple[OtherRow, ...],
    str,
    str,
]

# An automaton as (pattern, class_of, classes, next, accept).
AutomatonParts = tuple[str, bytes, int, list[int], bytes]
# All data: rows, name -> row, sets of constants (names by value; mask, value and name of flags),
# structures, entries of failures.txt by name.
Details = tuple[
    list[FunctionRow],
    dict[str, int],
    dict[str, dict[int, str]],
    dict[str, list[tuple[int, int, str]]],
    Structs,
    dict[str, tuple[str, tuple[str, ...]]],
]
# The same in a compiled file: each row by itself, in Python's marshal format.
PackedDetails = tuple[
    list[bytes],
    dict[str, int],
    dict[str, dict[int, str]],
    dict[str, list[tuple[int, int, str]]],
    Structs,
    dict[str, tuple[str, tuple[str, ...]]],
]

# What follows the named arguments: nothing, those of a format, "...", or "words N".
TAIL_NONE = ""
TAIL_OPEN = "..."
TAIL_PRINTF = "printf"
TAIL_SCANF = "scanf"
TAIL_WORDS = "words "
TAIL_LISTED = "va_list "  # with a language: those of a format, in the last argument

# Which part of a declaration is a guess.
GUESSED_RESULT = "result"  # its result, as a class may be returned by a hidden pointer
GUESSED_ALL = "all"  # also whether it has a `this`

MORE = "..."  # in place of a field's name: further fields are not printed

BY_RESULT = ~0xFF  # in place of the number of the argument with the number of elements

# In place of an argument's number in Writes.
WRITES_RESULT = -1  # the result; also compared with "number": true unless it is a NaN
WRITES_SUCCESS = -2  # the call did not fail; no comparison

# Where the error number of a failure is.
ERRNO_OWN = ""  # in errno
ERRNO_CHANGED = "changed"  # in errno, if it differs from its value at the entry
ERRNO_RESULT = "result"
ERRNO_NONE = "none"


def argument_names(of: FunctionRow) -> tuple[list[str], list[list[str]]]:
    """Return the names of the fixed arguments, and of those in each OPTIONAL, in order.

    "" stands for an argument without a name.
    """
    optionals = [[argument[-1] for argument in arguments] for _, arguments in of[2]]
    return [argument[-1] for argument in of[1]], optionals


def packed(registers: list[int]) -> int:
    """Return the numbers of one or two registers as one index."""
    return sum(number << 8 * at for at, number in enumerate(registers))


def unpacked(index: int, size: int) -> list[int]:
    """Return the numbers of the registers that hold `size` bytes."""
    return [index >> 8 * at & 0xFF for at in range((size + 7) // 8)]


# Look up a function's flags from special.txt in SEC_FUNCTIONS, as the agent does.

# Index of a family in the table of functions: its flag, shifted.
TREATMENT_FAMILIES = {
    "libc": layout.FN_OF_LIBC >> layout.FN_FAMILY_SHIFT,
    "zlib": layout.FN_OF_ZLIB >> layout.FN_FAMILY_SHIFT,
}


def treatment_of(section: bytes, automata: tuple[AutomatonParts, ...], name: bytes) -> int:
    """Return the flags of a function in a section that was built without programs, 0 if none."""
    bits, cells_at, globs_at, *_ = layout.FUNCTION_TABLE.struct.unpack_from(section)
    value, mask = gnu_hash(name), (1 << bits) - 1
    index = (value >> 4) & mask
    for _ in range(1 << bits):
        at = cells_at + index * layout.FUNCTION.size
        hashed, name_at, *_, flags, _, _ = layout.FUNCTION.struct.unpack_from(section, at)
        if not name_at:
            break
        if hashed == value and section.startswith(name + b"\0", name_at):
            return int(flags)
        index = (index + 1) & mask
    for number, parts in enumerate(automata):
        if Automaton(*parts).matches(name):
            at = globs_at + number * layout.FUNCTION_GLOB.size
            return int(layout.FUNCTION_GLOB.struct.unpack_from(section, at)[1])
    return 0
