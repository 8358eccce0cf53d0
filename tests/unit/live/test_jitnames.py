# SPDX-License-Identifier: Apache-2.0
"""Perf maps and their overlaps: the later line owns what two lines share."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.live.names.jitnames import PERF_MAP, JitName, JitNames, parse_perf_map
from tests.support.time.patience import within_cpu

TEXT = b"""7f0000001000 20 first
0x7f0000002000 0x10 JS:~add /a file.js:1:2
not a line
7f0000003000
7f0000003000 zz broken
7f0000004000 0 label
7f0000001010 8 later
7f0000005000 10 half"""


def test_lines_are_read() -> None:
    rows = [(one.start, one.size, one.name) for one in parse_perf_map(TEXT)]
    assert rows == [
        (0x7F0000001000, 0x20, "first"),
        (0x7F0000002000, 0x10, "JS:~add /a file.js:1:2"),
        (0x7F0000004000, 0, "label"),
        (0x7F0000001010, 8, "later"),
        (0x7F0000005000, 0x10, "half"),
    ]


def named(names: JitNames, addr: int) -> str | None:
    """Return the name at an address."""
    found = names.at(addr)
    return None if found is None else found.name


def test_the_later_line_wins() -> None:
    names = JitNames(parse_perf_map(TEXT))
    base = 0x7F0000001000
    assert [named(names, base + more) for more in (-1, 0, 0xF, 0x10, 0x17, 0x18, 0x1F, 0x20)] == [
        *(None, "first", "first", "later", "later", "first", "first", None)
    ]
    assert [named(names, 0x7F0000004000 + more) for more in (-1, 0, 1)] == [None, "label", None]


def test_what_was_overwritten_is_not_found_by_name() -> None:
    names = JitNames(
        [
            JitName(0x1000, 0x10, "f", PERF_MAP, is_function=True),
            JitName(0x2000, 0x10, "f", PERF_MAP, is_function=True),
            JitName(0x0FF0, 0x20, "g", PERF_MAP, is_function=True),
        ]
    )
    assert [one.start for one in names.find("f")] == [0x2000]
    assert [one.start for one in names.find("g")] == [0x0FF0]
    assert names.find("h") == []


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12))
def test_every_address_has_the_last_owner(rows: list[tuple[int, int]]) -> None:
    made = [
        JitName(start, size, str(order), PERF_MAP, is_function=True)
        for order, (start, size) in enumerate(rows)
    ]
    names = JitNames(made)
    for addr in range(60):
        owners = [one.name for one in made if one.start <= addr < one.start + one.size]
        labels = [one.name for one in made if one.start == addr and not one.size]
        wanted = owners[-1] if owners else labels[-1] if labels else None
        assert named(names, addr) == wanted


def test_a_long_map_takes_little_time() -> None:
    text = b"".join(b"%x 30 name%d\n" % (0x10000 + 16 * at, at) for at in range(100_000))
    with within_cpu(4):
        names = JitNames(parse_perf_map(text))
        assert named(names, 0x10000 + 16 * 500 + 17) == "name501"


def test_a_map_is_read_up_to_a_number_of_names() -> None:
    text = b"no name\n" + b"".join(b"%x 10 name%d\n" % (16 * at, at) for at in range(9))
    assert [one.name for one in parse_perf_map(text, 3)] == ["name0", "name1", "name2"]
