# SPDX-License-Identifier: Apache-2.0
"""Read prototypes/families.txt: the libraries whose functions a declaration is for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from soscope.errors import FormatError
from soscope.prototypes.treatment import FAMILIES
from soscope.select.automaton import Automaton, compile_bre
from soscope.wire import layout

_WORDS = ("of", "in", "but")


class Families:
    """The contents of families.txt."""

    __slots__ = ("_globs",)

    def __init__(self, text: str, file: str) -> None:
        """Parse the contents of a file. Raises FormatError."""
        self._globs: dict[tuple[str, str], list[str]] = {}
        last: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not line[0].isspace():
                name, said = words.pop(0), words.pop(0) if words else ""
                if name not in FAMILIES or said not in _WORDS:
                    raise FormatError(f"{file}:{number}: '{name} {said}' is no family", field=name)
                last = self._globs.setdefault((name, said), [])
            last += words

    def flag(self, function: str, where: str) -> int:
        """Return the family's flag for a function declared at `where`, 0 if it has no family."""
        file = where.partition(":")[0]
        for name, index in FAMILIES.items():
            if self._has(name, "of", file) and not self._has(name, "but", function):
                return index << layout.FN_FAMILY_SHIFT
        return 0

    def automata(self) -> list[tuple[int, Automaton]]:
        """Return (index, automaton for names of its images and versions) of each family."""
        return [
            (
                index,
                compile_bre(
                    r"\|".join(
                        glob.replace(".", r"\.").replace("*", ".*")
                        for glob in self._globs.get((name, "in"), [])
                    )
                ),
            )
            for name, index in FAMILIES.items()
        ]

    def _has(self, name: str, said: str, what: str) -> bool:
        return any(fnmatchcase(what, glob) for glob in self._globs.get((name, said), []))
