# SPDX-License-Identifier: Apache-2.0
"""Several sinks in the place of one."""

from __future__ import annotations

from soscope.recording.sink import Sink, Tee
from tests.unit.recording.test_drain import Kept, Target


def test_a_tee_tells_everybody() -> None:
    first, second = Kept(), Kept()
    target = Target()
    target.drainer.sink = Tee(first, second)
    target.calls(5)
    target.drainer.drain()
    assert first.args() == second.args() == list(range(5))


def test_a_tee_knows_every_method() -> None:
    methods = {name for name, value in vars(Sink).items() if callable(value)} - {"__init__"}
    assert methods <= set(vars(Tee))
