# SPDX-License-Identifier: Apache-2.0
"""ring.c: every record is in the ring or counted as lost, whatever interrupts it."""

from __future__ import annotations

import pytest

from soscope.wire import layout
from tests.agent import hosted

POLICIES = {
    "block": layout.FULL_BLOCK,
    "drop": layout.FULL_DROP,
    "overwrite": layout.FULL_OVERWRITE,
}


@pytest.mark.every(4)
@pytest.mark.parametrize("nested", [1, pytest.param(20, marks=pytest.mark.soak), 600])
@pytest.mark.parametrize("policy", ["drop", "overwrite"])
def test_a_signal_may_come_at_any_instruction(policy: str, nested: int) -> None:
    # not with sanitizers: their instructions would be stepped through, too
    hosted.check("ring", "step", str(POLICIES[policy]), str(nested), sanitize=False)


def test_a_handler_may_fork_at_any_instruction() -> None:
    # the child goes on in the middle of what its parent does, too
    hosted.check("ring", "fork", str(layout.FULL_DROP), sanitize=False)


FIRST_RECORDS = [
    ("first", layout.INSTRUMENT_TRACE),
    ("first", layout.INSTRUMENT_COUNT),
    ("first, fork", layout.INSTRUMENT_TRACE),
    ("first, fork", layout.INSTRUMENT_COUNT),
    ("renamed", layout.INSTRUMENT_TRACE),
    ("renamed, fork", layout.INSTRUMENT_TRACE),
]
# A step costs 20 microseconds, and all steps up to each instruction are made; odd, as half of
# the children that are forked go on in another way.
STRIDE = 7


@pytest.mark.every(3)
@pytest.mark.parametrize(("how", "mode"), FIRST_RECORDS)
def test_a_thread_may_be_interrupted_in_its_first_record(how: str, mode: int) -> None:
    first = FIRST_RECORDS.index((how, mode)) % STRIDE
    hosted.check("begin", how, str(mode), str(STRIDE), str(first), sanitize=False)


@pytest.mark.soak
@pytest.mark.parametrize(("how", "mode"), FIRST_RECORDS)
def test_a_thread_may_be_interrupted_anywhere_in_its_first_record(how: str, mode: int) -> None:
    hosted.check("begin", how, str(mode), sanitize=False)


@pytest.mark.every(2)
@pytest.mark.parametrize("compiler", hosted.COMPILERS)
@pytest.mark.parametrize("policy", ["block", "drop"])
def test_threads_that_signals_interrupt(policy: str, compiler: str) -> None:
    said = hosted.check("ring", "threads", str(POLICIES[policy]), compiler=compiler)
    lost, longest = int(said.split()[2]), int(said.split()[4])
    # a reader that this machine has not let run for a second is gone: see reader_gone in ring.c
    assert policy == "drop" or lost == 0 or longest > 900


def test_signals_do_not_make_a_wait_shorter() -> None:
    hosted.check("ring", "woken")


def test_a_ring_that_stops_and_a_reader_that_is_gone() -> None:
    hosted.check("ring", "ends")
