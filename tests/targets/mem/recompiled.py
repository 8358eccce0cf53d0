# SPDX-License-Identifier: Apache-2.0
"""Compile and drop code of ever other files and lines; say what stays of what it made."""

from __future__ import annotations

import random
from collections import Counter

SOURCES = ["made = Kind()", "made = []", "made = {1: 2}", "made = bytearray(9)"]
chance = random.Random(2)  # noqa: S311  the same in every run
kept: list[object] = []
account: Counter[tuple[str, int, str]] = Counter()
addresses: Counter[int] = Counter()
for _ in range(2000):
    file = f"file{chance.randrange(40)}.py"
    line = chance.randrange(1, 6)
    code = compile("\n" * (line - 1) + chance.choice(SOURCES), file, "exec")
    addresses[id(code)] += 1
    names = {"Kind": type(f"Kind{chance.randrange(6)}", (), {"__slots__": ()})}
    exec(code, names)  # noqa: S102  code of ever other files is what this is about
    if chance.random() < 0.3:
        kept.append(names["made"])
        account[file, line, type(names["made"]).__name__] += 1
    del code, names
print(max(addresses.values()))
for (file, line, kind), count in account.items():
    print(count, file, line, kind)
