# SPDX-License-Identifier: Apache-2.0
"""Constant expressions of C, in preprocessor conditions, enums and array sizes."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_CHARACTER = re.compile(r"'(\\?.)'")
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d\w*|'\\?.'|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!()<>?:])")
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
        match = _TOKEN.match(text, at)
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
            raise NotConstantError("nothing is divided by 0")
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
