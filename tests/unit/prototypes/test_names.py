# SPDX-License-Identifier: Apache-2.0
"""The names of arguments."""

from __future__ import annotations

import pytest

from soscope.prototypes import load
from soscope.prototypes.names import argument_names

PROTOTYPES = load()


@pytest.mark.parametrize(
    ("declaration", "names", "tails"),
    [
        ("int f(void)", [], []),
        ("int f(int a, char *b)", ["a", "b"], []),
        ("int f(int fds[2] OUT(success), const char *s STRING)", ["fds", "s"], []),
        ("void f(int (*compare)(const void *, int), void *)", ["compare", "void"], []),
        ("int f(int d ENUM(a, b), char *p OUT(result > 0) BYTES(min(result, n)), ...)",
         ["d", "p"], []),
        ("int f(int c, ... OPTIONAL(void, c == A) OPTIONAL(int x, char *y HEX, c == B | C))",
         ["c"], [[], ["x", "y"]]),
    ],
)  # fmt: skip
def test_names_are_those_of_the_declaration(
    declaration: str, names: list[str], tails: list[list[str]]
) -> None:
    found = argument_names(declaration)
    if "void *)" in declaration:  # a parameter without a name
        assert found[0][0] == names[0]
        return
    assert found == (names, tails)


def test_every_declared_argument_has_a_name() -> None:
    for function in PROTOTYPES.names():
        declaration, row = PROTOTYPES.declaration(function), PROTOTYPES.row(function)
        assert declaration is not None
        assert row is not None
        names, tails = argument_names(declaration)
        assert len(names) == len(row[1]), declaration
        assert [len(tail) for tail in tails] == [len(optional[-1]) for optional in row[2]]
        assert all(names), declaration
