# SPDX-License-Identifier: Apache-2.0
"""Members of structures and unions that others decide: what is shown of bytes."""

from __future__ import annotations

import struct

import pytest

from soscope.errors import FormatError
from soscope.prototypes import show, typereader
from soscope.prototypes.parser import Declarations
from soscope.prototypes.show import NamedTypes
from tests.unit.prototypes.calls import sets


def shown(text: str, name: str, data: bytes) -> str:
    declarations = Declarations()
    declarations.read(text, "test.h")
    known = sets()
    known.values.update(declarations.constants)
    structs = typereader.tables(declarations.structs, known)
    return show.structure(data, name, NamedTypes(known.enums, known.flags, structs))


BESIDE = """
#define NUMBER 1
struct value {
    int kind;
    union { long n WHEN(kind == NUMBER); double x WHEN(kind == 2 | 3); } u;
    int end;
};
"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (1, "{kind=1, u={n=4607182418800017408}, end=-9}"),
        (2, "{kind=2, u={x=1}, end=-9}"),
        (3, "{kind=3, u={x=1}, end=-9}"),
        (4, "{kind=4, u={...}, end=-9}"),
    ],
)
def test_a_union_is_told_by_a_member_beside_it(kind: int, expected: str) -> None:
    data = struct.pack("<i4xdi4x", kind, 1.0, -9)
    assert shown(BESIDE, "value", data) == expected


def test_a_union_without_a_name_is_part_of_its_structure() -> None:
    text = """struct e { union { int a WHEN(tag & 4); struct { short b, c; } WHEN(tag == -1); };
              signed char tag; };"""
    assert shown(text, "e", struct.pack("<hhb3x", 1, 2, 6)) == "{a=131073, tag=6}"
    assert shown(text, "e", struct.pack("<hhb3x", 1, 2, -1)) == "{a=131073, b=1, c=2, tag=-1}"
    assert shown(text, "e", struct.pack("<hhb3x", 1, 2, 3)) == "{tag=3}"


def test_the_tag_of_a_union_may_be_its_first_member() -> None:
    text = """struct key { int type; int code; }; struct move { int type; short x, y; };
              union event { int type; struct key key WHEN(type == 2 | 3);
                            struct move move WHEN(type == 6); };"""
    assert shown(text, "event", struct.pack("<ii", 3, 40)) == "{type=3, key={type=3, code=40}}"
    assert shown(text, "event", struct.pack("<ihh", 6, 1, -2)) == (
        "{type=6, move={type=6, x=1, y=-2}}"
    )
    assert shown(text, "event", struct.pack("<ii", 7, 0)) == "{type=7}"


def test_one_union_in_two_structures_has_two_tags() -> None:
    text = """union u { int a WHEN(kind == 0); float b WHEN(kind == 1); };
              struct before { int kind; union u u; };
              struct behind { struct { union u u; } inner; int other; char kind; };"""
    assert shown(text, "before", struct.pack("<if", 1, 0.5)) == "{kind=1, u={b=0.5}}"
    assert shown(text, "behind", struct.pack("<fib3x", 0.5, 0, 1)) == (
        r"{inner={u={b=0.5}}, other=0, kind='\001'}"
    )
    # alone, nobody tells them apart
    assert shown(text, "u", struct.pack("<f", 0.5)) == "{a=1056964608, b=0.5}"


def test_two_members_may_have_to_agree() -> None:
    text = "struct s { int a, b; int c WHEN(a == 1 && b == 2 | 3) HEX; };"
    assert shown(text, "s", struct.pack("<iii", 1, 3, 255)) == "{a=1, b=3, c=0xff}"
    assert shown(text, "s", struct.pack("<iii", 1, 1, 255)) == "{a=1, b=1}"


def test_a_member_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FormatError, match=r"test.h:1: 'kind' is no member of 'struct s'"):
        shown("struct s { int a WHEN(kind == 1); };", "s", b"")
    with pytest.raises(FormatError, match=r"constant 'NONE' is not in"):
        shown("struct s { int k; int a WHEN(k == NONE); };", "s", bytes(8))
