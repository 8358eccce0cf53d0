# SPDX-License-Identifier: Apache-2.0
"""Functions declared outside of soscope: by users, by debug information, by ltrace's files.

Whatever the source, it is first converted to C declarations. A recording keeps these, and soscope
prints them if the user asks which prototype was used.
"""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.prototypes import records, table
from soscope.prototypes.capture import CapturePrograms
from soscope.prototypes.constants import ConstantSets
from soscope.prototypes.describe import Description
from soscope.prototypes.parser import Declarations
from soscope.prototypes.show import NamedTypes
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.prototypes.ctype import Function
    from soscope.prototypes.row import FunctionRow

# Sources of prototypes, the most trusted one first.
USER = "--prototypes"
TABLE = "table"
DWARF = "debug information"
CALLER = "debug information of a caller"
MANGLED = "name"
LTRACE = "ltrace"
TRUST = (USER, TABLE, DWARF, CALLER, MANGLED, LTRACE)
_PREAMBLE = "types.h"
_PRAGMA = "#pragma soscope prototypes: "


class Added:
    """A declared function: how its calls are captured (`known`) and printed (`row`, `names`).

    `kind` is a constant of this module, `file` the file from which it was read. `guessed` is one
    of row.GUESSED_… or "".
    """

    __slots__ = ("file", "guessed", "kind", "known", "names", "row")

    def __init__(
        self,
        kind: str,
        file: str,
        row: FunctionRow,
        names: NamedTypes,
        known: table.Known,
        guessed: str = "",
    ) -> None:
        self.kind = kind
        self.file = file
        self.row = row
        self.names = names
        self.known = known
        self.guessed = guessed


class SourceText:
    """Declarations in C: `text`, from the source `kind`; `file` is its file, for messages."""

    __slots__ = ("file", "kind", "text")

    def __init__(self, kind: str, file: str, text: str) -> None:
        self.kind = kind
        self.file = file
        self.text = text

    def packed(self) -> str:
        """Return the text with its source and file as C, for a recording."""
        file = self.file.replace("\\", "/").replace('"', "'").replace("\n", " ")
        return f'{_PRAGMA}{self.kind}\n# 1 "{file}"\n{self.text}'

    @classmethod
    def unpacked(cls, text: str) -> SourceText | None:
        """Return declarations from a recording, None if the text is of another kind."""
        head, _, rest = text.partition("\n")
        kind = head.removeprefix(_PRAGMA)
        if head == kind or kind not in TRUST:
            return None
        return cls(kind, "recording", rest)


def read(
    of: SourceText,
    preamble: str,
    known: NamedTypes,
    flags_of: Callable[[str], int],
    *,
    before: list[SourceText],
    refused: list[FormatError] | None = None,
) -> dict[str, Added]:
    """Return the functions that a text declares, by name.

    `preamble` has declarations of types that the text may use; it may also use those of the texts
    `before`. `known` are soscope's own sets of constants and structures. `flags_of` returns how a
    function is treated. Raises FormatError for a faulty declaration. With `refused`, errors for
    declarations that cannot be captured are added to it instead.
    """
    declarations = Declarations.of_types(preamble, _PREAMBLE)
    given = dict(declarations.structs)
    for earlier in before:
        declarations.read(earlier.text, earlier.file)
    declarations.functions.clear()
    declarations.read(of.text, of.file)
    sets = _sets(known, declarations)
    described: list[tuple[Function, Description]] = []
    for function in declarations.functions:
        try:
            described.append(
                (function, Description(function, sets, declarations.structs, shows_const=True))
            )
        except FormatError as error:
            if refused is None:
                raise
            refused.append(error)
    made = {
        name: struct
        for name, struct in declarations.structs.items()
        if struct is not given.get(name) or name not in known.structs
    }
    structs = {**known.structs, **records.tables(made, sets)}
    names = NamedTypes(sets.enums, sets.flags, structs)
    functions: dict[str, Added] = {}
    for function, description in described:
        try:
            programs = CapturePrograms(description)
        except FormatError as error:
            if refused is None:
                raise
            refused.append(error)
            continue
        kept = description.kept()
        guessed = function.words.get("GUESSED", [""])[0]
        for name in function.symbols():
            flags = flags_of(name.partition("@")[0])
            of_table = table.Known(name, flags, layout.NONE, description.error_rule, programs)
            # a header may declare a function again; the first declaration is kept
            functions.setdefault(name, Added(of.kind, of.file, kept, names, of_table, guessed))
    return functions


def _sets(known: NamedTypes, declarations: Declarations) -> ConstantSets:
    """Return soscope's sets of constants together with those in the declarations."""
    sets = ConstantSets()
    sets.enums = dict(known.enums)
    sets.flags = dict(known.flags)
    sets.values = {**known.values(), **declarations.constants}
    for tag, constants in declarations.enums.items():
        _add(sets, declarations.enum_kind(tag), f"enum {tag}", constants)
    for kind, prefix, where in declarations.prefixes:
        chosen = [
            (value, name)
            for name, value in declarations.constants.items()
            if name.startswith(prefix)
        ]
        if not chosen:
            raise FormatError(f"{where}: no constant begins with '{prefix}'", field=prefix)
        _add(sets, kind, f"{prefix}*", chosen)
    return sets


def _add(sets: ConstantSets, kind: str, name: str, constants: list[tuple[int, str]]) -> None:
    if kind == "ENUM":
        named: dict[int, str] = {}
        for value, constant in constants:
            named.setdefault(value, constant)
        sets.enums[name] = named
        return
    # flags of several bits come first, so that they are printed by one name
    ordered = sorted(constants, key=lambda pair: -pair[0].bit_count())
    sets.flags[name] = [(value, value, constant) for value, constant in ordered]
