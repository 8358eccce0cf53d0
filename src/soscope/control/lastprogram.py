# SPDX-License-Identifier: Apache-2.0
"""Which program a process has ended as that nobody traced: all that is left of it is its name.

The kernel calls a process as the file that it executes, until that chooses another name. So a name
that the process had not when its first program began is that of another program only if there is
such a program: in PATH, or beside the first one if that is not known to have chosen a name.
"""

from __future__ import annotations

import os

from soscope.control.program import Program
from soscope.proc.named import comm

_LONGEST = 15  # bytes of a name that the kernel keeps


def program_at_end(
    pid: int, first: Program, announced: str = "", *, may_be_renamed: bool = True
) -> str | None:
    """Return the path of the program as which process `pid` has ended, None: nobody can tell.

    Or it was the `first` one, or the process has not ended. It stays to be waited for. `announced`
    is the path or name of a program that it has been about to execute. `may_be_renamed`: the first
    program may have chosen a name.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None  # somebody else has waited for it
    name = comm(pid) if ended is not None else ""
    if name != first.name and announced and name == os.path.basename(announced)[:_LONGEST]:
        return announced
    return program_of(name, first, may_be_renamed=may_be_renamed)


def program_of(name: str, first: Program, *, may_be_renamed: bool) -> str | None:
    """Return the path of the program whose process is called `name`; see `program_at_end`."""
    if not name or name == first.name or "/" in name:
        return None
    if len(os.fsencode(name)) >= _LONGEST:
        return None  # the rest of a longer one is lost
    folders = os.get_exec_path()
    if not may_be_renamed:
        folders += [os.path.dirname(first.path), os.curdir]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
