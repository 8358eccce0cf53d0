# SPDX-License-Identifier: Apache-2.0
"""Choose few rows of a product of parameters so that every combination that matters is in one.

A test whose parameters are a product says how much of it `make test` runs; `make soak` runs
the rest:

    @pytest.mark.covering(2)  # each pair of a cell's values and a mode
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("cell", CELLS)

`covering(1, times=2)`: each value of each parameter in two rows at least. `triples` names three
parameters, or fields of a NamedTuple, all of whose combinations occur. `always` lists words: a
row whose test id has one of them is always chosen, for a fault that it alone has found.

If the parameters are no product, `every(3)` chooses every third row. It takes `always`, too. The
name of the function decides with which row it begins.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

import pytest
from _pytest.mark import ParameterSet

Row = Mapping[str, Hashable]
_Combination = tuple[tuple[str, Hashable], ...]


def sizes(usual: int, full: int) -> list[ParameterSet]:
    """Return the sizes of a test's work: `make test` has the usual one, `make soak` the full one.

    Example: `@pytest.mark.parametrize("rounds", sizes(200, 20_000))`.
    """
    return [pytest.param(usual), pytest.param(full, marks=pytest.mark.soak)]


def choose(
    rows: Sequence[Row],
    strength: int = 2,
    *,
    times: int = 1,
    triples: Sequence[str] = (),
    first: Sequence[int] = (),
) -> list[int]:
    """Return the numbers of the chosen rows, in order.

    Each combination of `strength` values that occurs in `rows` is in `times` of them, or in all
    that have it if they are fewer. `first` are rows that are chosen anyway. Greedy and without
    chance: every worker of a run must choose the same. Of equals it takes the row whose values
    it has taken least, so that they all get their turn.
    """
    sets = [_combinations(row, strength, triples) for row in rows]
    missing = Counter(itertools.chain.from_iterable(sets))
    for combination, count in missing.items():
        missing[combination] = min(count, times)
    rows_with: defaultdict[_Combination, list[int]] = defaultdict(list)
    for number, combinations in enumerate(sets):
        for combination in combinations:
            rows_with[combination].append(number)
    gains = dict(enumerate(map(len, sets)))  # of rows that are left: what is missing and in them
    taken: Counter[tuple[str, Hashable]] = Counter()
    chosen: list[int] = []

    def take(number: int) -> None:
        chosen.append(number)
        del gains[number]
        taken.update(rows[number].items())
        for combination in sets[number]:
            missing[combination] -= 1
            if not missing[combination]:
                for other in rows_with[combination]:
                    if other in gains:
                        gains[other] -= 1

    for number in first:
        take(number)
    while most := max(gains.values(), default=0):
        best = [number for number, gain in gains.items() if gain == most]
        uses = [sum(taken[value] for value in rows[number].items()) for number in best]
        take(best[uses.index(min(uses))])
    return sorted(chosen)


def _combinations(row: Row, strength: int, triples: Sequence[str]) -> set[_Combination]:
    values = sorted(row.items(), key=lambda value: value[0])
    found: set[_Combination] = set(itertools.combinations(values, min(strength, len(values))))
    if triples:
        found.add(tuple((name, row[name]) for name in triples))
    return found
