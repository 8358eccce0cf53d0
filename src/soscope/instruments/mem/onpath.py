# SPDX-License-Identifier: Apache-2.0
"""How a Python that soscope starts finds `soscope_mem`, whether it is installed there or not.

The agent runs a few lines of Python in it, before objects are counted. They put a finder behind
all others, which knows this package alone, and tells it where the agent's file is: the program
may load that as a library, too. So neither the environment nor `sys.path` differs from
that of a program that nobody looks at, and what the program itself has installed comes first.
"""

from __future__ import annotations

import os
import sys

from soscope.entry.agent.blob import agent_path

_PACKAGE = "soscope_mem"
_SOURCE = """\
import sys
class SoscopeFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != {package!r}:
            return None
        from importlib.machinery import PathFinder
        spec = PathFinder.find_spec(name, [{folder}])
        if spec is not None:
            spec.loader_state = {agent}
        return spec
sys.meta_path.append(SoscopeFinder)
"""


def finder_source() -> bytes:
    """Return the lines, with a NUL behind them; b"" where this soscope has no such package."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, _PACKAGE, "__init__.py")):
            source = _SOURCE.format(
                package=_PACKAGE,
                folder=ascii(os.path.abspath(folder)),
                agent=ascii(os.path.abspath(agent_path())),
            )
            return source.encode() + b"\0"
    return b""
