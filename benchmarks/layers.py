# SPDX-License-Identifier: Apache-2.0
"""What another instrument in front costs: one that does nothing, on top of one that counts.

The agent is built anew with it, as docs/how-to/add-an-instrument.md shows.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

from benchmarks.calls import workload
from benchmarks.measure import rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TOP, Tools
from soscope.wire import layout

_NOTHING = """
#include "handler.h"
#include "instrument.h"

static uint64_t handler(const struct sosc_chosen *chosen, bool entry_only)
{
	(void)chosen;
	(void)entry_only;
	return (uint64_t)sosc_h_jump;
}

void sosc_instrument_nothing(struct sosc_instrument *instrument)
{
	instrument->handler = handler;
}
"""
_NUMBER = layout.INSTRUMENT_KINDS
_ROWS = {  # file -> (what stands there, what comes instead)
    "agent/include/soscope/wire.h": (
        f"SOSC_INSTRUMENT_KINDS = {_NUMBER},",
        f"SOSC_INSTRUMENT_NOTHING = {_NUMBER}, SOSC_INSTRUMENT_KINDS = {_NUMBER + 1},",
    ),
    "agent/src/instrument.h": ("ONE(GUARD, guard)", "ONE(GUARD, guard) ONE(NOTHING, nothing)"),
    "src/soscope/wire/layout.py": (
        f"INSTRUMENT_KINDS = {_NUMBER}",
        f"INSTRUMENT_KINDS = {_NUMBER + 1}",
    ),
}
# Counts calls of labs in the command that follows; NUMBER... are the agent's instruments.
_START = """
import sys
from soscope.control.instrument import Hooks, Instrument
from soscope.control.session import Session
from soscope.control.settings import SessionSettings
from soscope.prototypes import load
from soscope.select.filter import compile_selection

def instrument(number):
    made = Instrument()
    made.name = str(number)
    made.hooks = Hooks(number, compile_selection(["labs"]), load())
    return made

numbers = [int(word) for word in sys.argv[1].split(",")]
Session(SessionSettings(sys.argv[2:]), [instrument(number) for number in numbers]).run()
"""
_COUNT = 1  # INSTRUMENT_COUNT of wire/layout.py


def measure(tools: Tools, count: int, bursts: int, say: Callable[[str], None]) -> Table:
    """Measure the row of layers."""
    say("layers")
    table = Table()
    place = _build(tools)
    start = os.path.join(place, "start.py")
    with open(start, "w", encoding="utf-8") as file:
        file.write(f"import sys; sys.path.insert(0, {os.path.join(place, 'src')!r})\n{_START}")
    calls = workload(tools, "one", 1, bursts, slow=False)

    def timer(*numbers: int) -> Callable[[], float]:
        command = [sys.executable, start, ",".join(map(str, numbers)), *calls]
        return lambda: typical(run(command, timeout=60).output)

    figures, failed = rounds(count, {"count": timer(_COUNT), "both": timer(_NUMBER, _COUNT)})
    table.failed(failed)
    base = figures["count"]
    table.rows.append(
        Row(
            "a layer that does nothing, on top of `--count-only`",
            1.5,
            figures["both"].minus(base) if "both" in figures else None,
            base=base,
        )
    )
    return table


def _build(tools: Tools) -> str:
    """Build soscope with an instrument that does nothing; return its folder."""
    import soscope

    place = tools.path("layers")
    package = os.path.join(place, "src", "soscope")
    shutil.copytree(os.path.join(TOP, "agent"), os.path.join(place, "agent"))
    shutil.copytree(os.path.dirname(soscope.__file__), package)
    for name, (before, after) in _ROWS.items():
        path = os.path.join(place, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert before in text, f"{name}: {before}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after, 1))
    with open(os.path.join(place, "agent", "src", "nothing.c"), "w", encoding="utf-8") as file:
        file.write(_NOTHING)
    build = os.path.join(place, "agent", "build.sh")
    run(["sh", build, os.path.join(package, "_agent")], timeout=120)
    return place
