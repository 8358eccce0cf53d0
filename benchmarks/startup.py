# SPDX-License-Identifier: Apache-2.0
"""The start: whole commands, beside the untraced program and the bare interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.python_json import PYTHON
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_NET = ("frida true", "ltrace many")  # the base is off already


def _wall(command: list[str]) -> Callable[[], float]:
    return lambda: timed(command).seconds * 1000


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure both programs of the table, and what needs no program."""
    table = Table()
    say("start-up")
    pass_ = [sys.executable, "-c", "pass"]
    true = ["/bin/true"]
    many = [PYTHON, os.path.join(TARGETS, "many_images.py")]
    out = tools.path("text.txt")
    cases = {
        "pass": _wall(pass_),
        "true": _wall(true),
        "trace true": _wall([*tools.trace("-o", out), *true]),
        "count true": _wall([*tools.summary("--count-only"), *true]),
        "help": _wall([*tools.soscope, "--help"]),
    }
    if "ltrace" in tools.peers:
        cases["ltrace true"] = _wall([*tools.ltrace(), *true])
    if "uftrace" in tools.peers:
        cases["uftrace true"] = _wall([*tools.uftrace(), *true])
    if os.path.exists(PYTHON):
        cases["many"] = _wall(many)
        cases["trace many"] = _wall([*tools.trace("-o", out, "-e", "getenv"), *many])
        cases["count many"] = _wall([*tools.summary("--count-only", "--from", "all"), *many])
        if "uftrace" in tools.peers:
            cases["uftrace many"] = _wall([*tools.uftrace(), *many])
    figures, failed = rounds(count, cases)
    _slow_peers(tools, figures, failed, many)
    table.failed({f"start-up, {name}": why for name, why in failed.items()})
    _rows(table, figures, _images(many))
    return table


def _slow_peers(
    tools: Tools, figures: dict[str, Figure], failed: dict[str, str], many: list[str]
) -> None:
    """Measure what takes seconds in fewer rounds, with a base of their own taken off."""
    true = ["/bin/true"]
    for name, peer, base, tracer in (
        ("frida true", "frida", true, tools.frida("malloc")),
        ("ltrace many", "ltrace", many, tools.ltrace("-e", "getenv")),
    ):
        if peer not in tools.peers or not os.path.exists(base[0]):
            continue
        few, others = rounds(3, {name: _wall([*tracer, *base]), "base": _wall(base)})
        failed.update(others)
        if len(few) == 2:
            figures[name] = few[name].minus(few["base"])


def _images(many: list[str]) -> str:
    try:
        return run([*many, "count"]).output.strip()
    except (Failed, OSError):
        return "?"


def _rows(table: Table, figures: dict[str, Figure], images: str) -> None:
    def add(name: str, goal: float | None, what: str, base: str, peers: list[str]) -> None:
        figure = None
        if what in figures and base in figures:
            figure = figures[what].minus(figures[base], figures["pass"])
        row = Row(name, goal, figure, unit="ms", base=figures.get(base))
        for peer in peers:
            if peer in figures and peer in _NET:
                row.peers.append((peer, figures[peer]))
            elif peer in figures:
                row.peers.append((peer, figures[peer].minus(figures[base])))
        table.rows.append(row)

    add(
        "start-up, `/bin/true`",
        40,
        "trace true",
        "true",
        ["ltrace true", "uftrace true", "frida true"],
    )
    add("start-up, `/bin/true`, `--count-only`", None, "count true", "true", [])
    title = f"start-up, a Python with {images} images"
    add(
        f"{title}, `-e getenv`",
        120,
        "trace many",
        "many",
        ["ltrace many", "uftrace many"],
    )
    add(
        f"{title}, every image, `--count-only`",
        120,
        "count many",
        "many",
        ["ltrace many", "uftrace many"],
    )
    help_ = Row(
        "`soscope --help`, whole", None, figures.get("help"), unit="ms", base=figures.get("pass")
    )
    table.rows.append(help_)
    if all(name in figures for name in ("trace true", "count many", "many")):
        bare = figures["pass"].least
        true = figures["trace true"].least - figures["true"].least - bare
        many = figures["count many"].least - figures["many"].least - bare
        table.remarks.append(
            f"Start-up from the least of each command, which other work disturbs less: `/bin/true` "
            f"{true:.1f} ms; many images, all traced, {many:.1f} ms."
        )
    table.remarks.append(
        f"`python3 -c pass` of the same interpreter takes {figures['pass'].median:.1f} ms "
        f"({figures['pass'].least:.1f}..{figures['pass'].most:.1f}); it and the untraced "
        "program are taken off soscope's start-up, the untraced program alone off the peers'."
    )
