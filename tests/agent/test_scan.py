# SPDX-License-Identifier: Apache-2.0
"""code_x86_64_scan.c: wherever slots lie, no use is passed over, and none is seen twice."""

from __future__ import annotations

import pytest

from tests.agent import hosted

# slots, bytes between two: all in one place, near each other, as far as the fast way goes, beyond
PLACES = [(1, 8), (40, 8), (500, 8), (500, 128), (8, 9360), (9, 8192), (300, 512)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("what", ["slots", "code"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("slots", "gap"), PLACES)
def test_every_use_is_found_once(slots: int, gap: int, seed: int, what: str) -> None:
    hosted.check("scan", str(seed), str(slots), str(gap), "0", what)


@pytest.mark.every(3)
@pytest.mark.parametrize(("slots", "gap"), PLACES)
def test_every_use_is_found_once_in_many_turns(slots: int, gap: int) -> None:
    hosted.check("scan", "4", str(slots), str(gap), "2000", "slots")
