# SPDX-License-Identifier: Apache-2.0
"""What a compiled prototype keeps of a declaration: how to print a call.

A row is nested tuples of strings and numbers, so that a compiled file holds it as it is and
nothing has to be parsed when a program is started. The classes here give its parts names.
"""

from __future__ import annotations

# Where an argument is passed (System V psABI x86-64 §3.2.3).
PLACE_INT = 0  # integer register: rdi, rsi, rdx, rcx, r8, r9
PLACE_FLOAT = 1  # low half of xmm0 .. xmm7
PLACE_STACK = 2  # words above the return address
PLACE_NONE = 3  # not recorded
PLACE_REGISTERS = 4  # a structure in one or two registers, `index` says which: see packed()
PLACE_RESULT = 5  # a result in other registers than the first integer or vector one: the same
PLACE_VECTOR = 7  # all of vector register `index`
PLACE_MEMORY = 6  # a result that lies where the first integer register leads

# Numbers of registers in a packed index. Without an addition: rdi, rsi, …; of a result rax, rdx.
SECOND_FLOAT = 0x10  # xmm0, xmm1, …
SECOND_X87 = 0x20  # st0

# How one number is shown.
SHOW_DECIMAL = "decimal"
SHOW_OCTAL = "octal"
SHOW_HEX = "hex"
SHOW_CHAR = "char"
SHOW_WCHAR = "wchar"
SHOW_BOOL = "bool"
SHOW_POINTER = "pointer"
SHOW_ENUM = "enum"
SHOW_FLAGS = "flags"
SHOW_OCTAL_FLAGS = "octal flags"  # what has no name is octal
SHOW_FLOAT = "float"
SHOW_LONG_DOUBLE = "long double"
SHOW_STRUCT = "struct"  # by value, in one register
SHOW_COMPLEX = "complex"
SHOW_TEXT = "text"  # an array of characters
SHOW_SIGNALS = "signals"  # a set of them: of the kernel's first word
SHOW_BITS = "bits"  # as "FIRST:WIDTH:SHOW:SET": a bit-field in that many bytes
SHOW_WORD = "word"  # of unknown type
SHOW_BY = "enum by"  # as "SET:N": the set that the enum SET has for argument number N

# What a pointer leads to.
LEADS_NOWHERE = ""
LEADS_TO_STRING = "string"
LEADS_TO_WIDE = "wide string"
LEADS_TO_STRING_AT = "string at"  # to a pointer to one
LEADS_TO_WIDE_AT = "wide string at"
LEADS_TO_BYTES = "bytes"
LEADS_TO_VALUES = "values"
LEADS_TO_STRUCT = "struct"
LEADS_TO_SOCKET = "socket address"
LEADS_TO_DESCRIPTORS = "descriptors"  # a set of them
LEADS_TO_FIELDS = "fields"  # of a structure, "STRUCT:N": those that the format in argument N names

# A number: (SHOW_, size in bytes, signed, set or structure).
Show = tuple[str, int, bool, str]
# When the call has written what an argument leads to: all of these hold, each a number, as it
# was at the entry, compared with 0. None: it writes nothing.
Writes = tuple[tuple[int, str], ...] | None
# One argument or a result: (C type, place, index there, Show, leads, Show of what it leads
# to, ~N where argument number N says how many of those there are (BY_RESULT: the result) and else
# no negative number,
# when it is printed as it is at the return, whether it is as it is at the call, too, name).
ArgumentRow = tuple[str, int, int, Show, str, Show | None, int, Writes, bool, str]
# All of them hold: (number of the argument that decides, "&" or "==", values).
Conditions = tuple[tuple[int, str, tuple[int, ...]], ...]
# Arguments that are there under conditions.
OptionalRow = tuple[Conditions, tuple[ArgumentRow, ...]]
# An argument that is another one under conditions: (its number, conditions, that one).
OtherRow = tuple[int, Conditions, ArgumentRow]
# When a field is shown: all of them hold: (offset and size of the member that decides, "&" or
# "==", values).
When = tuple[tuple[int, int, str, tuple[int, ...]], ...]
# Structures by name: (field, offset, how it is shown, when); fields of arrays have no names.
Structs = dict[str, tuple[tuple[str, int, Show, When], ...]]
# (name, arguments, optionals, tail, result, error rule, where errno is, arguments that are others,
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
# All of it: rows, name -> row, sets of constants (names by value; mask, value and name of
# flags), structures, what failures.txt says by name.
Details = tuple[
    list[FunctionRow],
    dict[str, int],
    dict[str, dict[int, str]],
    dict[str, list[tuple[int, int, str]]],
    Structs,
    dict[str, tuple[str, tuple[str, ...]]],
]
# The same as a compiled file has it: each row for itself, in Python's marshal format.
PackedDetails = tuple[
    list[bytes],
    dict[str, int],
    dict[str, dict[int, str]],
    dict[str, list[tuple[int, int, str]]],
    Structs,
    dict[str, tuple[str, tuple[str, ...]]],
]

# What follows the named arguments: nothing, a format's, "...", or "words N".
TAIL_NONE = ""
TAIL_OPEN = "..."
TAIL_PRINTF = "printf"
TAIL_SCANF = "scanf"
TAIL_WORDS = "words "
TAIL_LISTED = "va_list "  # with a language: a format's, in the last argument

# How much of what is said of a function is a guess.
GUESSED_RESULT = "result"  # its result: a class, perhaps, which is returned by a hidden pointer
GUESSED_ALL = "all"  # and whether it has a `this`

MORE = "..."  # in place of the name of a field: there are more that are not shown

BY_RESULT = ~0xFF  # in place of the number of the argument that says how many there are

# In place of the number of an argument in Writes.
WRITES_RESULT = -1  # the result; compared with "number" as well: it is none if it is a NaN
WRITES_SUCCESS = -2  # the call did not fail; compared with nothing

# Where the reason of a failure is.
ERRNO_OWN = ""  # in errno
ERRNO_CHANGED = "changed"  # in errno, if that is another one than at the entry
ERRNO_RESULT = "result"
ERRNO_NONE = "none"


def argument_names(of: FunctionRow) -> tuple[list[str], list[list[str]]]:
    """Return the names of the fixed arguments, and those of each OPTIONAL, in order.

    "" stands for an argument without a name.
    """
    optionals = [[argument[-1] for argument in arguments] for _, arguments in of[2]]
    return [argument[-1] for argument in of[1]], optionals


def packed(registers: list[int]) -> int:
    """Return one index for the numbers of one or two registers."""
    return sum(number << 8 * at for at, number in enumerate(registers))


def unpacked(index: int, size: int) -> list[int]:
    """Return the numbers of the registers in which `size` bytes are."""
    return [index >> 8 * at & 0xFF for at in range((size + 7) // 8)]
