# SPDX-License-Identifier: Apache-2.0
"""Constant expressions have the values that C gives them."""

from __future__ import annotations

import subprocess

import pytest

from soscope.prototypes.cparser import NotConstantError, value_of
from tests.support.targets.build import made
from tests.support.time.patience import limit

EXPRESSIONS = [
    "0x1F",
    "017",
    "0b101",
    "10UL",
    "'a'",
    r"'\n'",
    "1 << 3 | 1",
    "1 + 2 * 3 - -4",
    "(1 + 2) * 3",
    "-7 / 2",
    "-7 % 3",
    "7 & ~1",
    "5 ^ 1",
    "!0 + !5",
    "3 > 2 == 1",
    "2 <= 1 || 4 >= 4 && 0 != 1",
    "1 ? 2 : 0 ? 3 : 4",
    "NAME * 2",
]


def names(name: str) -> int | None:
    return {"NAME": 21}.get(name)


def test_the_compiler_says_the_same() -> None:
    lines = "\n".join(f'printf("%d\\n", (int)({each}));' for each in EXPRESSIONS)
    source = f"#include <stdio.h>\n#define NAME 21\nint main(void) {{ {lines} }}\n"
    values = made({"values.c": source}, "gcc -w values.c -o values") / "values"
    said = subprocess.run([values], capture_output=True, text=True, check=True, timeout=limit())
    assert [value_of(each, names) for each in EXPRESSIONS] == list(map(int, said.stdout.split()))


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 +", "(1", "1)", "1 / 0", "1 << 999", "1.5", "f(1)", "09", "(" * 100 + "1", '"s"'],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(NotConstantError):
        value_of(text, names)
