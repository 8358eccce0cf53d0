# SPDX-License-Identifier: Apache-2.0
"""A row of the table: what must be reached, what was measured, what peers take."""

from __future__ import annotations

from benchmarks.measure import Figure


class Row:
    """One line of the table.

    `goal` is in the figure's unit; `at_least` says that more is better. `peers` holds figures
    measured in the same rounds, with the same base taken off.
    """

    def __init__(
        self,
        name: str,
        goal: float | None,
        figure: Figure | None,
        *,
        unit: str = "ns",
        base: Figure | None = None,
        at_least: bool = False,
        why: str = "",
    ) -> None:
        self.name = name
        self.goal = goal
        self.figure = figure
        self.unit = unit
        self.base = base
        self.at_least = at_least
        self.why = why
        self.peers: list[tuple[str, Figure]] = []

    @property
    def reached(self) -> bool | None:
        """Return whether the median reaches the goal; None where there is no goal or figure."""
        if self.goal is None or self.figure is None:
            return None
        if self.at_least:
            return self.figure.median >= self.goal
        return self.figure.median <= self.goal


class Table:
    """Rows and remarks of one part of the run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.remarks: list[str] = []

    def failed(self, what: dict[str, str]) -> None:
        """Remember what gave no figure."""
        self.remarks += [f"{name}: {why}" for name, why in what.items()]
