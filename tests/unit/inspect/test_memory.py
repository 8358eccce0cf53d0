# SPDX-License-Identifier: Apache-2.0
"""What is made of looks at the memory of a process: the sums, and the verdict."""

from __future__ import annotations

import os
import subprocess

import pytest

from soscope.inspect import memory as looking
from soscope.inspect import memory as model
from soscope.inspect.memory import Claim, Look, RssPart, judge, sum_up
from soscope.live.heap import glibc
from soscope.live.heap.memory import Pages, ResidentPages
from soscope.live.process import Process
from soscope.proc import memory

MIB = 1 << 20
SMAPS = b"""\
1000-5000 rw-p 00000000 00:00 0                          [heap]
Size:                 16 kB
Rss:                  12 kB
Anonymous:            12 kB
AnonHugePages:         0 kB
Private_Hugetlb:       0 kB
Swap:                  4 kB
VmFlags: rd wr mr mw me ac
7000-9000 r-xp 00000000 08:01 17                         /usr/lib/lib a: b.so
Rss:                   8 kB
Anonymous:             0 kB
a000-c000 rw-s 00000000 00:01 18                         /dev/zero (deleted)
Rss:                   4 kB
VmFlags: rd wr
"""


def seen(time: float, used: int, free: int, other: int = 0, **more: object) -> Look:
    """Make a look of a program with so many MiB."""
    look = Look(1, (used + free + other) * MIB)
    look.time = time
    look.allocator = "glibc"
    look.in_use = used * MIB
    for what, size in ((model.BLOCKS, used), (model.FREE, free), (model.OTHER, other)):
        look.parts.append(RssPart(what, None, size * MIB))
    for name, value in more.items():
        setattr(look, name, value)
    return look


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [
        ([(90, 1)], "unknown"),
        ([(60, 40)], "retention"),
        ([(10, 1), (30, 1)], "leak"),
        ([(10, 1), (12, 1), (30, 1), (28, 1)], "leak"),
        ([(10, 1), (30, 1), (10, 1), (31, 1)], "unknown"),  # it goes up and down
        ([(50, 0), (10, 40), (50, 9), (10, 69)], "retention"),
        ([(10, 1), (12, 11)], "retention"),
        ([(50, 1), (50, 1)], "unknown"),
    ],
)
def test_the_verdict(sizes: list[tuple[int, int]], verdict: str) -> None:
    said = judge([seen(at, used, free) for at, (used, free) in enumerate(sizes)])
    assert said.verdict == verdict, said.why
    assert said.next
    assert said.why.endswith(".")


def test_growth_that_is_too_little_to_judge_by_is_told() -> None:
    looks = [seen(at, 50, 1) for at in range(2)]
    assert "in use nor what is kept free has grown" in judge(looks).why
    looks[-1].in_use += 54 << 10
    said = judge(looks)
    assert said.verdict == "unknown"
    assert (
        said.why == "In 1 s what is in use has grown by 54.0 KiB, which is too little to judge by."
    )
    looks = [seen(0, 0, 0, 10), seen(60, 0, 0, 10, unread="jemalloc is not read")]
    looks[-1].parts[-1].bytes += 54 << 10
    said = judge(looks)
    assert said.verdict == "unknown"
    assert said.why.endswith(
        ", and in 60 s its memory has grown by 54.0 KiB, which is too little to judge by."
    )


def test_memory_that_is_mapped_past_an_allocator_leaks_only_if_that_is_read() -> None:
    looks = [seen(0, 1, 0, 10), seen(60, 1, 0, 20)]
    assert judge(looks).verdict == "leak"
    looks = [seen(0, 0, 0, 10), seen(60, 0, 0, 20, unread="jemalloc is not read")]
    assert judge(looks).verdict == "unknown"
    assert "jemalloc is not read" in judge(looks).why


def test_smaps_is_parsed() -> None:
    first, second, third = memory.parse_smaps(SMAPS)
    assert (first.mapping.start, first.mapping.end, first.mapping.path) == (
        0x1000,
        0x5000,
        "[heap]",
    )
    assert (first.rss, first.anonymous, first.swap, first.hugetlb) == (12288, 12288, 4096, 0)
    assert (second.mapping.path, second.rss) == ("/usr/lib/lib a: b.so", 8192)
    assert third.rss == 4096


def test_bytes_in_resident_pages_are_those_of_a_loop() -> None:
    states = bytes([2, 1, 0, 2, 2, 1])
    pages = ResidentPages(0x1000, 16, states)
    for start in range(0xFF8, 0x1070):
        for end in range(start, 0x1070, 3):
            there = [at for at in range(start, end) if 0 <= at - 0x1000 < 96]
            assert pages.count(start, end) == sum(states[at - 0x1000 >> 4] == 2 for at in there)


def test_each_byte_is_in_one_part() -> None:
    states = bytes([2, 2, 0, 2])  # the third page is not there
    claim = Claim(0x1000, 0x5000, (model.BLOCKS, None), ResidentPages(0x1000, 4096, states))
    claim.inner[model.FREE, "main arena"] = claim.resident.count(0x1800, 0x3800)
    parts = sum_up(memory.parse_smaps(SMAPS), [claim], "anonymous mappings").parts()
    assert [(part.what, part.name, part.bytes) for part in parts] == [
        (model.BLOCKS, None, 12288 - 0x1800),
        (model.FREE, "main arena", 0x1800),
        (model.FILES, "lib a: b.so", 8192),
        (model.SHARED, "zero", 4096),
    ]


def test_pages_that_were_never_touched_are_read_as_zeros_and_stay_away() -> None:
    import mmap

    import numpy as np

    area = mmap.mmap(-1, 8 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area[4096 * 3 : 4096 * 3 + 4] = b"here"
    addr = np.frombuffer(area, dtype=np.uint8).__array_interface__["data"][0]
    with Process(os.getpid(), is_gentle=True) as process:
        data = process.space.read(addr, 8 * 4096)
        pages = Pages(os.getpid(), 4096)
        present = pages.of(addr, addr + 8 * 4096).present
        pages.close()
    assert len(data) == 8 * 4096
    assert data.rstrip(b"\0")[-4:] == b"here"
    assert present == bytes([0, 0, 0, 1, 0, 0, 0, 0])


def test_a_heap_that_is_too_large_to_be_copied_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glibc, "available", lambda: 4096)
    # a process of its own: this one may be large by now
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"up")
        other.stdin.flush()
        other.stdout.read(2)
        with Process(other.pid, is_gentle=True) as process:
            look = looking.look_at(process)
        other.stdin.close()
    assert "would not fit" in look.unread
    assert look.arenas == []
    assert sum(part.bytes for part in look.parts) == look.rss
