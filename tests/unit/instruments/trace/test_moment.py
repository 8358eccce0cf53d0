# SPDX-License-Identifier: Apache-2.0
"""Moments as people name them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from soscope.errors import UsageError
from soscope.verbs.display import parse_moment

ZONE = "Europe/Berlin"


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Live where clocks are changed twice a year."""
    monkeypatch.setenv("TZ", ZONE)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def ns(text: str) -> int:
    """Return the ns since 1970 of a local time."""
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE)).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("start", "words", "wanted"),
    [
        ("2026-06-01 12:00:00", "12:00:05", "2026-06-01 12:00:05"),
        ("2026-06-01 12:00:00", "12:01", "2026-06-01 12:01:00"),
        ("2026-06-01 12:00:00", "11:59", "2026-06-01 11:59:00"),
        ("2026-06-01 23:59:50", "00:00:10", "2026-06-02 00:00:10"),
        ("2026-12-31 23:59:50", "0:01", "2027-01-01 00:01:00"),
        ("2026-03-29 01:00:00", "04:00", "2026-03-29 04:00:00"),  # a day of 23 hours
        ("2026-06-01 12:00:00", "1s", "2026-06-01 12:00:01"),
        ("2026-06-01 12:00:00", "2", "2026-06-01 12:00:02"),
        ("2026-06-01 12:00:00", "0", "2026-06-01 12:00:00"),
    ],
)
def test_moments_are_found(start: str, words: str, wanted: str) -> None:
    assert parse_moment(words).time_ns(ns(start)) == ns(wanted)


def test_parts_of_seconds_count() -> None:
    start = ns("2026-06-01 12:00:00")
    assert parse_moment("12:00:00.000000001").time_ns(start) == start + 1
    assert parse_moment("1500us").time_ns(start) == start + 1_500_000
    assert parse_moment("1700000000.123456789").time_ns(start) == 1_700_000_000_123_456_789


@pytest.mark.parametrize("words", ["", "noon", "24:00", "12:60", "1:2:3:4", "12:00:00.x", "-1s"])
def test_other_words_are_none(words: str) -> None:
    with pytest.raises(UsageError):
        parse_moment(words)
