# SPDX-License-Identifier: Apache-2.0
r"""Find the mangled names of a C++ pattern such as `Locker::*`.

A slot has the linked name, which consists of the same parts: `Locker::depth() const` is
`_ZNK6Locker5depthEv` (Itanium C++ ABI, "Mangling": <nested-name>, <source-name>,
<ctor-dtor-name>, <template-args>, <substitution>). A pattern with `::` therefore becomes a basic
regular expression for linked names. It covers only the function's name, because the pattern says
nothing about the types of the parameters. Names in Rust's older scheme have the same form, with a
hash behind the last part.

The arguments of a template are between I and E, and may contain names themselves. A regular
expression cannot count how deep they are nested. Everything between the first I and any E after
it is taken as arguments. Arguments in a pattern are therefore ignored: `std::vector<int>::at`
means `std::vector::at` for all types.

Operators have codes (<operator-name>): `Locker::operator=` is `_ZN6LockeraSERKS_`. A sign may
have two meanings, each with its own code. `operator-` means both of them. `operator*` is a glob
and means all operators. In a conversion (`operator int`) the type is not a name, so conversions
are not found.
"""

from __future__ import annotations

_SPECIAL = "*?[\\"
_LENGTH = "[1-9][0-9]*"  # length in front of each name
_ARGUMENTS = r"\(I.*E\)\?"
_TAGS = r"\(B[0-9]\+[a-z0-9_]\+\)\?"  # [abi:cxx11]
_HASH = r"\(17h[0-9a-f]*\)\?"  # a hash of Rust
_STRING = r"\(Ss\|St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE\)"
_OPERATOR = "operator"
_CODES = {
    "new": "nw", "new[]": "na", "delete": "dl", "delete[]": "da", "co_await": "aw",
    "~": "co", "+": r"\(ps\|pl\)", "-": r"\(ng\|mi\)", "*": r"\(de\|ml\)", "/": "dv", "%": "rm",
    "&": r"\(ad\|an\)", "|": "or", "^": "eo", "=": "aS", "+=": "pL", "-=": "mI", "*=": "mL",
    "/=": "dV", "%=": "rM", "&=": "aN", "|=": "oR", "^=": "eO", "<<": "ls", ">>": "rs", "<<=": "lS",
    ">>=": "rS", "==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge",
    "<=>": "ss", "!": "nt", "&&": "aa", "||": "oo", "++": "pp", "--": "mm", ",": "cm",
    "->*": "pm", "->": "pt", "()": "cl", "[]": "ix",
}  # fmt: skip
_STREAMS = {"ostream": "So", "istream": "Si", "iostream": "Sd"}


def is_qualified(text: str) -> bool:
    """Return whether a glob is for names with a scope, like `std::*`.

    >>> from soscope.select.cxx import is_qualified
    >>> is_qualified("Locker::*"), is_qualified("::open"), is_qualified("open*")
    (True, False, False)
    """
    return "::" in _without_arguments(text).strip(":")


def linked_pattern(text: str) -> str:
    r"""Return a basic regular expression for the linked names that a glob with `::` means.

    >>> from soscope.select.cxx import linked_pattern
    >>> linked_pattern("Locker::*")
    '_ZN[rVK]*[RO]\\?6Locker\\(B[0-9]\\+[a-z0-9_]\\+\\)\\?\\(I.*E\\)\\?.*'
    """
    parts = _without_arguments(text).removeprefix("::").split("::")
    *scopes, last = parts
    code = _code(last)
    way = r"N[rVK]*[RO]\?"
    if scopes == ["std"]:  # functions of std have no N in front
        way = rf"\({way}\)\?"
    said = "_Z" + way
    if scopes[0] == "std":
        if len(scopes) > 1 and scopes[1] == "string":
            said += _STRING
            scopes = scopes[2:]
        elif len(scopes) > 1 and scopes[1] in _STREAMS:
            said += rf"\({_STREAMS[scopes[1]]}\|St{_name(scopes[1])}\)"
            scopes = scopes[2:]
        else:
            said += "St"
            scopes = scopes[1:]
    said += "".join(_name(scope) + ("" if scope == "*" else _TAGS + _ARGUMENTS) for scope in scopes)
    if last == "*":
        return said + ".*"
    of_class = parts[-2]
    if last == of_class and not _is_glob(last):
        return rf"{said}C[1-5]{_TAGS}\(I.*\)\?E.*"
    if last.startswith("~"):
        return rf"{said}D[0-5]{_TAGS}E.*"
    if last == f"{_OPERATOR}*":
        return rf"{said}\([a-z][a-zA-Z]\|{_name(_OPERATOR + '?')}\).*"
    if last.endswith("*") and not code:
        return said + _name(last)
    end = ".*" if parts[:-1] == ["std"] else rf"{_ARGUMENTS}{_HASH}E.*"
    return said + (code or _name(last)) + _TAGS + end


def shown_pattern(text: str) -> str:
    """Return a glob for the demangled names, with the brackets of an operator escaped."""
    head, operator, behind = text.partition(_OPERATOR)
    return head + operator + behind.replace("[]", "\\[\\]") if operator else text


def _without_arguments(text: str) -> str:
    """Return a pattern without the text between < and >, unless < or > is an operator."""
    front, operator, behind = text.rpartition(f"::{_OPERATOR}")
    if not operator or behind[:1].isalnum() or behind[:1] == "_":
        front, operator, behind = text, "", ""
    depth = 0
    kept = ""
    for letter in front:
        if letter == ">" and depth:
            depth -= 1
        elif letter == "<":
            depth += 1
        elif not depth:
            kept += letter
    return text if depth else kept + operator + behind


def _code(last: str) -> str:
    """Return the expression for an operator's code, "" if the function is no operator."""
    front, _, said = last.replace("\\", "").partition(_OPERATOR)
    return "" if front or said[:1].isalnum() else _CODES.get(said.strip(), "")


def _is_glob(text: str) -> bool:
    return any(letter in _SPECIAL for letter in text)


def _name(part: str) -> str:
    """Return the expression for one part of a name, with its length in front."""
    if part == "(anonymous namespace)":
        return "12_GLOBAL__N_1"
    if part == "*":
        return ".*"  # `.*` also matches several scopes
    if not _is_glob(part):
        return f"{len(part.encode())}{_literal(part)}"
    said = _LENGTH
    at = 0
    while at < len(part):
        letter = part[at]
        # A ] that is the first character of a set does not end it.
        end = part.find("]", at + 2 + (part[at + 1 : at + 2] == "!")) if letter == "[" else -1
        if letter == "*":
            said += ".*"
        elif letter == "?":
            said += "."
        elif end > 0:
            chosen = part[at + 1 : end]
            said += f"[^{chosen[1:]}]" if chosen.startswith("!") else f"[{chosen}]"
            at = end
        else:
            if letter == "\\":
                at += 1
            said += _literal(part[at : at + 1])
        at += 1
    return said


def _literal(text: str) -> str:
    return "".join("\\" + letter if letter in ".*[]\\^$" else letter for letter in text)
