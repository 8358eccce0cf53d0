# SPDX-License-Identifier: Apache-2.0
"""The table of right and wrong answers counts as it says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.soak.answers import GUESSED, REFUSED, RIGHT, WRONG, judge
from tests.support.machines.tools import need
from tests.support.time.patience import limit
from tests.support.truth.peers import CANNOT, Question, Said, formula


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


# A small process: each answer takes an nm of every library that is loaded.
_TELLS = """
import ctypes
print(ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value, flush=True)
input()
"""


@pytest.mark.slow
def test_the_formula_finds_what_is_simple() -> None:
    need("nm")
    need("readelf")
    words = [sys.executable, "-c", _TELLS]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        truth = int(process.stdout.readline())
        pid = process.pid
        assert formula(Question(pid, "getppid", {})) == truth
        assert formula(Question(pid, "libc.so.6!getppid", {})) == truth
        assert formula(Question(pid, "nosuch!getppid", {})) is None
        assert formula(Question(pid, "getppid", {"thread": 1})) == CANNOT
        assert formula(Question(pid, "getppid@GLIBC_2.2.5", {})) == truth
        assert formula(Question(pid, "getppid@GLIBC_9", {})) is None
        process.communicate("\n", timeout=limit())
