# SPDX-License-Identifier: Apache-2.0
"""Two engines at once: what comparing them has come to."""

from __future__ import annotations

from typing import Any

from soscope.control.qemu.watches import CheckedWatch


class Watch:
    """As much of an engine as nobody has made a call by."""

    for_one_thread = False
    faults = False

    def __init__(self, name: str) -> None:
        self.name = name


def test_engines_that_have_noticed_no_call_do_not_agree() -> None:
    sites: Any = Watch("sites")
    slots: Any = Watch("slot")
    verdict = CheckedWatch(sites, slots, "slot").verdict()
    assert verdict.line == (
        "check: sites and slot: nothing was compared, as neither has noticed a call"
    )
    assert not verdict.is_same
