# SPDX-License-Identifier: Apache-2.0
"""Which signals to soscope are passed on, at the moments that no run can be made to meet."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from soscope.control import supervise
from soscope.control.signals import Sending

TARGET = 4194305  # above what the kernel gives as a pid


class Group:
    """A witness of a group that gets a signal as soon as `told` is set."""

    told = False

    def has_seen(self, _: int) -> bool:
        return self.told


@pytest.mark.parametrize("to_group", [True, False])
def test_a_group_that_is_told_while_its_sender_is_looked_at_has_it_already(
    to_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender tells the group and then sleeps, both after the witness was last asked."""
    group = Group()

    def sleeps(_: int) -> str:
        group.told = to_group
        return "S"

    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("soscope.proc.status.state_of", sleeps)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    tracer: Any = SimpleNamespace(pid=TARGET, exit=None)
    nothing: Any = None
    target = supervise.Target(tracer, nothing, nothing, follow=False)
    monkeypatch.setattr(target, "_witness", group)
    monkeypatch.setattr(target, "_unsure", {signal.SIGTERM: Sending(os.getpid())})
    target._pass_on(time.monotonic() + 1)
    assert sent == ([] if to_group else [(TARGET, signal.SIGTERM)])
