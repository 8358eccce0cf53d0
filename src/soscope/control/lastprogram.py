# SPDX-License-Identifier: Apache-2.0
"""Find the last program of an ended process that was not traced, from its process name.

The kernel names a process after the file that it executes, until the process chooses another
name. So a name that differs from the one at the start of the first program is the name of another
program only if there is such a program. It is looked for in PATH, and also beside the first
program if that is not known to have chosen a name.
"""

from __future__ import annotations

import os

from soscope.control.program import Program
from soscope.proc.status import comm

_LONGEST = 15  # bytes of a process name that the kernel keeps


def program_at_end(
    pid: int, first: Program, announced: str = "", *, may_be_renamed: bool = True
) -> str | None:
    """Return the path of the program as which process `pid` has ended, or None.

    None means that the program is not known, that it is the `first` one, or that the process has
    not ended. The process can still be waited for. `announced` is the path or name of a program
    that it was about to execute. `may_be_renamed` is set if the first program may have chosen a
    name.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None  # another part of soscope has waited for it
    name = comm(pid) if ended is not None else ""
    if name != first.name and announced and name == os.path.basename(announced)[:_LONGEST]:
        return announced
    return program_of(name, first, may_be_renamed=may_be_renamed)


def program_of(name: str, first: Program, *, may_be_renamed: bool) -> str | None:
    """Return the path of the program whose process is named `name` (see `program_at_end`)."""
    if not name or name == first.name or "/" in name:
        return None
    if len(os.fsencode(name)) >= _LONGEST:
        return None  # a longer name is cut off
    folders = os.get_exec_path()
    if not may_be_renamed:
        folders += [os.path.dirname(first.path), os.curdir]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
