# SPDX-License-Identifier: Apache-2.0
"""Parse tokens, constant expressions and preprocessor lines of C declarations."""

from __future__ import annotations

import re

from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Constant expressions of C, in preprocessor conditions, enums and array sizes.

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_CHARACTER = re.compile(r"'(\\?.)'")
_EXPRESSION_TOKEN = re.compile(
    r"\s*([A-Za-z_]\w*|\d\w*|'\\?.'|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!()<>?:])"
)
_ESCAPES = {"\\n": 10, "\\t": 9, "\\r": 13, "\\0": 0, "\\\\": 92, "\\'": 39}
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_MOST_BITS = 128  # limit of shifted numbers; no number of C has more bits
_MOST_DEPTH = 64


class NotConstantError(ValueError):
    """The text is not a constant expression, or one that soscope does not understand."""


def value_of(text: str, names: Callable[[str], int | None]) -> int:
    """Return the value of the expression `text`; `names` returns the values of other constants.

    Raises NotConstantError.
    """
    tokens: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _EXPRESSION_TOKEN.match(text, at)
        if match is None:
            raise NotConstantError(f"'{text}' is no number")
        tokens.append(match[1])
        at = match.end()
    parser = _Expression(tokens, names)
    value = parser.conditional(0)
    if parser.at != len(tokens):
        raise NotConstantError(f"'{text}' is no number")
    return value


class _Expression:
    def __init__(self, tokens: list[str], names: Callable[[str], int | None]) -> None:
        self.tokens = tokens
        self.names = names
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise NotConstantError(f"'{token}' is missing")

    def conditional(self, depth: int) -> int:
        if depth > _MOST_DEPTH:
            raise NotConstantError("too many parentheses")
        condition = self.binary(0, depth)
        if self.peek() != "?":
            return condition
        self.next()
        first = self.conditional(depth + 1)
        self.expect(":")
        other = self.conditional(depth + 1)
        return first if condition else other

    def binary(self, level: int, depth: int) -> int:
        if level == len(_LEVELS):
            return self.unary(depth)
        value = self.binary(level + 1, depth)
        while self.peek() in _LEVELS[level]:
            operator = self.next()
            value = _apply(operator, value, self.binary(level + 1, depth))
        return value

    def unary(self, depth: int) -> int:
        if depth > _MOST_DEPTH:
            raise NotConstantError("too many parentheses")
        token = self.next()
        if token == "(":
            value = self.conditional(depth + 1)
            self.expect(")")
            return value
        if token in ("-", "+", "~", "!"):
            value = self.unary(depth + 1)
            return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[token]
        return self.atom(token)

    def atom(self, token: str) -> int:
        if match := _NUMBER.fullmatch(token):
            digits = match[1]
            is_octal = digits.isdigit() and digits.startswith("0")
            try:
                return int(digits, 8 if is_octal else 0)
            except ValueError:
                raise NotConstantError(f"'{token}' is no number") from None
        if match := _CHARACTER.fullmatch(token):
            return _ESCAPES.get(match[1], ord(match[1][-1]))
        value = self.names(token) if token else None
        if value is None:
            raise NotConstantError(
                f"'{token}' is no known constant" if token else "a value is missing"
            )
        return value


def _apply(operator: str, a: int, b: int) -> int:
    if operator in ("<<", ">>") and not 0 <= b < _MOST_BITS:
        raise NotConstantError(f"nothing is shifted by {b}")
    if operator in ("/", "%"):
        if not b:
            raise NotConstantError("division by 0")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C rounds towards 0
        return quotient if operator == "/" else a - b * quotient
    operators: dict[str, Callable[[], int]] = {
        "||": lambda: a or b,
        "&&": lambda: a and b,
        "|": lambda: a | b,
        "^": lambda: a ^ b,
        "&": lambda: a & b,
        "==": lambda: a == b,
        "!=": lambda: a != b,
        "<": lambda: a < b,
        ">": lambda: a > b,
        "<=": lambda: a <= b,
        ">=": lambda: a >= b,
        "<<": lambda: a << b,
        ">>": lambda: a >> b,
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
    }
    value = operators[operator]()
    return int(bool(value)) if operator in ("||", "&&") else int(value)


# The part of C's preprocessor that declarations need: conditions, and constants by name.
#
# No file is included and no macro is expanded. `#define NAME NUMBER` defines a constant, other
# macros are ignored. The remaining text keeps its line numbers.

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


# The tokens of a C text, and their positions in its file.

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
