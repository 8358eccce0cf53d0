# SPDX-License-Identifier: Apache-2.0
"""Compile a folder of declarations to one file: python -m soscope.prototypes.build DIR OUT.

`soscope.prototypes.load()` reads the file at every start, so that nothing needs parsing then. The
file is made when soscope is packaged, and in a source checkout on first use.
"""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import suppress
from typing import Any

from soscope.errors import FormatError
from soscope.prototypes import catalog, failures, table, typereader
from soscope.prototypes.capture import CapturePrograms
from soscope.prototypes.catalog import AutomatonParts, Details
from soscope.prototypes.describe import Description
from soscope.prototypes.failures import ERRNOS
from soscope.prototypes.parser import Declarations
from soscope.prototypes.show import ConstantSets
from soscope.prototypes.table import Families, Special
from soscope.select.patterns import Automaton, compile_bre, compile_names
from soscope.wire import layout

# Make the compiled file that catalog.py reads.

_MARSHAL_VERSION = 4  # the format since Python 3.4; later versions read it, too


def packed(
    tables: tuple[bytes, bytes, bytes],
    automata: tuple[AutomatonParts, ...],
    details: Details,
    groups: dict[str, AutomatonParts],
    preamble: str,
    families: tuple[tuple[int, AutomatonParts], ...],
) -> bytes:
    """Return the contents of a compiled file."""
    packed_rows = [marshal.dumps(_shared(row, {}), _MARSHAL_VERSION) for row in details[0]]
    parts = (
        *tables,
        marshal.dumps(automata, _MARSHAL_VERSION),
        # Share equal strings and tuples, because marshal recognises them by identity.
        marshal.dumps((packed_rows, *_shared(details[1:], {})), _MARSHAL_VERSION),
        marshal.dumps(groups, _MARSHAL_VERSION),
        preamble.encode(),
        marshal.dumps(families, _MARSHAL_VERSION),
    )
    offsets = []
    offset = catalog.HEADER.size
    for part in parts:
        offsets += [offset, len(part)]
        offset += len(part)
    return b"".join((catalog.HEADER.pack(catalog.MAGIC, *offsets), *parts))


def write(path: str, content: bytes) -> None:
    """Write a compiled file completely or not at all. Raises OSError."""
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):  # it may not exist; the first error tells why
            os.unlink(temporary)
        raise


def _shared(value: Any, known: dict[tuple[type, str], Any]) -> Any:
    if isinstance(value, list):
        return [_shared(element, known) for element in value]
    if isinstance(value, dict):
        return {_shared(key, known): _shared(held, known) for key, held in value.items()}
    if isinstance(value, tuple):
        value = tuple(_shared(element, known) for element in value)
    # As True == 1 and (True,) == (1,), type and text are part of the key.
    return known.setdefault((type(value), repr(value)), value)


# These files come first, in this order, because the others use their declarations.
_FIRST = ("types.h", "enums.h", "structs.h")
_NOT_DECLARATIONS = "annotations.h"


def compile_directory(directory: str) -> bytes:
    """Return the contents of a compiled file for the declarations in `directory`.

    Raises FormatError for a faulty declaration, OSError if a file cannot be read.
    """
    sets = read_constants(directory)
    sets.enums["errno"] = {number: name for number, (name, _) in ERRNOS.items()}
    special = Special()
    special.read(_text(directory, "special.txt"), "special.txt")
    declarations = read_declarations(directory)
    descriptions = [
        Description(function, sets, declarations.structs) for function in declarations.functions
    ]

    # Functions that must not be hooked come first, because the first match counts.
    automata = {
        flag: _union(special.globs[flag])
        for flag in (layout.FN_NEVER, layout.FN_ENTRY_ONLY)
        if flag in special.globs
    }
    globs = list(automata)
    families = Families(_text(directory, "families.txt"), "families.txt")
    known = _known(descriptions, special, automata, families)
    structs = typereader.tables(declarations.structs, sets)
    details: Details = (
        [description.kept() for description in descriptions],
        {
            function.name: function.prototype
            for function in known
            if function.prototype != layout.NONE
        },
        sets.enums,
        sets.flags,
        structs,
        _failures(directory, known),
    )
    tables = (
        table.build(known, globs, arguments=True, exits=True),
        table.build(known, globs, arguments=True, exits=False),
        table.build(known, globs, arguments=False, exits=False),
    )
    preamble = "\n".join(_text(directory, name) for name in _FIRST)
    return packed(
        tables,
        tuple(map(_parts, automata.values())),
        details,
        _groups(directory, known),
        preamble,
        tuple((index, _parts(automaton)) for index, automaton in families.automata()),
    )


