# SPDX-License-Identifier: Apache-2.0
"""What an exec does to a feed: the old program ends, and the new one's calls come behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soscope.model.call import ProcessStart
from soscope.recording.drain import Feed
from soscope.recording.sink import Told
from tests.unit.recording.fake import FakeSampler, make_block
from tests.unit.recording.test_drain import Kept, Target, clock

__all__ = ["clock"]  # a fixture


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.drainer.close()
    target.block.close()


def test_an_exec_ends_the_old_program_only() -> None:
    sink = Kept()
    feed = Feed(sink, FakeSampler())
    blocks = [make_block(2), make_block(2)]
    first = feed.add(blocks[0], "/bin/a", 100)
    feed.event(ProcessStart(1, 100, "start", None, "/bin/a"))
    second = feed.add(blocks[1], "/bin/b", 100)
    feed.event(ProcessStart(2, 100, "exec", None, "/bin/b"))
    assert (first.pids, second.pids) == (set(), {100})
    feed.event(ProcessStart(3, 100, "exec", None, "/bin/static"))
    assert second.pids == set()


class Heard(Kept):
    """Also keeps how many pieces there were when events came."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[int] = []

    def event(self, event: Told) -> None:
        del event
        self.before.append(len(self.pieces))


def test_what_a_new_program_has_done_is_behind_its_exec(target: Target) -> None:
    """It runs already when the helper of `trace -p -f` tells of it."""
    sink = Heard()
    feed = Feed(sink, FakeSampler())
    feed.add(make_block(2), "/bin/a", 100)
    feed.event(ProcessStart(1, 100, "start", None, "/bin/a"))
    feed.add(target.block, "/bin/program", 100)
    target.calls(3)
    feed.event(ProcessStart(2, 100, "exec", None, "/bin/program"))
    assert sink.before == [0, 0]
    feed.drain()
    feed.close()
    assert sink.args() == [0, 1, 2]
