# SPDX-License-Identifier: Apache-2.0
"""The tokens of a C text, and their positions in its file."""

from __future__ import annotations

import re

from soscope.errors import FormatError
from soscope.prototypes.cparser import Preprocessed

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d\w*|\.\.\.|<<|>>|==|!=|<=|>=|&&|\|\|"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^\s\w]"
)
_OPENING = {"(": ")", "[": "]", "{": "}"}
# Words that compilers allow in a declaration, and whether parentheses follow.
_DECORATION = {
    "__extension__": False,
    "__inline": False,
    "__inline__": False,
    "inline": False,
    "extern": False,
    "register": False,
    "_Noreturn": False,
    "__attribute__": True,
    "__attribute": True,
    "__asm__": True,
    "__asm": True,
    "asm": True,
    "_Alignas": True,
}
_VECTOR_SIZE = ("vector_size", "__vector_size__")


class Tokens:
    """One pass over the tokens of one file; `constants` are the numbers that it defines."""

    def __init__(self, text: str, file: str) -> None:
        """Split a text. Raises FormatError for an unsupported condition of the preprocessor."""
        read = Preprocessed(text, file)
        self.constants = read.constants
        self.text = read.text
        self._markers = [(1, 1, file), *read.markers]
        self.starts: list[int] = []
        self.tokens: list[str] = []
        for match in _TOKEN.finditer(self.text):
            self.tokens.append(match[0])
            self.starts.append(match.start())
        # end markers, to look a few tokens ahead
        self.tokens += [""] * 4
        self.starts += [len(self.text)] * 4
        self.at = 0
        self.vector_size: list[str] | None = None  # argument of the last such attribute

    def where(self) -> str:
        """Return file and line of the next token."""
        return self.place(self.at)

    def place(self, token: int) -> str:
        """Return file and line of a token; the end of a file has the line of its last token."""
        while token and not self.tokens[token]:
            token -= 1
        number = self.text.count("\n", 0, self.starts[token]) + 1
        first, line, file = [marker for marker in self._markers if marker[0] <= number][-1]
        return f"{file}:{line + number - first}"

    def fail(self, what: str) -> FormatError:
        """Return the error `what` for the next token."""
        return self.fault(self.at, what)

    def fault(self, token: int, what: str) -> FormatError:
        """Return the error `what` for a token."""
        return FormatError(
            f"{self.place(token)}: {what}", field=self.tokens[token], offset=self.starts[token]
        )

    def before(self) -> str:
        """Return a text for the position at which something is missing."""
        token = self.tokens[self.at]
        return f"before '{token}'" if token else "before the end"

    def accept(self, word: str) -> bool:
        """Take the next token if it is `word`; return whether it was."""
        if self.tokens[self.at] != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        """Take the next token, which must be `word`. Raises FormatError."""
        if not self.accept(word):
            # It is missing behind the previous token, which may be on another line.
            what = f"'{word}' expected {self.before()}"
            raise self.fault(max(self.at - 1, 0), what)

    def is_name(self) -> bool:
        """Return whether the next token is a word."""
        word = self.tokens[self.at]
        return word[:1].isalpha() or word[:1] == "_"

    def group(self) -> list[str]:
        """Take a group in parentheses, brackets or braces, and return the tokens inside."""
        opening = self.tokens[self.at]
        if opening not in _OPENING:
            self.expect("(")
        self.at += 1
        start, depth, closing = self.at, 1, _OPENING[opening]
        while depth:
            word = self.tokens[self.at]
            if not word:
                raise self.fail("unfinished parenthesis")
            depth += (word == opening) - (word == closing)
            self.at += 1
        return self.tokens[start : self.at - 1]

    def decoration(self) -> None:
        """Skip words that do not matter for a call: `extern`, `inline`, attributes."""
        while (word := self.tokens[self.at]) in _DECORATION:
            self.at += 1
            if _DECORATION[word]:
                while self.is_name():  # __asm__ volatile (…)
                    self.at += 1
                self.attributes(self.group())

    def attributes(self, words: list[str]) -> None:
        """Store the relevant attributes in a group."""
        for at, word in enumerate(words):
            if word in _VECTOR_SIZE and words[at + 1 : at + 2] == ["("]:
                end, depth = at + 2, 1
                while depth and end < len(words):
                    depth += (words[end] == "(") - (words[end] == ")")
                    end += 1
                self.vector_size = words[at + 2 : end - 1]
