# SPDX-License-Identifier: Apache-2.0
"""What was measured on: versions of everything that has a part in the figures."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from benchmarks.measure import Failed, run
from benchmarks.python_json import PYTHON
from benchmarks.tools import TOP, Tools, version_of


def _cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
    found = {name.strip(): value.strip() for name, value in fields.items()}
    kind = f"family {found.get('cpu family')}, model {found.get('model')}"
    return f"{found.get('model name', '?')} ({kind})"


def _commit() -> str:
    words = ["git", "-C", TOP, "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "?"
    return found.stdout.strip() or "?"


def _soscope(tools: Tools) -> str:
    return f"{version_of([*tools.soscope, '--version'])} ({_commit()})"


def clock_costs(tools: Tools) -> tuple[float, float]:
    """Return nanoseconds of one rdtsc, and of an untraced call through a PLT."""
    try:
        clock, call = run([tools.path("clock")]).output.split()
    except (Failed, ValueError):
        return 0.0, 0.0
    return float(clock), float(call)


def describe(tools: Tools) -> list[tuple[str, str]]:
    """Return (what, version) pairs."""
    found = [
        ("machine", f"{os.cpu_count()} processors, {_cpu()}"),
        ("kernel", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("C library", version_of(["ldd", "--version"])),
        ("compiler of the workloads", version_of([os.environ.get("CC") or "gcc", "--version"])),
        ("soscope", _soscope(tools)),
        ("soscope runs under", f"Python {platform.python_version()} ({sys.implementation.name})"),
        ("json and many images under", f"{PYTHON}, {version_of([PYTHON, '--version'])}"),
    ]
    commands = {
        "uftrace": ["uftrace", "--version"],
        "ltrace": ["ltrace", "--version"],
        "gdb": ["gdb", "--version"],
        "lldb": ["lldb", "--version"],
        "drgn": [tools.drgn_python, "-c", "import drgn; print(drgn.__version__)"],
        "frida": [tools.frida_python, "-c", "import frida; print(frida.__version__)"],
    }
    found += [(peer, version_of(commands[peer])) for peer in tools.peers if peer in commands]
    if "audit" in tools.peers:
        found.append(("LD_AUDIT", "benchmarks/targets/audit.c: the clock and 32 bytes an event"))
    found += [(peer, why) for peer, why in tools.missing.items()]
    return found
