# SPDX-License-Identifier: Apache-2.0
"""Names of C++ that stand for gigabytes cost soscope neither time nor memory."""

from __future__ import annotations

import os
import resource
import string
import subprocess
from collections.abc import Iterator

import pytest

from soscope.live.names.demangle import LONGEST_TEXT, Demangler, may_be_long
from tests.support.machines.tools import need
from tests.support.time.patience import limit

DIGITS = string.digits + string.ascii_uppercase
TREE = """_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_S5_E
St10_Select1stIS8_ESt4lessIS5_ESaIS8_EE22_M_emplace_hint_uniqueIJRKSt21piecewise_construct_tSt5
tupleIJOS5_EESJ_IJEEEEESt17_Rb_tree_iteratorIS8_ESt23_Rb_tree_const_iteratorIS8_EDpOT_"""
ORDINARY = [
    TREE.replace("\n", ""),
    "_Z1fIiS0_S0_S0_S0_S0_S0_S0_S0_S0_S0_S0_S0_EvT_",
    "_Z3addii",
]


def reference(number: int) -> str:
    """Return the substitution of the ABI for the part with this number."""
    return f"S{DIGITS[number - 1]}_" if number else "S_"


def bomb(steps: int) -> bytes:
    """Return the name of a function whose parameter has doubled so many times."""
    name = "_Z1f1AIiiE"
    for step in range(steps):
        name += f"S_I{reference(step + 1) * 2}E"
    return name.encode()


@pytest.fixture
def demangler() -> Iterator[Demangler]:
    made = Demangler()
    yield made
    made.close()


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_those_of_the_demangler(name: str, demangler: Demangler) -> None:
    words = [need("c++filt"), name]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=limit())
    text = done.stdout.strip()
    assert demangler(name.encode()) == (None if text == name else text)


def test_small_bombs_are_written_out(demangler: Demangler) -> None:
    lengths = [len(demangler(bomb(steps)) or "") for steps in range(1, 12)]
    assert lengths[0] > 0
    assert lengths[:7] == sorted(lengths[:7])
    assert LONGEST_TEXT // 2 < lengths[6] <= LONGEST_TEXT
    assert not any(lengths[7:])


@pytest.mark.parametrize("steps", [16, 22, 30, 35])
def test_bombs_stay_mangled(steps: int, demangler: Demangler) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    assert may_be_long(bomb(steps))
    assert demangler(bomb(steps)) is None
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_maxrss - before.ru_maxrss < 20 << 10  # KiB
    assert demangler(b"_Z3addii") == "add(int, int)"
    assert demangler(ORDINARY[0].encode()) is not None  # by another process


def test_a_forked_child_has_a_process_of_its_own(demangler: Demangler) -> None:
    name = ORDINARY[0].encode()
    wanted = demangler(name)
    child = os.fork()
    if not child:
        other = TREE.replace("\n", "").replace("less", "kess").encode()
        os._exit(0 if "kess" in (demangler(other) or "") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert demangler(name) == wanted
