# SPDX-License-Identifier: Apache-2.0
"""Vectors: how C declares them, and in which registers they are passed (psABI, 3.2.3)."""

from __future__ import annotations

import pytest

from soscope.errors import FormatError
from soscope.prototypes import catalog
from soscope.wire import layout
from tests.unit.prototypes.calls import describe, programs

INT, FLOAT, STACK, VECTOR = (
    catalog.PLACE_INT,
    catalog.PLACE_FLOAT,
    catalog.PLACE_STACK,
    catalog.PLACE_VECTOR,
)
FOUR = "typedef float four __attribute__((vector_size(16)));"


def places(text: str) -> list[tuple[int, int]]:
    return [(argument.place, argument.index) for argument in describe(text).arguments]


@pytest.mark.parametrize(
    "declared",
    [
        "typedef float v __attribute__((vector_size(16))); int f(v a);",
        "typedef float __attribute__((__vector_size__(4 * sizeof(float)))) v; int f(v a);",
        "typedef long w; typedef float v __attribute__((vector_size(2 * sizeof(w)))); int f(v a);",
        "int f(float __attribute__((aligned(16), vector_size(16))) a);",
        "int f(__m128 a);",
    ],
)
def test_each_way_to_declare_one(declared: str) -> None:
    (argument,) = describe(declared).arguments
    assert (argument.place, argument.type.size, argument.type.count) == (VECTOR, 16, 4)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("__m128 a, int n, double d, __m256i b", [(VECTOR, 0), (INT, 0), (FLOAT, 1), (VECTOR, 2)]),
        ("short __attribute__((vector_size(8))) a, __m512d b", [(FLOAT, 0), (VECTOR, 1)]),
        ("struct lone a", [(VECTOR, 0)]),
        ("struct two a, struct wide b", [(STACK, 0), (VECTOR, 0)]),
        (", ".join(["__m128"] * 8 + ["long double", "int"] + ["__m256"] * 2), None),
    ],
)
def test_where_they_are_passed(parameters: str, expected: list[tuple[int, int]] | None) -> None:
    before = "struct lone { __m128d v; }; struct two { __m128 a, b; }; struct wide { __m256 a; };"
    expected = expected or [
        *((VECTOR, number) for number in range(8)),
        (STACK, 0),
        (INT, 0),
        (STACK, 4),  # at a multiple of its size
        (STACK, 8),
    ]
    assert places(f"{before} int f({parameters});") == expected


def test_as_much_of_each_register_is_kept_as_the_widest_takes() -> None:
    found = programs("__m128i f(__m256 a, double b, __m128 c);")
    assert found.flags == layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM | layout.FN_WIDE
    vector = layout.OP_VECTOR
    assert found.at_entry[-1] == (vector, 3, 0, 0, 32, 0, layout.ITEM_VECTORS)
    assert found.at_exit == [(vector, 1, 0, 0, 16, 0, layout.ARG_RESULT)]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("typedef float v __attribute__((vector_size(12))); int f(v a);", "a vector of 12 bytes"),
        (
            "typedef float v __attribute__((vector_size(N))); int f(v a);",
            "'N' is no known constant",
        ),
        ("typedef void *v __attribute__((vector_size(16))); int f(v a);", "of 'void \\*'"),
        ("typedef char v __attribute__((vector_size(128))); int f(v a);", "128 bytes by value"),
        ("typedef char v __attribute__((vector_size(sizeof(x)))); int f(v a);", "type 'x' is not"),
    ],
)
def test_what_no_register_has_is_an_error(declared: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        describe(declared)
