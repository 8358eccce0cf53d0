# SPDX-License-Identifier: Apache-2.0
"""Which program a process has ended as that nobody traced: all that is left of it is its name.

The kernel calls a process as the file that it executes, until that chooses another name. So a name
that a program can be found by, and that the process had not when its first program began, is that
of another program.
"""

from __future__ import annotations

import os

from soscope.proc.named import comm

_LONGEST = 15  # bytes of a name that the kernel keeps


def program_at_end(pid: int, first: str, announced: str = "") -> str | None:
    """Return the path of the program as which process `pid` has ended, None: nobody can tell.

    Or it was the one whose process was called `first`, or the process has not ended. It stays to
    be waited for. `announced` is the path or name of a program that it has been about to execute.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None  # somebody else has waited for it
    name = comm(pid) if ended is not None else ""
    if name != first and announced and name == os.path.basename(announced)[:_LONGEST]:
        return announced
    if name == first or len(os.fsencode(name)) >= _LONGEST:  # the rest of a longer one is lost
        return None
    return _found(name)


def _found(name: str) -> str | None:
    """Return the first executable file of a name in the folders of PATH."""
    if not name or "/" in name:
        return None
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
