# SPDX-License-Identifier: Apache-2.0
"""The table of right and wrong answers counts as it says."""

from __future__ import annotations

import ctypes
import os

import pytest

from tests.soak.answers import GUESSED, REFUSED, RIGHT, WRONG, judge
from tests.support.peers import CANNOT, Question, Said, formula
from tests.support.tools import need


@pytest.mark.parametrize(
    ("truth", "said", "wanted"),
    [
        (16, 16, RIGHT),
        (16, 32, WRONG),
        (16, None, REFUSED),
        (16, 0, REFUSED),
        (0, None, RIGHT),
        (0, 16, GUESSED),
        (16, CANNOT, CANNOT),
        (0, CANNOT, CANNOT),
    ],
)
def test_an_answer_is_judged(truth: int, said: Said, wanted: str) -> None:
    assert judge(truth, said) == wanted


def test_the_formula_finds_what_is_simple() -> None:
    need("nm")
    need("readelf")
    libc = ctypes.CDLL(None)
    truth = ctypes.cast(libc.getppid, ctypes.c_void_p).value
    assert formula(Question(os.getpid(), "getppid", {})) == truth
    assert formula(Question(os.getpid(), "libc.so.6!getppid", {})) == truth
    assert formula(Question(os.getpid(), "nosuch!getppid", {})) is None
    assert formula(Question(os.getpid(), "getppid", {"thread": 1})) == CANNOT
    assert formula(Question(os.getpid(), "getppid@GLIBC_2.2.5", {})) == truth
    assert formula(Question(os.getpid(), "getppid@GLIBC_9", {})) is None
