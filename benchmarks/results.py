# SPDX-License-Identifier: Apache-2.0
"""RESULTS.md: the table, what it was measured on, and remarks."""

from __future__ import annotations

import os

from benchmarks.measure import Figure
from benchmarks.rows import Row, Table
from benchmarks.tools import HERE

REMARKS = os.path.join(HERE, "REMARKS.md")

_HEAD = """\
<!-- Written by benchmarks/run.py; remarks by hand go to REMARKS.md. -->
# What soscope costs

Medians of {rounds} rounds; in brackets the least and the most. Every round runs the untraced
program, soscope and the peers one after the other, and takes the untraced figure of the same
round off. A program times itself in parts of a burst, and its figure is the median of the
parts: start-up and the end of the program are not in it. *ratio* is the peer's cost divided
by soscope's.

    {command}
"""


def _number(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 200 else f"{value:.1f}"


def _figure(figure: Figure, unit: str) -> str:
    middle = f"**{_number(figure.median)}** {unit}"
    if len(figure.values) == 1:
        return middle
    return f"{middle} ({_number(figure.least)}..{_number(figure.most)})"


def _peers(row: Row) -> str:
    if row.figure is None:
        return ""
    shown = []
    for name, figure in row.peers:
        text = f"{name} {_number(figure.median)}"
        own = row.figure.median
        if own > 0 and figure.median > 0:
            text += f" ({_number(figure.median / own)}x)"
        shown.append(text)
    return "; ".join(shown) or "-"


def _line(row: Row) -> str:
    sign = "≥" if row.at_least else "≤"
    goal = f"{sign} {row.goal:g} {row.unit}" if row.goal is not None else "-"
    measured = _figure(row.figure, row.unit) if row.figure is not None else "no figure"
    verdict = {True: "yes", False: "**no**", None: "-"}[row.reached]
    base = _number(row.base.median) if row.base is not None else "-"
    return f"| {row.name} | {goal} | {measured} | {verdict} | {base} | {_peers(row)} |"


def write(
    path: str,
    tables: list[Table],
    *,
    command: str,
    rounds: int,
    machine: list[tuple[str, str]],
    remarks: list[str],
) -> None:
    """Write the page."""
    lines = [_HEAD.format(command=command, rounds=rounds)]
    lines += [
        "| | must reach | measured | reached | untraced | peers beside it (ratio) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(row) for table in tables for row in table.rows]
    lines += ["", "Costs of calls are ns a call (a pair: both) over the untraced program.", ""]
    if os.path.exists(REMARKS):
        with open(REMARKS, encoding="utf-8") as file:
            lines += [file.read().strip(), ""]
    lines += ["## Notes of this run", ""]
    lines += [f"- {one}" for one in remarks]
    lines += [f"- {one}" for table in tables for one in table.remarks]
    lines += [f"- {row.name}: {row.why}." for table in tables for row in table.rows if row.why]
    lines += ["", "## Measured on", "", "| | |", "| --- | --- |"]
    lines += [f"| {what} | {version} |" for what, version in machine]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
