# SPDX-License-Identifier: Apache-2.0
"""How long a thread had stopped before soscope came to see it."""

from __future__ import annotations

import pytest

from soscope.control.program import TaskMoment


@pytest.mark.parametrize(
    ("ran", "queued", "ours", "stood"),
    [
        (10, 30, 70, 60),  # we were queued, or busy, while it stood there
        (10, 30, 20, 20),  # it stood for the disk, and we slept
        (10, 90, 70, 0),
        (10, 95, 70, 0),  # the kernel's accounts are a little behind
    ],
)
def test_a_thread_stood_for_us_as_long_as_we_did_not_sleep(
    ran: int, queued: int, ours: int, stood: int
) -> None:
    before = TaskMoment(1_000, ran=500, queued=600, ours=700)
    after = TaskMoment(1_100, ran=500 + ran, queued=600 + queued, ours=700 + ours)
    assert after.stood_since(before) == stood
