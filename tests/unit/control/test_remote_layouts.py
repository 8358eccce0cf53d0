# SPDX-License-Identifier: Apache-2.0
"""What pointers lead to on other machines: bytes as they lie there, and as x86-64 has them."""

from __future__ import annotations

import struct

from soscope.binfmt.elf.reader import Encoding
from soscope.control.breakpoints.layouts import Planner, Repacking, kinds_of
from soscope.control.breakpoints.values import PassedArguments, Pointees
from soscope.entry.remote.conventions import layouts_of
from soscope.prototypes import catalog

_INT: catalog.Show = (catalog.SHOW_DECIMAL, 4, True, "")
_LONG: catalog.Show = (catalog.SHOW_DECIMAL, 8, True, "")
_POINTER: catalog.Show = (catalog.SHOW_POINTER, 8, False, "")
STRUCTS: catalog.Structs = {
    "timespec": (("tv_sec", 0, _LONG, ()), ("tv_nsec", 8, _LONG, ())),
    "own": (("p", 0, _POINTER, ()), ("n", 8, _INT, ())),
    "long": (("p", 0, _POINTER, ()), ("n", 8, _LONG, ())),
    "either": (("n", 0, _INT, ()), ("p", 0, _POINTER, ())),
    "number": (("f", 0, (catalog.SHOW_FLOAT, 4, True, ""), ()), ("n", 0, _INT, ())),
    "wide": (("d", 0, (catalog.SHOW_FLOAT, 8, True, ""), ()), ("n", 0, _INT, ())),
    "apart": (("d", 0, (catalog.SHOW_FLOAT, 8, True, ""), ()), ("p", 0, _POINTER, ())),
    "chosen": (
        ("kind", 0, _INT, ()),
        ("n", 8, _INT, ((0, 4, "==", (1,)),)),
        ("p", 8, _POINTER, ((0, 4, "==", (2,)),)),
    ),
}


def _pointer(of: str, leads: str, show: catalog.Show) -> catalog.ArgumentRow:
    return of, catalog.PLACE_INT, 0, _POINTER, leads, show, 0, None, False, "a"


def _struct(name: str, size: int = 16) -> catalog.ArgumentRow:
    show = (catalog.SHOW_STRUCT, size, False, name)
    return _pointer(f"struct {name} *", catalog.POINTS_TO_STRUCT, show)


def _plan(of: catalog.ArgumentRow, bits: int, order: str, machine: str = "") -> Repacking | None:
    planner = Planner(
        Encoding(bits, order), layouts_of(machine), frozenset(("timespec",)), most_aligned=8
    )
    return planner.plan(of, STRUCTS)


def test_words_become_as_wide_as_those_of_x86_64() -> None:
    long = _pointer("long *", catalog.POINTS_TO_VALUES, _LONG)
    wide = _pointer("long long *", catalog.POINTS_TO_VALUES, _LONG)
    plan = _plan(long, 32, ">")
    assert plan is not None
    assert (plan.reads(16), plan.repacked(struct.pack(">ll", -2, 3))) == (
        8,
        struct.pack("<qq", -2, 3),
    )
    plan = _plan(wide, 32, ">")
    assert plan is not None
    assert (plan.reads(8), plan.repacked(struct.pack(">q", -2))) == (8, struct.pack("<q", -2))


def test_structures_lie_as_the_table_says() -> None:
    plan = _plan(_struct("timespec"), 32, ">", "ppc")
    assert plan is not None
    assert (plan.reads(16), plan.repacked(struct.pack(">ll", 5, -6))) == (
        8,
        struct.pack("<qq", 5, -6),
    )
    plan = _plan(_struct("timespec"), 64, ">", "s390x")
    assert plan is not None
    assert plan.repacked(struct.pack(">qq", 5, -6)) == struct.pack("<qq", 5, -6)
    assert plan.repacked(bytes(15)) == b""  # the memory ends in it


def test_what_nobody_knows_stays_an_address() -> None:
    assert _plan(_struct("long"), 32, "<", "arm") is None
    assert _plan(_struct("own"), 64, ">", "s390x") is not None
    assert _plan(_struct("either", 8), 64, ">", "s390x") is None  # both share a word
    assert _plan(_struct("either", 8), 64, "<", "aarch64") is not None
    assert _plan(_struct("none"), 64, "<", "aarch64") is None


def test_fields_are_taken_that_others_choose() -> None:
    plan = _plan(_struct("chosen"), 64, ">", "s390x")
    assert plan is not None
    assert plan.repacked(struct.pack(">iiii", 1, 0, 7, 9)) == struct.pack("<iiii", 1, 0, 7, 0)
    assert plan.repacked(struct.pack(">iiq", 2, 0, 7)) == struct.pack("<iiq", 2, 0, 7)


def test_an_argument_may_decide_what_another_leads_to() -> None:
    decider: catalog.ArgumentRow = (
        "int",
        catalog.PLACE_INT,
        0,
        _INT,
        "",
        None,
        0,
        None,
        False,
        "how",
    )
    fixed = (decider, _struct("long"))
    function: catalog.FunctionRow = (
        *("f", fixed, (), "", None, 0, ""),
        *(((1, ((0, "==", (-3,)),), _struct("timespec")),), "", ""),
    )
    planner = Planner(
        Encoding(32, "<"), layouts_of("arm"), frozenset(("timespec",)), most_aligned=8
    )
    pointees = Pointees(function, planner, STRUCTS)
    taken = PassedArguments()
    taken.words = [0xFFFF_FFFD, 0]
    assert pointees.plan(1, taken) is not None
    taken.words = [1, 0]
    assert pointees.plan(1, taken) is None


def test_fields_in_a_row_are_aligned_as_there() -> None:
    plan = _plan(_struct("own"), 32, ">", "ppc")
    assert plan is not None
    assert (plan.reads(16), plan.repacked(struct.pack(">Ii", 5, -6))) == (
        8,
        struct.pack("<Qi4x", 5, -6),
    )


def test_fields_in_one_place_are_all_as_x86_64_has_them_or_none_is() -> None:
    for order in "<>":
        plan = _plan(_struct("number", 4), 32, order)
        assert plan is not None
        assert plan.repacked(struct.pack(f"{order}f", 2.5)) == struct.pack("<f", 2.5)
        plan = _plan(_struct("either", 8), 32, order)
        assert plan is not None
        assert (plan.reads(8), plan.repacked(struct.pack(f"{order}I", 5))) == (
            4,
            struct.pack("<Q", 5),
        )
    plan = _plan(_struct("wide", 8), 32, "<")
    assert plan is not None
    assert plan.repacked(struct.pack("<d", 2.5)) == struct.pack("<d", 2.5)
    # the int is the upper half of the double there, and the lower one here
    assert _plan(_struct("wide", 8), 32, ">") is _plan(_struct("either", 8), 64, ">") is None
    # a pointer as wide as here lies over all of the double
    assert _plan(_struct("apart", 8), 32, "<") is None
    assert _plan(_struct("apart", 8), 64, "<") is not None


def test_what_is_passed_in_a_way_that_is_not_known_has_no_kind() -> None:
    union: catalog.ArgumentRow = (
        *("union u", catalog.PLACE_INT, 0, (catalog.SHOW_STRUCT, 8, False, "either")),
        *("", None, 0, None, False, "u"),
    )
    assert kinds_of((union,), lambda _: None) is None
