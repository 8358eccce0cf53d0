# SPDX-License-Identifier: Apache-2.0
"""Sizes and times are read as people write them, and nothing else is."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs.options import parse_count, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1b", 1),
        ("64k", 65536),
        ("64K", 65536),
        ("16MiB", 16 << 20),
        ("16mi", 16 << 20),
        ("1g", 1 << 30),
        ("1.5 GiB", 3 << 29),
        ("2T", 2 << 40),
        ("1kB", 1000),
        ("3MB", 3_000_000),
    ],
)
def test_a_size_is_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("250ms", 250_000_000),
        ("10s", 10_000_000_000),
        ("10", 10_000_000_000),
        ("2m", 120_000_000_000),
        ("1.5s", 1_500_000_000),
        ("1h", 3_600_000_000_000),
        ("20us", 20_000),
        ("5ns", 5),
    ],
)
def test_a_duration_is_nanoseconds(text: str, duration: int) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "k", "-1k", "1x", "1..2k", "0", "0.1b", "9" * 30, "²k", "1e3"]
)
def test_what_is_no_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "0s", "soon"])
def test_what_is_no_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="time"):
        parse_duration(text)


def test_a_count_is_a_plain_number() -> None:
    assert parse_count("0") == 0
    assert parse_count("32") == 32
    for text in ("", "-1", "1.5", "²", "all", "9" * 30):
        with pytest.raises(UsageError, match="number"):
            parse_count(text)


def test_a_size_is_shown_with_a_unit() -> None:
    assert size_text(512) == "512 B"
    assert size_text(16 << 20) == "16 MiB"
    assert size_text(3 << 29) == "1.5 GiB"
    assert size_text(5 << 50) == "5.12e+03 TiB"
