# SPDX-License-Identifier: Apache-2.0
"""How a Python that soscope starts finds `soscope_mem`, also if it is not installed there.

The agent runs a few lines of Python in the program before objects are counted. They add a finder
behind all others, which knows only this package, and tell the package the path of the agent's
file, because the program may load the agent as a library, too. So the environment and `sys.path`
are the same as without soscope, and packages that the program has installed itself come first.
"""

from __future__ import annotations

import os
import sys

from soscope.entry.agent.install import agent_path

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
    """Return the Python lines with a NUL behind them, b"" if this soscope lacks the package."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, _PACKAGE, "__init__.py")):
            source = _SOURCE.format(
                package=_PACKAGE,
                folder=ascii(os.path.abspath(folder)),
                agent=ascii(os.path.abspath(agent_path())),
            )
            return source.encode() + b"\0"
    return b""
