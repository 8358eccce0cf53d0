# SPDX-License-Identifier: Apache-2.0
"""Stops of threads that had to wait with them."""

from __future__ import annotations

from soscope.control.qemu.engine import LateStops


def test_a_stop_is_late_once() -> None:
    late = LateStops()
    late.heard(1)
    assert not late.is_late(1, 0x100)
    late.gone(0x100)
    assert late.is_late(1, 0x100)
    assert late.is_late(2, 0x100)  # which was never heard
    assert not late.is_late(1, 0x200)
    late.heard(1)
    assert not late.is_late(1, 0x100)  # so that it is the program's own
    late.gone(0x100)
    assert late.is_late(1, 0x100)


def test_a_number_of_a_thread_may_come_again() -> None:
    late = LateStops()
    late.gone(0x100)
    late.heard(1)
    late.forget(1)
    assert late.is_late(1, 0x100)
