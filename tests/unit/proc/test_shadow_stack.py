# SPDX-License-Identifier: Apache-2.0
"""Threads with shadow stacks, by what /proc/PID/status says of them."""

from __future__ import annotations

import pytest

from soscope.proc import status


@pytest.mark.parametrize(
    ("features", "has"),
    [
        ({}, False),
        ({"x86_Thread_features": ""}, False),
        ({"x86_Thread_features": "shstk"}, True),
        ({"x86_Thread_features": "shstk wrss"}, True),
        ({"x86_Thread_features_locked": "shstk"}, False),
    ],
)
def test_the_threads_features_tell(features: dict[str, str], has: bool) -> None:
    assert status.has_shadow_stack({"Tgid": "1", **features}) is has
