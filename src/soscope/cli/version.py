# SPDX-License-Identifier: Apache-2.0
"""What `soscope --version` prints: the version, and what was built in and found."""

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
    lines = [
        f"soscope {__version__}",
        f"python {python} on {system.sysname} {system.release} {system.machine}",
        f"agent: {agent if os.path.exists(agent) else 'none in this installation: no tracing'}",
    ]
    if find_spec("numpy") is None:
        lines.append("missing: numpy")
    return "\n".join(lines) + "\n"
