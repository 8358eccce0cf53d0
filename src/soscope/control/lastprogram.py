# SPDX-License-Identifier: Apache-2.0
"""Which program a process has ended as that nobody traced: all that is left of it is its name.

The kernel calls a process as the file that it executes, until that chooses another name. So a name
that the process had not when its first program began is that of another program, if the first one
is known to have chosen none, or if a program of that name can be found.
"""

from __future__ import annotations

import os

from soscope.proc.named import comm

_LONGEST = 15  # bytes of a name that the kernel keeps


def program_at_end(
    pid: int, first: str, announced: str = "", *, may_be_renamed: bool = True
) -> str | None:
    """Return the path of the program as which process `pid` has ended, None: nobody can tell.

    If no path is known it is the name. Or it was the one whose process was called `first`, or the
    process has not ended. It stays to be waited for. `announced` is the path or name of a program
    that it has been about to execute. `may_be_renamed`: the first program may have chosen a name.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None  # somebody else has waited for it
    name = comm(pid) if ended is not None else ""
    if name != first and announced and name == os.path.basename(announced)[:_LONGEST]:
        return announced
    if not name or name == first:
        return None
    is_whole = len(os.fsencode(name)) < _LONGEST  # the rest of a longer one is lost
    path = _found(name) if is_whole else None
    return path if path or may_be_renamed else name


def _found(name: str) -> str | None:
    """Return the first executable file of a name in the folders of PATH."""
    if not name or "/" in name:
        return None
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
