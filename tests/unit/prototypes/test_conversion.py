# SPDX-License-Identifier: Apache-2.0
"""Formats say what they take, in order, up to what is not understood."""

from __future__ import annotations

import pytest

from soscope.prototypes.conversion import arguments_of


def types(text: bytes, language: str = "printf") -> list[str]:
    return [of for of, _, _ in arguments_of(text, language)[0]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"", []),
        (b"100%% sure", []),
        (b"%d%i", ["int", "int"]),
        (b"%hhd %hd %ld %lld %jd %zd %td", ["char", "short"] + 5 * ["long"]),
        (b"%u %lu %zx", ["unsigned int", "unsigned long", "unsigned long"]),
        (b"%-+ #010.3f", ["double"]),
        (b"%Lg", ["long double"]),
        (b"%*d", ["int", "int"]),
        (b"%.*s", ["int", "const char *"]),
        (b"%*.*f", ["int", "int", "double"]),
        (b"%ls%S", ["const wchar_t *", "const wchar_t *"]),
        (b"%c%lc", ["int", "wint_t"]),
        (b"%p%n%m", ["void *", "void *"]),
    ],
)
def test_printf(text: bytes, wanted: list[str]) -> None:
    assert types(text) == wanted
    assert arguments_of(text, "printf")[1]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"%d %*d %s", 2),
        (b"%10[^]x] %[a-z]%n", 3),
        (b"%ms%4c", 2),
        (b"%%%lf", 1),
    ],
)
def test_scanf_takes_pointers(text: bytes, count: int) -> None:
    assert types(text, "scanf") == ["void *"] * count


@pytest.mark.parametrize("text", [b"%d %1$d", b"%d %", b"%d %y", b"%d %w8d", b"%d %*"])
def test_what_is_not_understood_ends_the_list(text: bytes) -> None:
    taken, complete = arguments_of(text, "printf")
    assert [of for of, _, _ in taken] == ["int"]
    assert not complete
