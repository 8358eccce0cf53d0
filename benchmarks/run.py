# SPDX-License-Identifier: Apache-2.0
"""Measure what soscope costs, beside its peers, and write RESULTS.md.

python3 benchmarks/run.py [--quick] [--peers uftrace,ltrace,audit,frida,gdb,lldb,drgn,…] [-o FILE]

Changes nothing on the machine: no frequency is fixed, no processor reserved. On a machine
that does other things, too, look at the least of the rounds as well, and run it again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile

if __package__ in (None, ""):
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from benchmarks import (
    attach,
    calls,
    cost,
    emulated,
    heaps,
    hook,
    inject,
    layers,
    machine,
    memory,
    memstart,
    native,
    objects,
    patch,
    prof,
    prof_sampling,
    python_json,
    reading,
    resolve,
    results,
    startup,
    staticmap,
    stream,
    sweep,
)
from benchmarks.measure import Failed
from benchmarks.rows import Table
from benchmarks.tools import HERE, PEERS, TOP, Tools

PARTS = [
    "calls", "layers", "inject", "patch", "hook", "objects", "heaps", "sweep", "prof", "json",
    "stream", "reading", "memory", "startup", "memstart", "sampling", "resolve", "attach", "map",
    "emulated",
    "native", "cost",
]  # fmt: skip


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (5)")
    parser.add_argument(
        "--peers",
        default=",".join(PEERS),
        help="which to measure beside soscope, of %(default)s; '' for none",
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, of %(default)s")
    parser.add_argument(
        "--frida-python", default=sys.executable, help="an interpreter that has the package frida"
    )
    parser.add_argument(
        "--drgn-python", default=sys.executable, help="an interpreter that has the package drgn"
    )
    parser.add_argument(
        "--memray-python",
        default=sys.executable,
        help="an interpreter that has the packages memray and scalene",
    )
    parser.add_argument("--ppc64el", help="where a Debian of ppc64el is unpacked, for `emulated`")
    parser.add_argument("-o", "--output", default=os.path.join(HERE, "RESULTS.md"))
    return parser.parse_args()


def _measure(
    tools: Tools, parts: list[str], count: int, *, quick: bool, ppc64el: str | None
) -> list[Table]:
    tables = []
    if "calls" in parts:
        tables.append(calls.measure(tools, count, 2 if quick else 5, _say))
    if "layers" in parts:
        tables.append(layers.measure(tools, count, 2 if quick else 5, _say))
    if "inject" in parts:
        tables.append(inject.measure(tools, count, 2 if quick else 5, _say))
    if "patch" in parts:
        tables.append(patch.measure(tools, count, 2 if quick else 5, _say))
    if "hook" in parts:
        tables.append(hook.measure(tools, count, 21, _say))
    if "objects" in parts:
        tables.append(objects.measure(tools, count, _say))
    if "heaps" in parts:
        tables.append(heaps.measure(tools, count, _say))
    if "sweep" in parts:
        tables.append(sweep.measure(tools, count, _say))
    if "prof" in parts:
        tables.append(prof.measure(tools, count, 5 if quick else 15, _say))
    if "json" in parts:
        tables.append(python_json.measure(tools, count, _say))
    if "stream" in parts:
        tables.append(stream.measure(tools, count, 1_000_000 if quick else 8_000_000, _say))
    if "reading" in parts:
        tables.append(reading.measure(tools, count, (2 if quick else 10) * 1_000_000, _say))
    if "startup" in parts:
        tables.append(startup.measure(tools, count if quick else 3 * count, _say))
    if "memstart" in parts:
        tables.append(memstart.measure(tools, count if quick else 3 * count, _say))
    if "sampling" in parts:
        tables.append(prof_sampling.measure(tools, count, _say))
    if "memory" in parts:
        tables.append(memory.measure(tools, count, _say))
    if "resolve" in parts:
        tables.append(resolve.measure(tools, count, _say))
    if "attach" in parts:
        tables.append(attach.measure(tools, count, _say, quick=quick))
    if "map" in parts:
        tables.append(staticmap.measure(tools, count, _say))
    if "emulated" in parts:
        tables.append(emulated.measure(tools, count, _say, ppc64el))
    if "native" in parts:
        tables.append(native.measure(tools, count, _say))
    if "cost" in parts:
        tables.append(cost.measure(tools, count, _say))
    return tables


def _remarks(tools: Tools, loads: tuple[float, float]) -> list[str]:
    clock, call = machine.clock_costs(tools)
    costs = f"One rdtsc takes {clock:.1f} ns here, an untraced call through a PLT {call:.1f} ns."
    load = (
        f"Load of the machine (1 minute): {loads[0]:.1f} at the start, {loads[1]:.1f} at the end."
    )
    return [f"{costs} A record contains one rdtsc, an entry with its exit two.", load]


def main() -> int:
    """Run the benchmarks; return the exit status."""
    arguments = _arguments()
    count = arguments.rounds or (2 if arguments.quick else 5)
    # Bytecode is what an installed soscope has, too.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.path.append(os.path.join(TOP, "src"))  # behind an installed one
    # where this machine keeps a peer is nobody's business
    words = [os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="soscope-bench-") as work:
        peers = [peer for peer in arguments.peers.split(",") if peer]
        tools = Tools(
            work,
            peers,
            arguments.frida_python,
            arguments.drgn_python,
            arguments.memray_python,
        )
        try:
            tools.build()
        except Failed as error:
            _say(f"the workloads cannot be built: {error}")
            return 2
        before = os.getloadavg()[0]
        tables = _measure(
            tools,
            arguments.parts.split(","),
            count,
            quick=arguments.quick,
            ppc64el=arguments.ppc64el,
        )
        results.write(
            arguments.output,
            tables,
            command=shlex.join(["python3", "benchmarks/run.py", *words]),
            rounds=count,
            machine=machine.describe(tools),
            remarks=_remarks(tools, (before, os.getloadavg()[0])),
        )
    _say(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
