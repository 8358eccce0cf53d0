# SPDX-License-Identifier: Apache-2.0
"""The model's records: what they hold, and the rule of what is a failure."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import soscope
from soscope.model import image as slot
from soscope.model.call import COLUMN, NOTHING, PAGE, Captured, Dropped, Signal, time_text
from soscope.model.image import IMAGE_MAIN, TracedImage, TracedSlot, is_error
from soscope.model.record import PlainRecord, Record


def image(flags: int = 0) -> TracedImage:
    return TracedImage(1, 0, "libz.so.1", "/lib/libz.so.1", 16, 16, 32, b"\1", flags, 2, 3, 4, 5)


def test_a_record_shows_and_lists_its_fields() -> None:
    dropped = Dropped(3, "the ring was full")
    assert repr(dropped) == "Dropped(count=3, why='the ring was full')"
    assert dropped.values() == (3, "the ring was full")


def test_a_record_takes_no_other_fields() -> None:
    with pytest.raises(AttributeError):
        Signal(1, 2, 3, 4).name = "x"  # type: ignore[attr-defined]  # as mypy says


def test_no_record_has_a_dictionary() -> None:
    for module in pkgutil.walk_packages(soscope.__path__, "soscope."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kinds: list[type[PlainRecord]] = [*PlainRecord.__subclasses__(), *Record.__subclasses__()]
    assert len(kinds) > 50
    assert not [kind for kind in kinds if hasattr(kind.__new__(kind), "__dict__")]


def test_an_image_shows_what_tells_it_apart() -> None:
    assert repr(image()) == "<libz.so.1 at 0x10 of process 5: 2 slots hooked>"


def test_the_program_is_the_main_image() -> None:
    assert image(IMAGE_MAIN).is_main
    assert not image().is_main


def test_an_image_of_another_namespace_is_told_apart() -> None:
    other = TracedImage(1, 0, "libz.so.1", "/lib/libz.so.1", 16, 16, 32, b"\1", 0, 2, 3, 4, 5, 2)
    assert other.label == "libz.so.1[2]"
    assert image().label == "libz.so.1"


def test_a_slot_without_refusal_is_hooked() -> None:
    def make(refusal: int) -> TracedSlot:
        return TracedSlot(0, 0, "f", "", None, None, 8, 1, refusal, False, False, None, 0)

    assert make(slot.HOOKED).is_hooked
    assert not make(slot.REFUSED_FULL).is_hooked


def test_captured_data_is_never_none() -> None:
    assert Captured((1,)).data == {}
    assert NOTHING.words == ()


@pytest.mark.parametrize(
    ("rule", "failures", "successes"),
    [
        (slot.ERROR_NONE, [], [0, 1, 2**64 - 1]),
        (slot.ERROR_INT_NEGATIVE, [0xFFFF_FFFF, 2**64 - 1], [0, 1, 0x1_0000_0000]),
        (slot.ERROR_LONG_NEGATIVE, [2**64 - 1, 2**63], [0, 0xFFFF_FFFF]),
        (slot.ERROR_NULL, [0], [1, 0x1_0000_0000]),
        (slot.ERROR_MINUS_ONE, [2**64 - 1], [0, 2**64 - 2, 0xFFFF_FFFF]),
        (slot.ERROR_INT_NONZERO, [1, 0xFFFF_FFFF], [0, 0x1_0000_0000]),
        (slot.ERROR_INT_ZERO, [0, 0x1_0000_0000], [1, 0xFFFF_FFFF]),
        (slot.ERROR_INT_MINUS_ONE, [0xFFFF_FFFF, 2**64 - 1], [0, 0xFFFF_FFFE]),
        (99, [], [0, 1]),
    ],
)
def test_a_result_fails_by_its_rule(rule: int, failures: list[int], successes: list[int]) -> None:
    assert [is_error(rule, result) for result in failures] == [True] * len(failures)
    assert [is_error(rule, result) for result in successes] == [False] * len(successes)


@pytest.mark.parametrize(
    ("ns", "sentence", "page", "column"),
    [
        (0, "0 ns", "0 ns", "  0.000 us"),
        (999, "999 ns", "999 ns", "  0.999 us"),
        (12_345, "12.3 us", "12.345 µs", " 12.345 us"),
        (999_499, "999 us", "999.499 µs", "999.499 us"),
        (999_500, "1 ms", "999.500 µs", "999.500 us"),
        (1_500_000, "1.5 ms", "1.500 ms", "  1.500 ms"),
        (61 * 10**9, "61 s", "61.000 s", " 61.000 s "),
    ],
)
def test_a_time_has_a_suitable_unit(ns: int, sentence: str, page: str, column: str) -> None:
    assert (time_text(ns), time_text(ns, PAGE), time_text(ns, COLUMN)) == (sentence, page, column)
