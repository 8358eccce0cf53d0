# SPDX-License-Identifier: Apache-2.0
"""A target's own account of its calls: what tests/targets/truth.h writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

# Who made a call, as truth.h has it. Without -f, soscope sees `main` alone, and of
# `vfork`, who is on main's memory, what it pleases.
ROLES = ("main", "child", "vfork", "exec")


class Fact(NamedTuple):
    """Between `low` and `high` calls of `name` were made in process `pid`."""

    name: str
    low: int
    high: int
    pid: int
    role: str


class Truth:
    """All facts of one run of a target, its children included."""

    def __init__(self, facts: list[Fact]) -> None:
        self.facts = facts

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read what a target wrote; a file that is not there says nothing."""
        return cls.parse(path.read_text() if path.exists() else "")

    @classmethod
    def parse(cls, text: str) -> Truth:
        """Parse lines of truth.h; a line of another kind is a ValueError."""
        facts = []
        for line in text.splitlines():
            kind, name, *rest = line.split(" ")
            if kind == "calls":
                low, pid, role = rest
                high = low
            elif kind == "range":
                low, high, pid, role = rest
            else:
                raise ValueError(f"not a line of truth.h: {line!r}")
            if role not in ROLES:
                raise ValueError(f"unknown role in {line!r}")
            facts.append(Fact(name, int(low), int(high), int(pid), role))
        return cls(facts)

    @property
    def names(self) -> list[str]:
        """The functions it speaks of, without versions, in order of their mention."""
        return list(dict.fromkeys(fact.name.partition("@")[0] for fact in self.facts))

    def bounds(self, *, followed: bool) -> dict[str, tuple[int, int]]:
        """Return the fewest and the most calls of each function that must be counted."""
        low: Counter[str] = Counter()
        high: Counter[str] = Counter()
        for name, least, most, _, role in self.facts:
            low[name] += least if followed or role == "main" else 0
            high[name] += most if followed or role in {"main", "vfork"} else 0
        return {name: (low[name], high[name]) for name in low}

    def by_process(self, *, followed: bool) -> dict[tuple[int, str], tuple[int, int]]:
        """Return the bounds per process and function, of processes with their own memory."""
        result: dict[tuple[int, str], tuple[int, int]] = {}
        shared = {fact.pid for fact in self.facts if fact.role == "vfork"}
        for name, least, most, pid, role in self.facts:
            if pid not in shared and (followed or role == "main"):
                low, high = result.get((pid, name), (0, 0))
                result[pid, name] = (low + least, high + most)
        return result


def wrong(counted: dict[str, int], bounds: dict[str, tuple[int, int]]) -> list[str]:
    """Return one line for each function whose count is not what the target says."""
    lines = []
    for name, (low, high) in bounds.items():
        seen = counted.get(name, 0)
        if not low <= seen <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            lines.append(f"{name}: counted {seen}, the program made {wanted}")
    return lines
