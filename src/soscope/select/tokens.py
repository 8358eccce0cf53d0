# SPDX-License-Identifier: Apache-2.0
"""The tokens of a condition: numbers with units, texts, names, operators."""

from __future__ import annotations

import re

from soscope.errors import UsageError

NUMBER = "number"
TEXT = "text"  # a text in quotation marks
NAME = "name"
CONSTANT = "constant"  # a name in capitals, which stands for itself
OPERATOR = "operator"
END = "end"

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))(?P<unit>[A-Za-zµ]*)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><=|>=|==|!=|!~|&&|\|\||[<>=~&!()]))"
)
_WORDS = frozenset({"and", "or", "not"})

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 1 << 10, "g": 1 << 30, "t": 1 << 40,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip


class Token:
    """One token: its kind, its text, and its value if it is a number."""

    __slots__ = ("kind", "text", "value")

    def __init__(self, kind: str, text: str, value: float = 0) -> None:
        self.kind = kind
        self.text = text
        self.value = value


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a condition. The last one has the kind END. Raises UsageError."""
    tokens = []
    at, end = 0, len(text.rstrip())
    while at < end:
        matched = _TOKEN.match(text, at)
        if matched is None:
            raise _error(text, f"unexpected '{text[at:].strip()}'")
        at = matched.end()
        kind = matched.lastgroup
        word = matched.group("number") or matched.group("text") or matched.group(0).strip()
        if matched.group("number"):
            tokens.append(Token(NUMBER, matched.group(0).strip(), _number(text, matched)))
        elif kind == "text":
            tokens.append(Token(TEXT, re.sub(r"\\(.)", r"\1", word[1:-1])))
        elif kind == "name" and word not in _WORDS:
            is_constant = word == word.upper() and any(map(str.isalpha, word))
            tokens.append(Token(CONSTANT if is_constant else NAME, word))
        else:
            tokens.append(Token(OPERATOR, word))
    return [*tokens, Token(END, "")]


def _number(text: str, matched: re.Match[str]) -> float:
    digits, unit = matched.group("number"), matched.group("unit")
    if unit in ("m", "M"):
        raise _error(text, f"'{digits}{unit}': {digits}min is minutes, {digits}MiB is mebibytes")
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise _error(text, f"'{unit}' is no unit", hint="sizes: 64k, 1MiB, 1MB; times: 10ms, 1.5s")
    value = int(digits, 0 if "x" in digits.lower() else 10) if _is_whole(digits) else float(digits)
    scaled = value * factor
    return int(scaled) if unit and scaled == int(scaled) else scaled


def _is_whole(digits: str) -> bool:
    return "x" in digits.lower() or not any(character in ".eE" for character in digits)


def _error(text: str, what: str, *, hint: str | None = None) -> UsageError:
    return UsageError(f"--where '{text}': {what}", hint=hint, slug="where")
