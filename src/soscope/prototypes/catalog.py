# SPDX-License-Identifier: Apache-2.0
"""The prototypes for printing: the compiled file, its rows, and look-ups by name."""

from __future__ import annotations

import marshal
import os
import sys
from struct import Struct

from soscope.binfmt.elf.lookup import gnu_hash
from soscope.errors import FormatError
from soscope.model.image import ERROR_NONE
from soscope.select.patterns import Automaton
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.model.call import Captured, Entry, Exit, Fields, Signature
    from soscope.model.image import TracedSlot
    from soscope.prototypes.byfields import Text, Texts
    from soscope.prototypes.failures import Failure, Listed
    from soscope.prototypes.formats import Argument
    from soscope.prototypes.printer import Printer
    from soscope.prototypes.show import NamedTypes
    from soscope.prototypes.sources import Added, SourceText


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
    >>> from soscope.prototypes.catalog import Rows
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
POINTS_NOWHERE = ""
POINTS_TO_STRING = "string"
POINTS_TO_WIDE = "wide string"
POINTS_TO_STRING_AT = "string at"  # a pointer to a string
POINTS_TO_WIDE_AT = "wide string at"
POINTS_TO_BYTES = "bytes"
POINTS_TO_VALUES = "values"
POINTS_TO_STRUCT = "struct"
POINTS_TO_SOCKET = "socket address"
POINTS_TO_DESCRIPTORS = "descriptors"  # a set of descriptors
POINTS_TO_FIELDS = "fields"  # a structure's fields in the format of argument N: "STRUCT:N"

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

# Kinds of arguments that follow the named ones: none, arguments that a format describes, "...",
# or "words N".
TAIL_NONE = ""
TAIL_OPEN = "..."
TAIL_PRINTF = "printf"
TAIL_SCANF = "scanf"
TAIL_WORDS = "words "
TAIL_LISTED = "va_list "  # with a language: the arguments of a format, in a va_list

# The part of a declaration that is a guess.
GUESSED_RESULT = "result"  # the result: a class may be returned by a hidden pointer
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


# The prototypes of a run: the agent's table of functions, and how calls are printed.
#
# Each program's start has to wait for the loading. So this module only opens the compiled file, and
# reads the data for printing when the first call is printed.

_FILE = "prototypes.bin"
_SOURCES = (".h", ".txt", ".py")
_FAMILY = 20  # offset of sosc_function_table.family
_DEFAULT_LIMIT = 32  # bytes of a string, as in ltrace and strace


def load(path: str | None = None) -> Prototypes:
    """Return the prototypes that come with soscope, or those in the compiled file `path`.

    In a source checkout, the declarations are compiled if the compiled file is missing or older
    than they are. Raises FormatError if there are neither, and for a faulty declaration.
    """
    if path is not None:
        content = opened(path)
        if content is None:
            raise FormatError(f"{path}: no compiled prototypes, or of another version")
        return Prototypes(content)
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(here)
    # soscope/prototypes/, soscope/, src/, the checkout.
    declarations = os.path.join(os.path.dirname(os.path.dirname(package)), "prototypes")
    newest = _newest(declarations, here)
    cache = os.path.join(here, "__pycache__", _FILE)
    for candidate in (os.path.join(package, "_agent", _FILE), cache):
        if newest and _mtime(candidate) < newest:
            continue
        content = opened(candidate)
        if content is not None:
            return Prototypes(content)
    if not newest:
        raise FormatError(
            "the compiled prototypes are missing", hint="install soscope again: a file is missing"
        )
    return Prototypes(_compile(declarations, cache))


