# SPDX-License-Identifier: Apache-2.0
"""What is chosen of a product covers what it says, and is small."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.support.targets.covering import choose

FACTORS = {"compiler": "gc", "binding": "lnpi", "position": "pn", "linker": "bglm", "mode": "csre"}
PRODUCT = [dict(zip(FACTORS, row, strict=True)) for row in itertools.product(*FACTORS.values())]


def values(rows: list[dict[str, str]], *names: str) -> set[tuple[str, ...]]:
    return {tuple(row[name] for name in names) for row in rows}


def test_each_pair_occurs() -> None:
    chosen = [PRODUCT[number] for number in choose(PRODUCT)]
    for pair in itertools.combinations(FACTORS, 2):
        assert values(chosen, *pair) == values(PRODUCT, *pair)
    assert len(chosen) <= 24  # 16 at least: of four and four values


def test_each_triple_that_is_asked_for_occurs() -> None:
    names = ("binding", "position", "mode")
    chosen = [PRODUCT[number] for number in choose(PRODUCT, triples=names)]
    assert values(chosen, *names) == values(PRODUCT, *names)
    assert len(chosen) < len(PRODUCT) / 4


@pytest.mark.parametrize("times", [1, 2])
def test_values_take_turns(times: int) -> None:
    rows = [{"case": case, "mode": mode} for case in range(20) for mode in "csre"]
    chosen = choose(rows, 1, times=times)
    assert len(chosen) == 20 * times
    for mode in "csre":
        assert sum(rows[number]["mode"] == mode for number in chosen) == 5 * times


def test_what_is_wanted_is_in_it() -> None:
    assert {7, 8} <= set(choose(PRODUCT, first=[7, 8]))


def test_a_product_with_holes() -> None:
    chance = random.Random(3)
    rows = chance.sample(PRODUCT, 60)
    chosen = [rows[number] for number in choose(rows)]
    for pair in itertools.combinations(FACTORS, 2):
        assert values(chosen, *pair) == values(rows, *pair)
