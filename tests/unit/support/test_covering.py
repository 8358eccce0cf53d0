# SPDX-License-Identifier: Apache-2.0
"""What is chosen of a product covers what it says, and is small."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets.covering import choose
from tests.support.targets.matrix import REPOSITORY

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


@pytest.mark.slow
@pytest.mark.parametrize(("options", "seconds"), [([], 300), (["--soak"], 7200)])
def test_what_soak_runs_has_more_time(tmp_path: Path, options: list[str], seconds: int) -> None:
    """Whoever runs such a test need not know how long it takes."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  soak\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.conftest"]\n')
    (tmp_path / "test_it.py").write_text(
        "import pytest, pytest_timeout\n"
        "from tests.support.targets.covering import sizes\n"
        "@pytest.mark.parametrize('rounds', sizes(1, 100))\n"
        "def test_rounds(request, rounds):\n"
        "    print(rounds, pytest_timeout._get_item_settings(request.node).timeout)\n"
    )
    words = [sys.executable, "-m", "pytest", "-s", "-q", *options]
    words += ["--basetemp", str(tmp_path / "base")]
    env = {"PYTHONPATH": str(REPOSITORY), "SOSCOPE_TEST_UNIT": "0.02", "PYTEST_TIMEOUT": "300"}
    done = run(words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout
    assert f"{100 if options else 1} {seconds}.0\n" in done.stdout
