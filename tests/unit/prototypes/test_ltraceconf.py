# SPDX-License-Identifier: Apache-2.0
"""What ltrace.conf(5) describes becomes declarations in C."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.errors import FormatError
from soscope.prototypes import load
from soscope.prototypes.catalog import Prototypes
from soscope.prototypes.sources import LTRACE, SourceText, Translator
from tests.support.machines.tools import need
from tests.unit.prototypes.calls import at_entry, slot


def known(text: str) -> Prototypes:
    translator = Translator("x.conf")
    prototypes = load()
    refused: list[FormatError] = []
    prototypes.add(SourceText(LTRACE, "x.conf", translator.read(text)), refused)
    assert [*translator.faults, *refused] == []
    return prototypes


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("int own_kill(int,int);", "int own_kill(int arg1, int arg2)"),
        ("void own();", "void own(void)"),
        ("addr own(file, octal, ulong);", None),
        ("string own(string, format);", None),
        ("hex(uint) own(oct(int), bool(char), hide(long), bitvec(ushort));", None),
        ("int own(string[arg2], ulong);", None),
        ("int own(+string[retval], ulong);", "int own(void *arg1 OUT(always) BYTES(result), "),
        ("int own(+string2, ulong);", "int own(char *arg1 STRING OUT(always) LIMIT(arg2), "),
        ("int own(string(array(char, zero(arg2))*), int);", None),
        ("int own(int*, +double*, array(int,3), void*, char**);", None),
        ("double own(float, struct(int, float), ...);", None),
    ],
)
def test_prototypes(line: str, wanted: str | None) -> None:
    name = "own_kill" if "own_kill" in line else "own"
    declaration = known(line).declaration(name)
    assert declaration is not None
    assert declaration.startswith(wanted or "")


def test_values_are_shown_as_ltrace_means_them() -> None:
    text = """
; a comment
typedef color = enum(RED, GREEN=5, BLUE);
typedef pair = struct(int, hex(short), string(array(char, 4)));
typedef list = struct;
typedef list = struct(int, list*);
color own(color, hex(uint), octal, bool(int), char, enum[long](NO=-1));   ; the rest is one
int by_value(struct(int, float));
int of_list(list*, +pair*);
"""
    prototypes = known(text)
    shown = prototypes.format_call(slot("own"), at_entry(6, 31, 8, 1, 97, 2**64 - 1), 32)
    assert [each.text for each in shown] == ["BLUE", "0x1f", "010", "true", "'a'", "NO"]
    shown = prototypes.format_call(slot("by_value"), at_entry(7 | 0x3F800000 << 32), 32)
    assert [each.text for each in shown] == ["{f1=7, f2=1}"]
    assert prototypes.source("own") == (LTRACE, "x.conf", "x.conf:7")
    assert prototypes.known_at_entry(slot("of_list")) == 1


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("int own(nothing);", "x.conf:2: type 'nothing' is not known"),
        ("int own(int", "x.conf:2: not understood"),
        ("int (int);", "x.conf:2: name expected before '('"),
        ("int own(enum(A=B));", "x.conf:2: 'B' is no known constant"),
        ("typedef a b;", "x.conf:2: '=' expected before 'b'"),
        ("int own(struct(array(int, arg1)));", "x.conf:2: an array without a number"),
        (
            "int own(" + "struct(" * 40 + "int" + ")" * 40 + ");",
            "x.conf:2: a type that is too deep",
        ),
        ("int own(@);", "x.conf:2: not understood"),
    ],
)
def test_a_fault_names_its_line_and_is_left_out(line: str, what: str) -> None:
    translator = Translator("x.conf")
    text = translator.read(f"int f(int);\n{line}\nint g(int);\n")
    assert [error.message.startswith(what) for error in translator.faults] == [True]
    assert "f(int arg1)" in text
    assert "g(int arg1)" in text


def test_all_of_ltraces_own_file_is_understood() -> None:
    path = Path(need("/etc/ltrace.conf"))
    text = path.read_text()
    prototypes = known(text)
    assert prototypes.source("mvprintw") is not None
    only = Translator(str(path), {"mvprintw"})
    assert only.read(text).count("(") < 60
    assert not only.faults
