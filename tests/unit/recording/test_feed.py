# SPDX-License-Identifier: Apache-2.0
"""The feed puts nothing in order before it has heard what happened to processes."""

from __future__ import annotations

from soscope.model.call import ProcessStart
from soscope.recording.drain import Feed
from soscope.recording.sink import Sink, Told
from tests.unit.recording.fake import FakeSampler


class _Order(Sink):
    """Keeps events and clock pairs, in the order in which they come."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def event(self, event: Told) -> None:
        self.told.append(event)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        self.told.append("pair")

    def tick(self, tsc: int, monotonic: int) -> None:
        self.told.append("pair")


def test_events_come_before_the_pair_behind_what_was_drained() -> None:
    sink = _Order()
    feed = Feed(sink, FakeSampler())
    sink.told.clear()
    news = [ProcessStart(1, 200, "fork", 100, "/p"), ProcessStart(2, 300, "fork", 200, "/p")]
    expected = [*news, "pair"]
    is_telling = False

    def hear() -> bool:
        nonlocal is_telling
        if is_telling:
            return False
        is_telling = True
        while news:
            feed.event(news.pop(0))  # which drains, too
        is_telling = False
        return True

    feed.hear = hear
    feed.drain()
    assert sink.told == expected


def test_no_pair_without_all_events() -> None:
    sink = _Order()
    feed = Feed(sink, FakeSampler())
    sink.told.clear()
    feed.hear = lambda: False
    feed.drain()
    assert sink.told == []
    feed.hear = lambda: True
    feed.drain()
    assert sink.told == ["pair"]
