# SPDX-License-Identifier: Apache-2.0
"""Blocks of samples become rows of a profile."""

from __future__ import annotations

from typing import Any

import pytest

from soscope.errors import FormatError
from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.samples import add_samples

FIRST = {
    "period": 10_000_000,
    "threads": [[0, 70, 71, "main"]],
    "images": [[0, "linux-vdso.so.1", "", ""]],
    "frames": [[0, 16, "__vdso_time"], [-1, 4096], ["inner", "a.py", 3, False]],
    "stacks": [[True, 0, 1], [False, 0], [True, 1, 2, 3]],
    "counts": [[0, 0, 4], [0, 1, 1]],
    "missed": {"for a while": 9_000_000, "why not": 8_000_000},
}
SECOND = {
    "period": 10_000_000,
    "threads": [[1, 70, 72, "worker"]],
    "frames": [["outer", "a.py", 9, True], [0, 20, "__vdso_time"]],
    "stacks": [[False, 4]],
    "counts": [[0, 0, 2], [1, 2, 1], [0, 3, 5]],
    "missed": {"why not": 22_000_000},
}


def test_blocks_go_on_where_the_one_before_ended() -> None:
    profile = Profile(["x"])
    add_samples([FIRST, SECOND], profile)
    assert profile.sample_ns == 10_000_000
    assert [(thread.name, thread.pid, thread.tid) for thread in profile.threads] == [
        ("main", 70, 71),
        ("worker", 70, 72),
    ]
    rows = {
        (row.thread, tuple((frame.image, frame.symbol, frame.line) for frame in row.frames)): (
            row.weight
        )
        for row in profile.samples
    }
    vdso, nobody = ("linux-vdso.so.1", "__vdso_time", None), (None, None, None)
    assert rows == {
        (0, (vdso, nobody)): 6,
        (0, (vdso,)): 6,  # two addresses of one function, which nobody tells apart
        (1, (nobody, (None, "inner", 3), (None, "outer", 9))): 1,
    }
    assert list(profile.missed_ns.items()) == [("why not", 30_000_000), ("for a while", 9_000_000)]
    assert profile.notes == [
        "30 ms of processor time not sampled: why not",
        "9 ms of processor time not sampled: for a while",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        {"counts": [[0, 99, 1]]},
        {"counts": [[9, 0, 1]]},
        {"counts": [[0]]},
        {"stacks": [[True, 99]]},
        {"images": [[0, "x", "/x", "no digits"]]},
        {"period": None},
    ],
)
def test_damaged_blocks_are_said_to_be_so(damage: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="its samples are damaged"):
        add_samples([FIRST | damage], Profile([]))
