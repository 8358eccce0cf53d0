# SPDX-License-Identifier: Apache-2.0
"""Formats say what they take, in order, up to what is not understood."""

from __future__ import annotations

import pytest

from soscope.prototypes.formats import printf_arguments_of


def types(text: bytes, language: str = "printf") -> list[str]:
    return [of for of, *_ in printf_arguments_of(text, language)[0]]


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
    assert printf_arguments_of(text, "printf")[1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"%d %*d %s", ["int *", "char *"]),
        (b"%10[^]x] %[a-z]%n", ["char *", "char *", "int *"]),
        (b"%ms%4c", ["char **", "char *"]),
        (b"%%%lf", ["double *"]),
        (
            b"%hhd%hd%ld%lld%qd%jd%zu%td",
            ["char *", "short *"] + 4 * ["long *"] + ["unsigned long *", "long *"],
        ),
        (b"%i%u%x%o%p", ["int *"] + 3 * ["unsigned int *"] + ["void **"]),
        (b"%f%la%Lg%Ld", ["float *", "double *", "long double *", "long *"]),
        (b"%ls%S%C%mS%ml[a]", 3 * ["wchar_t *"] + 2 * ["wchar_t **"]),
        (b"%3$d%1$5s", ["char *", "void *", "int *"]),
        (b"%'d%I5d%5m[x]", ["int *", "int *", "char **"]),
    ],
)
def test_scanf_takes_pointers(text: bytes, wanted: list[str]) -> None:
    assert types(text, "scanf") == wanted
    assert printf_arguments_of(text, "scanf")[1]


@pytest.mark.parametrize(
    "text",
    [
        b"%d %1$d",
        b"%d %",
        b"%d %y",
        b"%d %jf",
        b"%d %*",
        b"%d %[",
        b"%d %as",
        b"%d %md",
        b"%d %llf",
    ],
)
def test_what_scanf_is_not_understood_to_take_ends_the_list(text: bytes) -> None:
    assert types(text, "scanf") == ["int *"]
    assert not printf_arguments_of(text, "scanf")[1]


@pytest.mark.parametrize("text", [b"%d %1$d", b"%d %", b"%d %y", b"%d %w8d", b"%d %*"])
def test_what_is_not_understood_ends_the_list(text: bytes) -> None:
    taken, complete = printf_arguments_of(text, "printf")
    assert [of for of, *_ in taken] == ["int"]
    assert not complete
