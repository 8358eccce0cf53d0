# SPDX-License-Identifier: Apache-2.0
"""The part of C's preprocessor that declarations need: conditions, and constants by name.

No file is included and no macro is expanded. `#define NAME NUMBER` defines a constant, other
macros are ignored. The remaining text keeps its line numbers.
"""

from __future__ import annotations

import re

from soscope.errors import FormatError
from soscope.prototypes.expression import NotConstantError, value_of

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w*)(.*)", re.DOTALL)
_DEFINE = re.compile(r"\s*([A-Za-z_]\w*)(\()?(.*)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_MARKER = re.compile(r'[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)[ \t]+"([^"\n]*)"')
# Macros that compilers define on this machine, and that headers check.
_PREDEFINED = {
    "__linux__": 1,
    "__gnu_linux__": 1,
    "__unix__": 1,
    "__x86_64__": 1,
    "__amd64__": 1,
    "__LP64__": 1,
    "__STDC__": 1,
    "__STDC_VERSION__": 201710,
    "__GNUC__": 12,
    "__CHAR_BIT__": 8,
    "__SIZEOF_POINTER__": 8,
}


class Preprocessed:
    """A text without comments and directives; `constants` are the numbers that it defines.

    `markers` are its line markers: (number of the next line in the text, line, file).
    """

    def __init__(self, text: str, file: str) -> None:
        """Process a text. Raises FormatError, with file and line, for an unsupported condition."""
        self.markers: list[tuple[int, int, str]] = []
        self.constants: dict[str, int] = {}
        self._defined: dict[str, str] = {}
        self._file = file
        self.text = "\n".join(self._lines(_COMMENT.sub(_blank, text).split("\n")))
        self._keep_constants()

    def _lines(self, lines: list[str]) -> list[str]:
        kept: list[str] = []
        # for each open condition: is it true now, was one of its branches, is the outer one
        states: list[tuple[bool, bool, bool]] = []
        number = 0
        while number < len(lines):
            line, first = lines[number], number + 1
            number += 1
            joined = line
            is_directive = line.lstrip().startswith("#")
            while is_directive and joined.endswith("\\") and number < len(lines):
                joined = joined[:-1] + " " + lines[number]
                number += 1
            holds = states[-1][0] if states else True
            if is_directive:
                self._directive(joined, first, states, holds)
            if not is_directive:
                kept.append(line if holds else "")
            else:
                kept += [""] * (number - first + 1)
        if states:
            raise FormatError(f"{self._file}:{number}: #endif is missing", field="#endif")
        return kept

    def _directive(
        self, line: str, number: int, states: list[tuple[bool, bool, bool]], holds: bool
    ) -> None:
        marker = _MARKER.match(line)
        if marker is not None:
            self.markers.append((number + 1, int(marker[1]), marker[2]))
            return
        match = _DIRECTIVE.match(line)
        word, rest = (match[1], match[2].strip()) if match else ("", "")
        if word in ("if", "ifdef", "ifndef"):
            now = holds and self._condition(word, rest, number)
            states.append((now, now, holds))
        elif word in ("elif", "else", "endif"):
            if not states:
                raise FormatError(f"{self._file}:{number}: #{word} without #if", field=word)
            _, had, outer = states.pop()
            if word != "endif":
                wanted = outer and not had
                now = wanted and (word == "else" or self._condition("if", rest, number))
                states.append((now, had or now, outer))
        elif holds and word == "define":
            self._define(rest)
        elif holds and word == "undef":
            self._keep_constants()  # the text before it may use them
            self._defined.pop(rest, None)

    def _condition(self, word: str, rest: str, number: int) -> bool:
        if word != "if":
            name = rest.split(maxsplit=1)[0] if rest.split() else ""
            return (name in self._defined or name in _PREDEFINED) == (word == "ifdef")
        text = _DEFINED.sub(
            lambda match: str(
                int(
                    (match[1] or match[2]) in self._defined or (match[1] or match[2]) in _PREDEFINED
                )
            ),
            rest,
        )
        try:
            # in C, a name that is not defined is 0 in a condition
            return bool(value_of(text, lambda name: self._constant(name) or 0))
        except NotConstantError as error:
            raise FormatError(f"{self._file}:{number}: #if: {error}", field="#if") from None

    def _define(self, rest: str) -> None:
        match = _DEFINE.match(rest)
        if match:
            # a macro with parameters is no constant, but it is defined
            self._defined[match[1]] = "" if match[2] else match[3].strip()

    def _keep_constants(self) -> None:
        for name in self._defined:
            value = self._constant(name)
            if value is not None:
                self.constants[name] = value

    def _constant(self, name: str, depth: int = 0) -> int | None:
        text = self._defined.get(name, "")
        if not text:
            return _PREDEFINED.get(name)
        if depth > 16:
            return None
        try:
            return value_of(text, lambda other: self._constant(other, depth + 1))
        except NotConstantError:
            return None


def _blank(match: re.Match[str]) -> str:
    """Return the replacement of a comment; strings and characters stay unchanged."""
    text = match[0]
    return text if text[0] in "\"'" else " " + "\n" * text.count("\n")
