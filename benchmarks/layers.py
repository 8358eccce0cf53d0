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
#include "call/handler.h"
#include "base/instrument.h"

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
    "native/include/soscope/wire.h": (
        f"SOSC_INSTRUMENT_KINDS = {_NUMBER},",
        f"SOSC_INSTRUMENT_NOTHING = {_NUMBER}, SOSC_INSTRUMENT_KINDS = {_NUMBER + 1},",
    ),
    "native/agent/base/instrument.h": (
        "ONE(GUARD, guard)",
        "ONE(GUARD, guard) ONE(NOTHING, nothing)",
    ),
    "src/soscope/wire/layout.py": (
        f"INSTRUMENT_KINDS = {_NUMBER}",
        f"INSTRUMENT_KINDS = {_NUMBER + 1}",
    ),
}
# Counts calls of labs in the command that follows; NUMBER... are the agent's instruments.
_START = """
import sys
from soscope.control.settings import Hooks, Instrument
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
COUNT = 1  # INSTRUMENT_COUNT of wire/layout.py


def measure(tools: Tools, count: int, bursts: int, say: Callable[[str], None]) -> Table:
    """Measure the row of layers."""
    say("layers")
    table = Table()
    shutil.copytree(_original("src/soscope/"), tools.path("layers/src/soscope"))
    place = sources(tools)
    build = os.path.join(place, "native", "build.sh")
    run(["sh", build, os.path.join(place, "src", "soscope", "_agent")], timeout=120)
    source = os.path.join(place, "src")
    cases = {
        "count": timer(tools, source, bursts, COUNT),
        "both": timer(tools, source, bursts, _NUMBER, COUNT),
    }
    figures, failed = rounds(count, cases)
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


def timer(tools: Tools, source: str, bursts: int, *numbers: int) -> Callable[[], float]:
    """Return what times calls through instruments of the soscope whose package is in a folder."""
    start = tools.fresh("layers-start")
    with open(start, "w", encoding="utf-8") as file:
        file.write(f"import sys; sys.path.insert(0, {source!r})\n{_START}")
    calls = workload(tools, "one", 1, bursts, slow=False)
    command = [sys.executable, start, ",".join(map(str, numbers)), *calls]
    return lambda: typical(run(command, timeout=60).output)


def sources(tools: Tools) -> str:
    """Write the agent's files, and those of ours that know of an instrument that does nothing."""
    place = tools.path("layers")
    agent = os.path.join(place, "native")
    shutil.copytree(os.path.join(TOP, "native"), agent)
    for name, (before, after) in _ROWS.items():
        with open(_original(name), encoding="utf-8") as file:
            text = file.read()
        assert before in text, f"{name}: {before}"
        path = os.path.join(place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after, 1))
    os.mkdir(os.path.join(agent, "agent", "nothing"))
    name = os.path.join(agent, "agent", "nothing", "nothing.c")
    with open(name, "w", encoding="utf-8") as file:
        file.write(_NOTHING)
    return place


def _original(name: str) -> str:
    """Return the path of a file of the agent, or of the soscope that runs this."""
    import soscope

    package = f"src{os.sep}soscope{os.sep}"
    if name.startswith(package):
        return os.path.join(os.path.dirname(soscope.__file__), name.removeprefix(package))
    return os.path.join(TOP, name)
