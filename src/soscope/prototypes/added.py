# SPDX-License-Identifier: Apache-2.0
"""Functions that others than soscope have declared: users, debug information, the files of ltrace.

Whatever the source, it is made C declarations first: that is what a recording keeps, and what is
shown to whoever asks for the prototype that was used.
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

# Where prototypes are from, the one that is believed first in front.
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
    """A declared function: how its calls are captured (`known`) and shown (`row`, `names`).

    `kind` is a constant of this module, `file` the file that it was read from, `guessed` one of
    row.GUESSED_… or "".
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
    """Declarations in C: `text`, from the source `kind`; `file` names it in messages."""

    __slots__ = ("file", "kind", "text")

    def __init__(self, kind: str, file: str, text: str) -> None:
        self.kind = kind
        self.file = file
        self.text = text

    def packed(self) -> str:
        """Return all of it as C, for a recording."""
        file = self.file.replace("\\", "/").replace('"', "'").replace("\n", " ")
        return f'{_PRAGMA}{self.kind}\n# 1 "{file}"\n{self.text}'

    @classmethod
    def unpacked(cls, text: str) -> SourceText | None:
        """Return what a recording keeps, None where it is of another kind."""
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

    `preamble` are the declarations of types that it may use, as those of the texts `before`
    are; `known` are soscope's sets of constants and structures. `flags_of` says how a function
    is treated. Raises FormatError for a faulty declaration; with `refused`, those that cannot
    be captured are put there instead.
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
            # a header may declare a function again; the first is as good as any
            functions.setdefault(name, Added(of.kind, of.file, kept, names, of_table, guessed))
    return functions


def _sets(known: NamedTypes, declarations: Declarations) -> ConstantSets:
    """Return soscope's sets of constants, and those that the declarations make."""
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
    # flags of several bits first, as names of all of them together
    ordered = sorted(constants, key=lambda pair: -pair[0].bit_count())
    sets.flags[name] = [(value, value, constant) for value, constant in ordered]
