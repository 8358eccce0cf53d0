# SPDX-License-Identifier: Apache-2.0
"""Time-outs of calls that stops have interrupted."""

from __future__ import annotations

import time

import pytest

from soscope.entry import waits
from soscope.entry.isa import arch

EPOLL_WAIT = 232


def test_a_time_out_in_milliseconds_gets_no_longer_by_many_short_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, began = 5_000_000_000, 5_000_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    registers = arch.Registers(orig_rax=EPOLL_WAIT, r10=1000)
    owed = (0, 0)
    for _ in range(100):
        now = began + 2_700_000
        owed = waits.shorten(registers, began, 1, 0, owed)
        began = now
    assert registers.r10 == 730


def test_what_another_call_was_too_long_is_not_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic_ns", lambda: 10_500_000)
    registers = arch.Registers(orig_rax=EPOLL_WAIT, r10=20)
    assert waits.shorten(registers, 10_000_000, 1, 0, (30, 900_000)) == (20, 500_000)
    assert registers.r10 == 20
