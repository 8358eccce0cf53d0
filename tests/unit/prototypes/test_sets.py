# SPDX-License-Identifier: Apache-2.0
"""Sets of signals and of descriptors, and what a result says the number of."""

from __future__ import annotations

import pytest

from soscope.errors import FormatError
from soscope.model.call import DATA_BYTES, DATA_TRUNCATED, DATA_WORD_AT
from soscope.prototypes.printer import Printer
from soscope.prototypes.show import NamedTypes, descriptor_set, signal_set
from soscope.wire import layout
from tests.unit.prototypes.calls import at_entry, at_exit, describe, programs, texts

NAMES = {2: "SIGINT", 9: "SIGKILL", 15: "SIGTERM", 19: "SIGSTOP"}
ALL = (1 << 64) - 1


def signals(*numbers: int) -> int:
    return sum(1 << number - 1 for number in numbers)


def printer_of(text: str) -> Printer:
    event = (("events", 0, ("hex", 4, False, ""), ()),)
    names = NamedTypes({"signal": NAMES}, {}, {"epoll_event": event})
    return Printer(describe(text).kept(), names)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0, "[]"),
        (signals(2, 15), "[INT TERM]"),
        (signals(32, 33, 64), "[RTMIN RT_1 RT_32]"),
        (ALL, "~[]"),
        (ALL & ~signals(9, 19), "~[KILL STOP]"),
        (ALL & ~signals(32, 33), "~[RTMIN RT_1]"),
    ],
)
def test_signals(bits: int, text: str) -> None:
    assert signal_set(bits, NAMES) == text


def test_one_word_of_a_set_of_signals_is_kept() -> None:
    text = "int f(const sigset_t *set IN, sigset_t *old OUT(success)) FAILS(< 0);"
    found = programs(text)
    assert found.at_entry[-1] == (layout.OP_WORD_AT, 0, 0, 0, 0, 0, 0)
    assert found.at_exit == [(layout.OP_WORD_AT, 1, 0, 0, 0, 0, 1)]
    data = {0: (DATA_WORD_AT, 0, signals(2).to_bytes(8, "little"))}
    after = at_exit(0, data={1: signals(15).to_bytes(8, "little")})
    assert texts(printer_of(text), at_entry(8, 16, data=data), 32, after) == ["[INT]", "[TERM]"]


def test_descriptors_below_a_number() -> None:
    names = NamedTypes({}, {}, {})
    data = (1 << 3 | 1 << 5 | 1 << 70).to_bytes(128, "little")
    assert descriptor_set(data, 0, names) == descriptor_set(data, -1, names) == "[]"
    assert descriptor_set(data, 5, names) == "[3]"
    assert descriptor_set(data, 71, names) == "[3 5 70]"
    assert descriptor_set(data, 2000, names) == "[3 5 70 ...]"
    assert descriptor_set(data[:8], 71, names) == "[3 5 ...]"  # no more could be read
    names.elements = 2
    assert descriptor_set(data, 71, names) == "[3 5 ...]"


def test_descriptors_before_and_behind_a_call() -> None:
    text = "int f(int n, fd_set *set IN OUT(success) DESCRIPTORS(n)) FAILS(< 0);"
    of = printer_of(text)
    assert programs(text).at_exit == [(layout.OP_BYTES, 1, 0, 0, 128, 0, 1)]
    data = {1: (DATA_BYTES, DATA_TRUNCATED, b"\x28")}
    kept = at_entry(6, 8, data=data)
    assert texts(of, kept, 32, at_exit(1, data={1: b"\x20"})) == ["6", "[3 5] => [5]"]
    assert texts(of, kept, 32, at_exit(2, data={1: b"\x28"})) == ["6", "[3 5]"]
    assert texts(of, kept, 32, at_exit(-1, data={1: b"\x00"})) == ["6", "[3 5]"]


def test_the_result_says_how_many_have_been_written() -> None:
    of = printer_of("int f(struct epoll_event *to OUT(success) ELEMENTS(result)) FAILS(< 0);")
    events = {0: b"".join(bytes([n]) + bytes(11) for n in range(1, 9))}
    shown = ", ".join(f"{{events=0x{n}}}" for n in range(1, 9))
    assert texts(of, at_entry(8), 32, at_exit(2, data=events)) == ["[{events=0x1}, {events=0x2}]"]
    assert texts(of, at_entry(8), 32, at_exit(0, data=events)) == ["[]"]
    assert texts(of, at_entry(8), 32, at_exit(9, data=events)) == [f"[{shown}, ...]"]
    assert texts(of, at_entry(8), 32, at_exit(-1, data=events)) == ["0x8"]
    for wrong in ("int *to IN ELEMENTS(result)", "int *to IN OUT(always) ELEMENTS(result)"):
        with pytest.raises(FormatError, match="not only OUT"):
            describe(f"int f({wrong});")


def test_bytes_that_are_read_unless_they_are_copied_to_where_they_are() -> None:
    found = programs("void *f(void *to, const void *from IN BYTES(n) FOLLOW_UNLESS_SAME, long n);")
    flags = layout.OP_IS_READ | layout.OP_UNLESS_SAME
    assert found.at_entry[-1] == (layout.OP_BYTES, 1, layout.LENGTH_ARG, 2, 0, flags, 1)
    with pytest.raises(FormatError, match="no BYTES"):
        programs("void f(const char *s, const char *t FOLLOW_UNLESS_SAME);")


def test_an_array_of_structures() -> None:
    text = "int f(const struct pair pairs[2] IN);"
    assert programs(text).at_entry[-1] == (layout.OP_BYTES, 0, 0, 0, 16, 0, 0)
    names = NamedTypes({}, {}, {"pair": (("fd", 0, ("decimal", 4, True, ""), ()),)})
    of = Printer(describe(text).kept(), names)
    data = {0: (DATA_BYTES, 0, b"\7\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0")}
    assert texts(of, at_entry(8, data=data)) == ["[{fd=7}, {fd=9}]"]
