# SPDX-License-Identifier: Apache-2.0
"""The arrays say what the stream says of thousands of random programs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from soscope.wire import layout
from tests.unit.recording.randomprograms import COROUTINES, assert_read_alike, small_scale

PARTS = 10
SEEDS = 200  # in a part
LOSING = {"when_full": layout.FULL_DROP, "chunks": 3}
OVERWRITING = {"when_full": layout.FULL_OVERWRITE, "chunks": 3}
# least and most steps, and how the program is
KINDS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "ordinary": (0, 600, {}),
    "coroutines": (0, 600, {"stacks": COROUTINES}),
    "losing": (600, 4000, LOSING),
    "losing coroutines": (600, 4000, {**LOSING, "stacks": COROUTINES}),
    "overwriting": (600, 4000, OVERWRITING),
}


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str, part: int, tmp_path: Path) -> None:
    least, most, more = KINDS[kind]
    with small_scale():
        for seed in range(part * SEEDS, (part + 1) * SEEDS):
            choose = random.Random(seed)
            steps, killed = choose.randint(least, most), choose.choice([None, True, False])
            assert_read_alike(tmp_path, seed, steps, killed, **more)
