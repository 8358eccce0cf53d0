# SPDX-License-Identifier: Apache-2.0
"""Automata of lists of names."""

from __future__ import annotations

import sys

from soscope.prototypes import load
from soscope.select.patterns import compile_names
from tests.support.processes.run import run


def test_a_list_matches_its_names_and_no_others() -> None:
    names = load().names()
    wanted, others = set(names[::2]), set(names[1::2])
    automaton = compile_names(wanted)
    assert all(automaton.matches(name.encode()) for name in wanted)
    assert not any(automaton.matches(name.encode()) for name in others - wanted)
    assert automaton.states < 1 << 14


def test_beginnings_and_ends_of_names_are_others() -> None:
    automaton = compile_names(["open", "open64", "reopen"])
    assert [automaton.matches(name) for name in (b"open", b"open64", b"reopen")] == [True] * 3
    assert not any(automaton.matches(name) for name in (b"", b"ope", b"open6", b"re", b"opens"))
    assert not compile_names([]).matches(b"")


def test_a_star_at_the_end_is_for_all_that_begin_so() -> None:
    automaton = compile_names(["SSL_*", "SSL", "open", "SSL_read"])
    for name in ("SSL_", "SSL_read", "SSL_x\xff_9", "SSL", "open"):
        assert automaton.matches(name.encode())
    for name in ("SS", "SSL2", "open_", "xSSL_", ""):
        assert not automaton.matches(name.encode())


def test_every_interpreter_makes_the_same() -> None:
    names = "read write reopen openat pread pwrite malloc free fwrite strlen"
    code = "from soscope.select.patterns import compile_names\n"
    code += f"print(compile_names({names.split()}).next)"
    made = {
        run([sys.executable, "-c", code], env={"PYTHONHASHSEED": str(seed)}).stdout
        for seed in range(3)
    }
    assert len(made) == 1
    assert len(made.pop()) > 100
