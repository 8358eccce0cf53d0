# SPDX-License-Identifier: Apache-2.0
"""Restartable sequences that a stop interrupts begin anew, whoever was borrowed in one."""

from __future__ import annotations

from tests.support.machines.tools import not_here
from tests.support.processes import attached
from tests.support.targets import build

_TURNS = 3


def test_no_restartable_sequence_goes_on_in_its_middle() -> None:
    """The threads never wait: the one that is borrowed is in a sequence, most likely."""
    program = build.program("rseq")
    with attached.running([program], ready="") as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            not_here("the C library registers no rseq")
        went_in = 0
        for _ in range(_TURNS):
            done = attached.trace(process.pid, "-c", "--duration", "50ms")
            went_in += done.returncode == 0
        assert attached.finish(process)[:2] == (7, "lost 0\n")
    assert went_in
