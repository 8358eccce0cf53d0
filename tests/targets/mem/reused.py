# SPDX-License-Identifier: Apache-2.0
"""Make objects where others were: of another type, by code that has another file.

Says how many addresses of types had more than one.
"""

from __future__ import annotations

import _imp
import gc

KEPT: list[object] = []
KINDS = 200


def made(kind: type) -> object:
    """Make an object by one instruction, whatever its type is."""
    return kind()  # alive: 10 Bare, 10 Full


def listed() -> list[int]:
    """Make an object of code whose file changes."""
    return [len(KEPT)]  # alive: 3 list


seen = []
for number in range(KINDS):
    one = type("Bare", (), {"__slots__": ()}) if number % 2 else type("Full", (), {})
    seen.append(id(one))
    thing = made(one)
    if number % 20 > 17:
        KEPT.append(thing)
    del one, thing
    gc.collect()

for _ in range(3):
    KEPT.append(listed())
_imp._fix_co_filename(listed.__code__, "elsewhere")
for _ in range(4):
    KEPT.append(listed())
print(KINDS - len(set(seen)))
