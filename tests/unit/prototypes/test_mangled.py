# SPDX-License-Identifier: Apache-2.0
"""Mangled names say of functions what the machine's own demangler says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.live.names.demangle import Demangler
from soscope.prototypes import cxx as m
from soscope.prototypes.cxx import Scopes, declare
from tests.support.machines.tools import need

STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
WORDS = {"a": "signed char", "b": "bool", "c": "char", "d": "double", "e": "long double"}
WORDS |= {"f": "float", "h": "unsigned char", "i": "int", "j": "unsigned int", "l": "long"}
WORDS |= {"m": "unsigned long", "s": "short", "t": "unsigned short", "w": "wchar_t"}
WORDS |= {"x": "long long", "y": "unsigned long long", "z": "...", "v": "void"}


def text_of(of: m.CxxType) -> str | None:
    """Return what a demangler writes for a type, None for those that are written at length."""
    if of.kind == m.BUILTIN and of.code in WORDS:
        return WORDS[of.code] + (" const" if of.is_const else "")
    if of.kind in (m.POINTER, m.REFERENCE) and of.target is not None:
        target = text_of(of.target)
        return None if target is None else target + ("*" if of.kind == m.POINTER else "&")
    return None


def parameters_in(demangled: str) -> list[str]:
    """Return the parameters of a demangled function."""
    demangled = re.sub(r"\)( ?(const|volatile|&|&&))*$", ")", demangled)
    depth, parts, part = 0, [], ""
    for letter in reversed(demangled[:-1].replace("operator()", "call")):
        depth += (letter in ")>") - (letter in "(<")
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part = letter + part
    return [one.strip() for one in reversed([*parts, part]) if one.strip()]


def test_every_name_of_the_library_of_cxx() -> None:
    need("g++")  # its library comes with it
    demangle = Demangler()
    path = next(Path("/usr/lib").glob("*/libstdc++.so.6"))
    names = sorted(set(re.findall(rb"_ZN?K?S[\w.]+(?=\0)", path.read_bytes())))
    read = 0
    for name in names:
        said = demangle(name)
        if said is None or not said.endswith((")", ") const")):
            continue
        try:
            function = m.read(name.decode())
        except m.Unread:
            continue
        read += 1
        wanted = parameters_in(said)
        assert len(function.parameters) == len(wanted), (name, said)
        for mine, theirs in zip(function.parameters, wanted, strict=True):
            text = text_of(mine)
            assert text is None or text == theirs.replace("&&", "&"), (name, said)
    assert read > 3000


@pytest.mark.parametrize(
    "damaged",
    ["_Z", "_ZN", "_ZNSt", "_Z3fo", "_Z99999999999foo", "_ZN1aE", "_Z1fIS_", "_Z1fS9_", "_Z1aIT_"],
)
def test_what_is_no_name_says_nothing(damaged: str) -> None:
    with pytest.raises(m.Unread):
        m.read(damaged)


def test_every_beginning_of_a_name_says_something_or_nothing() -> None:
    whole = f"_ZN4shop6basketC2ERK{STRING}"
    name = f"{whole}dJiPKcEDpRT_"
    said = [end for end in range(len(name)) if declare(name[:end], Scopes([])) is not None]
    assert said == [len(whole), len(whole) + 1]


KNOWN = Scopes([b"\0_ZN4shop6basketC1Ev\0_ZTI3one\0_ZNK5space3two3getEv\0_ZTTN4shop6hamperE\0"])


@pytest.mark.parametrize(
    ("symbol", "declaration"),
    [
        (
            "_Z5plaincjfxb",
            "long {}(char _1, unsigned int _2, float _3, long _4, bool _5) GUESSED(result);",
        ),
        ("_Z5twiceIiET_S0_PKc", "int {}(int _1, const char *_2);"),
        ("_Z5firstIiEPcT_", "char *{}(int _1) POINTER;"),  # it may lead to any bytes
        ("_Z4nameIiEPKcT_", "const char *{}(int _1);"),
        ("_ZN4shop6basketC1EPKci", "void {}(void *this, const char *_1, int _2);"),
        ("_ZN4shop6basketD1Ev", "void {}(void *this);"),
        (
            "_ZNK4shop6basket5countEim",
            "long {}(const void *this, int _1, unsigned long _2) GUESSED(result);",
        ),
        # a member or a static one
        ("_ZN4shop6basket4madeEi", "long {}(void *this, int _1) GUESSED(all);"),
        # nobody says that it is a class
        ("_ZN4shop3barEi", "long {}(int _1) GUESSED(all);"),
        ("_ZN5space3getEi", "long {}(int _1) GUESSED(all);"),
        ("_ZN5space3two3putEi", "long {}(void *this, int _1) GUESSED(all);"),
        ("_ZN3one3putEi", "long {}(void *this, int _1) GUESSED(all);"),
        # a class by value is in registers, in memory or has a pointer; a name may be an enum
        ("_Z1fi3onei", "long {}(int _1, ...) GUESSED(result);"),
        ("_Z1fi6colouri", "long {}(int _1, int _2, int _3) GUESSED(all);"),
        ("_Z6variedPKcz", "long {}(const char *_1, ...) GUESSED(result);"),
        (
            f"_Z1fRK{STRING}",
            "long {}(struct cxx_std____cxx11__basic_string *_1 CXX_STRING) GUESSED(result);",
        ),
        (f"_Z1fR{STRING}", "long {}(struct cxx_std____cxx11__basic_string *_1) GUESSED(result);"),
        (
            "_Z1fRKcRKiPFivE",
            "long {}(const char *_1 POINTER, const int *_2 IN, void *_3) GUESSED(result);",
        ),
        # of each of a pack
        ("_Z1fIJiPKcEEvDpRKT_", "void {}(const int *_1 IN, void *_2);"),
        ("_ZN4shop6hamperC2Ei", None),  # bases are passed a table, too
        ("_ZTV3one", None),
        ("_ZN4shop8variableE", None),
    ],
)
def test_a_declaration(symbol: str, declaration: str | None) -> None:
    wanted = None if declaration is None else declaration.format(symbol)
    assert declare(symbol, KNOWN) == wanted
