# SPDX-License-Identifier: Apache-2.0
"""The arrays say what the stream says of thousands of random programs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from soscope.wire import layout
from tests.unit.recording.randomprograms import COROUTINES, assert_read_alike, small_scale

PARTS = 10  # for slices of soak
LOSING = {"when_full": layout.FULL_DROP, "chunks": 3}
OVERWRITING = {"when_full": layout.FULL_OVERWRITE, "chunks": 3}
# programs in a part, least and most steps, and how the program is
KINDS: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "ordinary": (100, 0, 600, {}),
    "coroutines": (80, 0, 600, {"stacks": COROUTINES}),
    "losing": (40, 600, 4000, LOSING),
    "losing coroutines": (20, 600, 4000, {**LOSING, "stacks": COROUTINES}),
    "overwriting": (40, 600, 4000, OVERWRITING),
}


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str, part: int, tmp_path: Path) -> None:
    programs, least, most, more = KINDS[kind]
    with small_scale():
        for seed in range(part * programs, (part + 1) * programs):
            choose = random.Random(seed)
            steps, killed = choose.randint(least, most), choose.choice([None, True, False])
            assert_read_alike(tmp_path, seed, steps, killed, **more)