def read_declarations(directory: str) -> Declarations:
    """Read all declarations in `directory`. Raises FormatError, OSError."""
    declarations = Declarations()
    others = sorted(
        name
        for name in os.listdir(directory)
        if name.endswith(".h") and name not in (*_FIRST, _NOT_DECLARATIONS)
    )
    for name in (*_FIRST, *others):
        declarations.read(_text(directory, name), name)
    return declarations


def read_constants(directory: str) -> ConstantSets:
    """Read all sets of names in `directory`. Raises FormatError, OSError."""
    sets = ConstantSets()
    for name in sorted(os.listdir(directory)):
        if name.startswith("constants") and name.endswith(".txt"):
            sets.read(_text(directory, name), name)
    return sets


def main(arguments: list[str]) -> int:
    """Run from the command line: the directory to read, the file to write."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m soscope.prototypes.build DIRECTORY OUTPUT\n")
        return 2
    try:
        write(arguments[1], compile_directory(arguments[0]))
    except (FormatError, OSError) as error:
        sys.stderr.write(f"soscope: error: {error}\n")
        return 1
    return 0


def _text(directory: str, name: str) -> str:
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return file.read()


def _known(
    descriptions: list[Description],
    special: Special,
    automata: dict[int, Automaton],
    families: Families,
) -> list[table.Known]:
    known: dict[str, table.Known] = {}
    for number, description in enumerate(descriptions):
        function = description.function
        programs = CapturePrograms(description)
        for name in function.symbols():
            if name in known:
                raise FormatError(f"{function.where}: '{name}' is declared twice", field=name)
            bare, _, version = name.partition("@")
            flags = special.names.get(bare) or _glob_flag(bare, automata)
            if not version:  # a version tells the family already
                flags |= families.flag(name, function.where)
            known[name] = table.Known(name, flags, number, description.error_rule, programs)
    for name, flags in special.names.items():
        if name not in known:
            known[name] = table.Known(name, flags, layout.NONE, layout.ERROR_NONE, None)
    return list(known.values())


def _failures(directory: str, known: list[table.Known]) -> dict[str, failures.Listed]:
    file = "failures.txt"
    listed = failures.read_failures(_text(directory, file), file)
    for name in listed.keys() - {function.name for function in known}:
        raise FormatError(f"{file}: '{name}' is declared nowhere", field=name)
    return listed


def _groups(directory: str, known: list[table.Known]) -> dict[str, AutomatonParts]:
    """Compile the sets in groups.txt."""
    declared = {function.name: function.prototype for function in known if "@" not in function.name}
    names: dict[int, list[str]] = {}
    for name, prototype in declared.items():
        if prototype != layout.NONE:
            names.setdefault(prototype, []).append(name)

    def also(name: str) -> list[str]:
        return names.get(declared.get(name, layout.NONE), [])

    file = "groups.txt"
    sets = table.read_groups(_text(directory, file), file, list(declared), also)
    return {name: _parts(compile_names(members)) for name, members in sets.items()}


def _glob_flag(name: str, automata: dict[int, Automaton]) -> int:
    encoded = name.encode()
    return next((flag for flag, automaton in automata.items() if automaton.matches(encoded)), 0)


def _union(globs: list[str]) -> Automaton:
    """Compile all patterns of one treatment to a single automaton.

    Patterns may contain `*` and `[...]`; in regular expressions these are `.*` and `[...]`.
    """
    return compile_bre(r"\|".join(glob.replace("*", ".*") for glob in globs))


def _parts(automaton: Automaton) -> AutomatonParts:
    return (
        automaton.pattern,
        automaton.class_of,
        automaton.classes,
        automaton.next,
        automaton.accept,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
