# SPDX-License-Identifier: Apache-2.0
"""What `soscope prof run` and `attach` are told to profile."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs.prof.run import parse_hz, parse_mode


@pytest.mark.parametrize(
    ("said", "meant"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (100, 128)]
)
def test_one_call_in_a_power_of_two_is_timed(said: int, meant: int) -> None:
    assert parse_mode(f"sample={said}").interval == meant


def test_errors_leave_the_option_to_who_names_it() -> None:
    with pytest.raises(UsageError, match=r"^sample=0 is not between 1 and 1,048,576$"):
        parse_mode("sample=0")
    with pytest.raises(UsageError, match=r"^2000 is not between 1 and 1,000 times a second$"):
        parse_hz("2000")
