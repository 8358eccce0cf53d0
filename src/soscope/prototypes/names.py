# SPDX-License-Identifier: Apache-2.0
"""The names of a function's arguments, from the text of its declaration."""

from __future__ import annotations

import re

_ANNOTATION = re.compile(r"\b[A-Z][A-Z_0-9]+\b(?:\((?:[^()]|\([^()]*\))*\))?")
_POINTER = re.compile(r"\(\s*\*\s*(\w+)\s*\)")
_LAST = re.compile(r"(\w+)\s*(?:\[[^]]*\]\s*)*$")
_OPTIONAL = "OPTIONAL("


def argument_names(declaration: str) -> tuple[list[str], list[list[str]]]:
    """Return the names of the fixed arguments, and those of each OPTIONAL, in order.

    "" stands for an argument without a name.
    """
    start = declaration.find("(")
    parts = _split(_inside(declaration, start))
    names: list[str] = []
    optionals: list[list[str]] = []
    for part in parts:
        text = part.strip()
        if text.startswith("..."):
            optionals = _optionals(text)
        elif text not in ("", "void"):
            names.append(_name(text))
    return names, optionals


def _optionals(text: str) -> list[list[str]]:
    """Return the names in each OPTIONAL(parameters, condition)."""
    names = []
    at = text.find(_OPTIONAL)
    while at >= 0:
        inside = _inside(text, at + len(_OPTIONAL) - 1)
        parameters = [part.strip() for part in _split(inside)[:-1]]
        names.append([] if parameters == ["void"] else [_name(part) for part in parameters])
        at = text.find(_OPTIONAL, at + len(_OPTIONAL) + len(inside))
    return names


def _name(parameter: str) -> str:
    plain = _ANNOTATION.sub("", parameter)
    pointer = _POINTER.search(plain)
    if pointer is not None:
        return pointer.group(1)
    last = _LAST.search(plain.strip())
    return last.group(1) if last is not None else ""


def _inside(text: str, at: int) -> str:
    """Return what stands between the parenthesis at `at` and the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if not depth:
            return text[at + 1 : end]
    return text[at + 1 :]


def _split(text: str) -> list[str]:
    """Split at the commas that are in no parentheses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
