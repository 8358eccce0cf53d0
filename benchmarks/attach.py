# SPDX-License-Identifier: Apache-2.0
"""Into a running process and out again: the whole command, and how long its threads stand still.

The target loads what a large Python program may have; every slot of every image is hooked. It
is another process for each peer: what one leaves behind is not the other's burden.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.python_json import PYTHON
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_IMAGES = 160
_STOPS = 200  # cycles to find the worst stop of
_STOP = re.compile(r"longest stop ([0-9.]+) ms")
_HOOKED = re.compile(r"calls through ([0-9,]+) slots of ([0-9,]+) images")


class _Target:
    """A Python with many images, which does nothing."""

    def __init__(self) -> None:
        command = [PYTHON, os.path.join(TARGETS, "many_images.py"), "stay", str(_IMAGES)]
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._child.stdout is not None
        words = self._child.stdout.readline().split()
        if words[:1] != ["ready"]:
            self.end()
            raise Failed(f"{command[1]} did not get ready")
        self.pid = str(self._child.pid)
        self.images = words[1]

    def check(self) -> None:
        """Raise Failed where it has died."""
        if self._child.poll() is not None:
            raise Failed(f"the target died: {self._child.returncode}")

    def end(self) -> None:
        """Kill it."""
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()


def _command(tools: Tools, pid: str, *options: str) -> list[str]:
    """Return a command that goes in, hooks everything and goes out."""
    words = ["trace", "-p", pid, "--from", "all", "--count-only", "--duration", "0.001s"]
    return [*tools.soscope, *words, *options]


def _stop_of(text: str) -> float:
    """Return the longest stop that soscope says, in ms."""
    found = _STOP.search(text)
    if found is None:
        raise Failed("soscope did not say how long threads stood still")
    return float(found[1])


def _whole(target: _Target, words: list[str]) -> Callable[[], float]:
    def case() -> float:
        seconds = timed(words).seconds
        target.check()
        return seconds * 1e3

    return case


def _stops(tools: Tools, target: _Target, count: int) -> tuple[list[float], str]:
    """Return the longest stop of each cycle in ms, and what was hooked."""
    values, hooked = [], ""
    for _ in range(count):
        errors = run(_command(tools, target.pid, "-v")).errors
        target.check()
        values.append(_stop_of(errors))
        found = _HOOKED.search(errors)
        hooked = f"{found[1]} slots" if found else "?"
    return values, hooked


def measure(tools: Tools, count: int, say: Callable[[str], None], *, quick: bool) -> Table:
    """Measure attaching to a large process and detaching."""
    table = Table()
    if not os.path.exists(PYTHON):
        return table
    say("attach")
    targets: list[_Target] = []

    def target() -> _Target:
        targets.append(_Target())
        return targets[-1]

    try:
        ours = target()
        cases = {
            "pass": lambda: timed([sys.executable, "-c", "pass"]).seconds * 1e3,
            "soscope": _whole(ours, _command(tools, ours.pid)),
        }
        if shutil.which("gdb"):
            other = target()
            words = ["gdb", "-nx", "-batch", "-p", other.pid, "-ex", "detach"]
            cases["gdb, no hook"] = _whole(other, words)
        if "frida" in tools.peers:
            other = target()
            script = os.path.join(TARGETS, "frida_attach.py")
            words = [tools.frida_python, script, other.pid, "getenv"]
            cases["frida, one function"] = _whole(other, words)
        figures, failed = rounds(count, cases)
        table.failed({f"attach, {name}": why for name, why in failed.items()})
        stops, hooked = _stops(tools, ours, 10 if quick else _STOPS)
        title = f"attach, hook {hooked} of a Python with {ours.images} images, detach"
        base = figures["pass"]
        whole = figures.get("soscope")
        extra = None if whole is None else whole.minus(base)
        row = Row(f"{title}, over `python3 -c pass`", 300, extra, unit="ms", base=base)
        row.peers = [
            (name, figures[name].minus(base)) for name in figures if name not in ("pass", "soscope")
        ]
        table.rows.append(row)
        figure = Figure(stops)
        title = f"longest stop of a thread, {len(stops)} times"
        table.rows.append(Row(f"{title}: median", 20, figure, unit="ms"))
        table.rows.append(Row(f"{title}: worst", 100, Figure([figure.most]), unit="ms"))
    except Failed as error:
        table.remarks.append(f"attach: {error}")
    finally:
        for one in targets:
            one.end()
    return table
