# SPDX-License-Identifier: Apache-2.0
"""The prototypes of a run: the agent's table of functions, and how calls are printed.

Each program's start has to wait for the loading. So this module only opens the compiled file, and
reads the data for printing when the first call is printed.
"""

from __future__ import annotations

import os
import sys

from soscope.errors import FormatError
from soscope.model.image import ERROR_NONE
from soscope.prototypes import compiled
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.model.call import Captured, Entry, Exit, Fields, Signature
    from soscope.model.image import TracedSlot
    from soscope.prototypes.byfields import Text, Texts
    from soscope.prototypes.compiled import FunctionRow, Structs
    from soscope.prototypes.formats import Argument
    from soscope.prototypes.printer import Printer
    from soscope.prototypes.show import NamedTypes
    from soscope.prototypes.sources import Added, SourceText
    from soscope.prototypes.table import Failure, Listed
    from soscope.select.patterns import Automaton

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
        content = compiled.opened(path)
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
        content = compiled.opened(candidate)
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


def _compile(declarations: str, cache: str) -> compiled.Compiled:
    from contextlib import suppress

    from soscope.prototypes import build
    from soscope.prototypes.build import compile_directory

    content = compile_directory(declarations)
    if not sys.dont_write_bytecode:
        # As with Python's own cache: if the file cannot be written, every start compiles again.
        with suppress(OSError):
            build.write(cache, content)
    return compiled.Compiled(content)


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

    def __init__(self, source: compiled.Compiled) -> None:
        self._compiled = source
        self._added: dict[str, Added] = {}
        self._families: dict[str, str] = {}  # function -> its family
        # for names in the table that belong to a family: functions of that name elsewhere
        self._foreign: dict[str, Added] = {}
        # added declarations, for a recording
        self.texts: list[SourceText] = []
        self._rows: compiled.Rows | None = None
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
        from soscope.prototypes.compiled import TREATMENT_FAMILIES
        from soscope.select.patterns import Automaton

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
        from soscope.select.patterns import Automaton

        part = compiled.TABLE_NAMES
        if want_arguments:
            part = compiled.TABLE_ENTRY if entry_only else compiled.TABLE_FULL
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
        from soscope.select.patterns import Automaton

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
        from soscope.prototypes.compiled import treatment_of

        flags = treatment_of(
            self._treatments(), self._compiled.automata(), name.encode(errors="replace")
        )
        return flags & ~layout.FN_FAMILY

    def errno_name(self, number: int) -> str:
        """Return the name of an error number ("ENOENT" for 2), or "errno 4095" without a name."""
        from soscope.prototypes.table import ERRNOS

        return ERRNOS[number][0] if number in ERRNOS else f"errno {number}"

    def errno_text(self, number: int) -> str:
        """Return glibc's English text for an error number."""
        from soscope.prototypes.table import ERRNOS

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
        from soscope.select.patterns import Automaton

        if self._globs is None:
            self._globs = [Automaton(*parts) for parts in self._compiled.automata()]
        return flags_in(self._treatments(), os.fsencode(name), self._globs) & ~layout.FN_FAMILY

    def family(self, name: str) -> str:
        """Return the family of the table's declaration, "" if it is for every library."""
        from soscope.prototypes.compiled import TREATMENT_FAMILIES, treatment_of

        if name not in self._families:
            flags = treatment_of(self._treatments(), (), os.fsencode(name))
            index = (flags & layout.FN_FAMILY) >> layout.FN_FAMILY_SHIFT
            named = (family for family, number in TREATMENT_FAMILIES.items() if number == index)
            self._families[name] = next(named, "")
        return self._families[name]

    def _treatments(self) -> bytes:
        """Return the table of names; it is kept, because hundreds of C++ names may be looked up."""
        if not self._table:
            self._table = self._compiled.part(compiled.TABLE_NAMES)
        return self._table

    def names(self) -> list[str]:
        """Return the names of all declared functions."""
        self._load()
        return list(self._by_name.keys() | self._added.keys())

    def failure(self, name: str) -> Failure | None:
        """Return how a function fails, None if that is not known."""
        from soscope.prototypes.table import failure_of

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
        from soscope.prototypes.table import RESULT_KINDS, result_kind

        row = self.row(name)
        return RESULT_KINDS.get(name, "") if row is None else result_kind(row)

    # ---- details, read on request

    def _load(self) -> compiled.Rows:
        if self._rows is None:
            from soscope.prototypes.show import NamedTypes

            details = self._compiled.details()
            packed, self._by_name, enums, flags, structs, self._listed = details
            self._versioned.update(name.partition("@")[0] for name in self._by_name if "@" in name)
            self._names = NamedTypes(enums, flags, structs)
            self._rows = compiled.Rows(packed)
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