def _newest(declarations: str, here: str) -> int:
    """Return when declarations or their compiler last changed, in ns; 0 outside of a checkout."""
    try:
        os.stat(os.path.join(declarations, "annotations.h"))
        times = [0]
        for directory in (declarations, here):
            with os.scandir(directory) as files:
                times += [file.stat().st_mtime_ns for file in files if file.name.endswith(_SOURCES)]
        return max(times)
    except OSError:
        return 0


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _compile(declarations: str, cache: str) -> Compiled:
    from contextlib import suppress

    from soscope.prototypes import build
    from soscope.prototypes.build import compile_directory

    content = compile_directory(declarations)
    if not sys.dont_write_bytecode:
        # As with Python's own cache: if the file cannot be written, every start compiles again.
        with suppress(OSError):
            build.write(cache, content)
    return Compiled(content)


class Prototypes:
    """All known functions; not for concurrent use by several threads."""

    __slots__ = (
        "_added",
        "_by_name",
        "_compiled",
        "_families",
        "_foreign",
        "_globs",
        "_listed",
        "_members",
        "_names",
        "_printers",
        "_rows",
        "_table",
        "_versioned",
        "texts",
    )

    def __init__(self, source: Compiled) -> None:
        self._compiled = source
        self._added: dict[str, Added] = {}
        self._families: dict[str, str] = {}  # function -> its family
        # for names in the table that belong to a family: functions of that name elsewhere
        self._foreign: dict[str, Added] = {}
        # added declarations, for a recording
        self.texts: list[SourceText] = []
        self._rows: Rows | None = None
        self._globs: list[Automaton] | None = None
        self._table = b""
        self._by_name: dict[str, int] = {}
        self._versioned: set[str] = set()  # functions with declarations for single versions
        self._listed: dict[str, Listed] = {}
        self._members: dict[tuple[str, str], bool] = {}
        self._names: NamedTypes | None = None
        self._printers: dict[str, Printer | None] = {}

    # ---- added declarations

    def add(self, text: SourceText, refused: list[FormatError] | None = None) -> None:
        """Add declarations; if a function is known already, the more trusted source counts.

        Raises FormatError for a faulty declaration. With `refused`, errors for declarations that
        cannot be captured are added to it instead.
        """
        from soscope.prototypes import sources

        self._load()
        if self._names is None:
            return
        functions = sources.read(
            text,
            self._compiled.preamble(),
            self._names,
            self.flags,
            before=self._users() if text.kind == sources.USER else [],
            refused=refused,
        )
        trust = sources.TRUST.index
        for name, function in functions.items():
            if function.known.flags and text.kind not in (sources.USER, sources.MANGLED):
                continue  # special.txt knows better than a compiler how calls of it behave
            old = self._added[name].kind if name in self._added else ""
            if not old and name in self._by_name:
                if text.kind != sources.USER and self.family(name):
                    self._foreign.setdefault(name, function)
                    continue
                old = sources.TABLE
            # of two files of the user, the later one counts, as with most options
            if not old or trust(text.kind) < trust(old) or (text.kind == old == sources.USER):
                self._added[name] = function
                if "@" in name:
                    self._versioned.add(name.partition("@")[0])
                self._printers.pop(name, None)
        self.texts.append(text)

    def _users(self) -> list[SourceText]:
        from soscope.prototypes import sources

        return [each for each in self.texts if each.kind == sources.USER]

    def state(self) -> tuple[dict[str, Added], dict[str, Added], int]:
        """Return the current state of the additions, for `restore`."""
        return dict(self._added), dict(self._foreign), len(self.texts)

    def restore(self, state: tuple[dict[str, Added], dict[str, Added], int]) -> None:
        """Remove everything that was added since `state`."""
        self._added, self._foreign, count = dict(state[0]), dict(state[1]), state[2]
        del self.texts[count:]
        self._printers.clear()

    @property
    def preamble(self) -> str:
        """The declarations of types that all others may use, as C."""
        return self._compiled.preamble()

    def is_known(self, name: str) -> bool:
        """Return whether a function is declared, by any source."""
        self._load()
        return name in self._added or name in self._by_name

    def is_foreign_known(self, name: str) -> bool:
        """Return whether a function of that name outside of the table's family is declared."""
        return name in self._added or name in self._foreign

    def is_of(self, family: str, what: str) -> bool:
        """Return whether an image or a version with this name belongs to a family."""
        if (family, what) not in self._members:
            parts = dict(self._compiled.families())[TREATMENT_FAMILIES[family]]
            self._members[family, what] = Automaton(*parts).matches(os.fsencode(what))
        return self._members[family, what]

    def source(self, name: str) -> tuple[str, str, str] | None:
        """Return (constant of `sources`, file, "FILE:LINE") of a declaration, else None.

        The file is the one that was read, and the last element is the place of the declaration.
        """
        from soscope.prototypes.sources import TABLE

        if name in self._added:
            function = self._added[name]
            return function.kind, function.file, function.row[-1]
        row = self.row(name)
        return None if row is None else (TABLE, "", row[-1])

    def foreign(self, name: str) -> tuple[str, str, str, str] | None:
        """Return a name's declaration for images outside of the table's family, and its source.

        The result is the declaration and the result of `source`, None if there is no such
        declaration.
        """
        function = self._foreign.get(name)
        if function is None:
            return None
        return function.row[-2], function.kind, function.file, function.row[-1]

    # ---- for the agent

    def function_table(
        self, patterns: list[Automaton], *, entry_only: bool, want_arguments: bool
    ) -> bytes:
        """Return SEC_FUNCTIONS; the automata of its globs are appended to `patterns`.

        If `entry_only` is true, nothing is captured at returns. Without `want_arguments`, the
        table only has which functions are special and when a result is a failure.
        """
        part = TABLE_NAMES
        if want_arguments:
            part = TABLE_ENTRY if entry_only else TABLE_FULL
        content = self._compiled.part(part)
        if self._added or self._foreign:
            from soscope.prototypes.table import extended

            exits = want_arguments and not entry_only
            more = [function.known for function in self._added.values()]
            others = [each.known for name, each in self._foreign.items() if name not in self._added]
            content = extended(content, more, arguments=want_arguments, exits=exits, others=others)
        table = bytearray(content)
        at = int.from_bytes(table[8:12], "little")  # sosc_function_table.globs
        for parts in self._compiled.automata():
            table[at : at + 2] = len(patterns).to_bytes(2, "little")
            at += layout.FUNCTION_GLOB.size
            patterns.append(Automaton(*parts))
        for family, parts in self._compiled.families():
            at = _FAMILY + 2 * family  # sosc_function_table.family
            table[at : at + 2] = len(patterns).to_bytes(2, "little")
            patterns.append(Automaton(*parts))
        return bytes(table)

    def others(self) -> set[str]:
        """Return the names of all functions whose declarations were added."""
        return self._added.keys() | self._foreign.keys()

    def later_table(
        self,
        names: Iterable[str],
        asked: Iterable[str],
        start: int,
        before: int,
        *,
        entry_only: bool,
        want_arguments: bool,
    ) -> bytes:
        """Return a table of added functions, for `table.later`."""
        from soscope.prototypes.table import later

        exits = want_arguments and not entry_only
        known = [(self._added.get(name) or self._foreign[name]).known for name in names]
        return later(known, asked, start, before, arguments=want_arguments, exits=exits)

    # ---- for filters

    def show_elements(self, most: int) -> None:
        """Print at most `most` elements of an array from now on."""
        self._load()
        assert self._names is not None
        self._names.elements = most

    def groups(self) -> dict[str, Automaton]:
        """Return set's name -> automaton that matches its functions, for the sets in groups.txt."""
        return {name: Automaton(*parts) for name, parts in self._compiled.groups().items()}

    # ---- for printing

    def format_call(
        self, slot: TracedSlot, captured: Captured, limit: int, after: Exit | None = None
    ) -> list[Argument]:
        """Return the arguments of a call, with strings of up to `limit` bytes.

        Data that the call fills in (the buffer of read) is printed as an address, unless the
        call's end is given as `after` and the call succeeded.
        """
        printer = self._printer(slot)
        if printer is None:
            from soscope.prototypes.printer import unknown_words

            return unknown_words(captured)
        return printer.arguments(captured, limit, after)

    def format_texts(
        self, slot: TracedSlot, captured: Captured, limit: int, after: Exit | None = None
    ) -> list[str]:
        """Return only the `shown` of the arguments of `format_call`, for lines of a trace."""
        printer = self._printer(slot)
        if printer is None:
            from soscope.prototypes.printer import unknown_words

            return [argument.shown for argument in unknown_words(captured)]
        return printer.texts(captured, limit, after)

    def format_result(
        self,
        slot: TracedSlot,
        after: Exit,
        entry: Entry | None,
        limit: int = _DEFAULT_LIMIT,
    ) -> Argument | None:
        """Return the result of a call, None if the function has none (void).

        No function needs `entry` yet.
        """
        printer = self._printer(slot)
        if printer is None:
            from soscope.prototypes.printer import unknown_result

            return unknown_result(after.result)
        return printer.result(after, limit)

    def by_fields(self, slot: TracedSlot, fields: Fields, limit: int) -> Texts | None:
        """Return the functions that make the text of `format_texts` for calls with these fields.

        They raise Unlike for a call that they cannot print. Return None if they could print no
        call.
        """
        printer = self._printer(slot)
        if printer is None:
            from soscope.prototypes.byfields import unknown
            from soscope.prototypes.printer import UNKNOWN_WORDS

            return unknown(fields, UNKNOWN_WORDS)
        return printer.by_fields(fields, limit)

    def result_text(self, slot: TracedSlot) -> tuple[Text | None, int]:
        """Return the function that prints a result by its field, and the error rule.

        If the result is an error by that rule, more must be printed. The function is None if the
        result takes more than its field.
        """
        printer = self._printer(slot)
        if printer is None:
            from soscope.prototypes.byfields import unknown_word

            return unknown_word, ERROR_NONE
        return printer.result_text()

    def known_at_entry(self, slot: TracedSlot) -> int | None:
        """Return how many arguments the call does not change, None for all of them.

        A line that is printed in parts begins with these, before the call returns.
        """
        printer = self._printer(slot)
        return None if printer is None else printer.known_at_entry

    def failure_errno(self, slot: TracedSlot, after: Exit) -> int | None:
        """Return the error number of a failed call.

        Return None if the call did not fail, or if errno tells nothing about its failure. For
        functions that return their error (pthread_*), it is the result.
        """
        printer = self._printer(slot)
        return None if printer is None else printer.failure_errno(after)

    def result_is_alone(self, slot: TracedSlot) -> bool:
        """Return whether a result's text depends only on its register and errno."""
        printer = self._printer(slot)
        return printer is None or printer.result_is_alone

    def declaration(self, name: str) -> str | None:
        """Return the declaration of a function with its annotations, None if unknown."""
        row = self.row(name)
        return None if row is None else row[-2]

    def signature(self, name: str) -> Signature | None:
        """Return the types of a function's arguments and result, None if it is not declared."""
        from soscope.prototypes.describe import signature_of

        row = self.row(name)
        return None if row is None else signature_of(row)

    def treatment(self, name: str) -> int:
        """Return the layout.FN_* flags for a function in special.txt, 0 if it is not there."""
        flags = treatment_of(
            self._treatments(), self._compiled.automata(), name.encode(errors="replace")
        )
        return flags & ~layout.FN_FAMILY

    def errno_name(self, number: int) -> str:
        """Return the name of an error number ("ENOENT" for 2), or "errno 4095" without a name."""
        from soscope.prototypes.failures import ERRNOS

        return ERRNOS[number][0] if number in ERRNOS else f"errno {number}"

    def errno_text(self, number: int) -> str:
        """Return glibc's English text for an error number."""
        from soscope.prototypes.failures import ERRNOS

        return ERRNOS[number][1] if number in ERRNOS else f"Unknown error {number}"

    # ---- for fault injection and replacements

    def row(self, name: str) -> FunctionRow | None:
        """Return the row of a declared function, None if it is not declared."""
        if name in self._added:
            return self._added[name].row
        rows = self._load()
        index = self._by_name.get(name)
        return None if index is None else rows[index]

    def flags(self, name: str) -> int:
        """Return how a function is treated (`layout.FN_*`), by its name or by a pattern."""
        from soscope.prototypes.table import flags_in

        if self._globs is None:
            self._globs = [Automaton(*parts) for parts in self._compiled.automata()]
        return flags_in(self._treatments(), os.fsencode(name), self._globs) & ~layout.FN_FAMILY

    def family(self, name: str) -> str:
        """Return the family of the table's declaration, "" if it is for every library."""
        if name not in self._families:
            flags = treatment_of(self._treatments(), (), os.fsencode(name))
            index = (flags & layout.FN_FAMILY) >> layout.FN_FAMILY_SHIFT
            named = (family for family, number in TREATMENT_FAMILIES.items() if number == index)
            self._families[name] = next(named, "")
        return self._families[name]

    def _treatments(self) -> bytes:
        """Return the table of names; it is kept, because hundreds of C++ names may be looked up."""
        if not self._table:
            self._table = self._compiled.part(TABLE_NAMES)
        return self._table

    def names(self) -> list[str]:
        """Return the names of all declared functions."""
        self._load()
        return list(self._by_name.keys() | self._added.keys())

    def failure(self, name: str) -> Failure | None:
        """Return how a function fails, None if that is not known."""
        from soscope.prototypes.failures import failure_of

        row = self.row(name)
        names = self._added[name].names if name in self._added else self._names
        if row is None or names is None:
            return None
        return failure_of(name, row, self._listed.get(name), names.enums)

    def structures(self, name: str = "") -> Structs:
        """Return the structures that a function's declaration may name; "": the table's."""
        self._load()
        added = self._added.get(name)
        names = self._names if added is None else added.names
        return {} if names is None else names.structs

    def result_kind(self, name: str) -> str:
        """Return the kind of a result that is not in an integer register, "" for all others.

        The kind is "float", "struct" or "complex number".
        """
        from soscope.prototypes.failures import RESULT_KINDS, result_kind

        row = self.row(name)
        return RESULT_KINDS.get(name, "") if row is None else result_kind(row)

    # ---- details, read on request

    def _load(self) -> Rows:
        if self._rows is None:
            from soscope.prototypes.show import NamedTypes

            details = self._compiled.details()
            packed, self._by_name, enums, flags, structs, self._listed = details
            self._versioned.update(name.partition("@")[0] for name in self._by_name if "@" in name)
            self._names = NamedTypes(enums, flags, structs)
            self._rows = Rows(packed)
        return self._rows

    def _named(self, slot: TracedSlot) -> str:
        """Return the name by which a slot's function is declared, perhaps with its version."""
        if slot.symbol not in self._versioned or not slot.version:
            return slot.symbol
        name = f"{slot.symbol}@{slot.version}"
        if name in self._added or (name in self._by_name and slot.symbol not in self._added):
            return name
        return slot.symbol

    def _printer(self, slot: TracedSlot) -> Printer | None:
        # Look up by name, because an index in a recording belongs to the soscope that wrote it.
        self._load()
        name = self._named(slot)
        added = self._added.get(name)
        is_foreign = slot.foreign and added is None
        if is_foreign:
            added = self._foreign.get(name)
            if added is None:
                return None
        key = f"{name}/" if is_foreign else name
        if key in self._printers:
            return self._printers[key]
        from soscope.prototypes.printer import Printer

        row = self.row(name) if added is None else added.row
        names = self._names if added is None else added.names
        guessed = "" if added is None else added.guessed
        printer: Printer | None = None
        if row is not None and names is not None and guessed:
            from soscope.prototypes.cxx import GuessedPrinter

            printer = GuessedPrinter(row, names, guessed)
        elif row is not None and names is not None:
            printer = Printer(row, names)
        self._printers[key] = printer
        return printer
