# SPDX-License-Identifier: Apache-2.0
"""Which format the ending of a file means."""

from __future__ import annotations

import pytest

from soscope.export.profiles import CALL_FORMATS, FORMATS, PROFILE_FORMATS, format_of


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("run.chrome.json", "chrome"),
        ("run.speedscope.json", "speedscope"),
        ("run.json", "json"),
        ("run.jsonl", "jsonl"),
        ("run.pb.gz", "pprof"),
        ("RUN.PPROF", "pprof"),
        ("run.callgrind", "callgrind"),
        ("run.otlp", "otlp"),
        ("run.gz", None),
        ("run", None),
    ],
)
def test_endings(path: str, name: str | None) -> None:
    assert format_of(path) == name


def test_every_format_is_of_calls_or_of_profiles() -> None:
    assert {*CALL_FORMATS, *PROFILE_FORMATS} == set(FORMATS)
