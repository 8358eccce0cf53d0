# SPDX-License-Identifier: Apache-2.0
"""The output of `soscope --version`: the version, and the parts of this installation."""

from __future__ import annotations

import os
import sys

from soscope import __version__


def version_text() -> str:
    """Return the version and what this installation can do."""
    from importlib.util import find_spec

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    agent = os.path.join(package, "_agent", "libsoscope-agent.so")
    python = ".".join(map(str, sys.version_info[:3]))
    system = os.uname()
    has_agent = os.path.exists(agent)
    lines = [
        f"soscope {__version__}",
        f"python {python} on {system.sysname} {system.release} {system.machine}",
        f"agent: {agent if has_agent else _without_agent(system.machine)}",
    ]
    if find_spec("numpy") is None:
        lines.append("missing: numpy")
    return "\n".join(lines) + "\n"


def _without_agent(machine: str) -> str:
    from soscope.entry.native.isa import machine_of
    from soscope.model.arch import arch_here

    here = arch_here()
    if here is None or here.has_agent:
        return "none in this installation: no tracing"
    how = "calls cannot be traced" if machine_of(here) is None else "calls are seen by breakpoints"
    return f"none is made for {machine}: {how}"
