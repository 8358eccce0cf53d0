# SPDX-License-Identifier: Apache-2.0
"""Files that a program names for its counts: new ones, or the user's own.

They tell what a service does, and a service often runs as root, with files in a folder that all
may write to. There another user may have put a link to a file of root's in the place of such a
file, or a file that the other user can read. So a new file is readable by its owner alone, a link
is followed only if it is root's or the user's, and somebody else's file is refused.
"""

from __future__ import annotations

import errno
import os
import stat

_MODE = 0o600

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def opener(path: Any, flags: int) -> int:
    """Open a file for writing, as the `opener` of open(). Raises OSError.

    >>> with open("/dev/null", "w", opener=opener) as file:
    ...     file.write("one line")
    8
    """
    try:
        return os.open(path, flags | os.O_EXCL, _MODE)
    except FileExistsError:
        there = os.lstat(path)
    if stat.S_ISLNK(there.st_mode) and there.st_uid in (0, os.geteuid()):
        return os.open(path, flags, _MODE)
    _refuse_others(there, path)  # to open a pipe may wait for its reader
    descriptor = os.open(path, flags | os.O_NOFOLLOW)
    try:
        _refuse_others(os.fstat(descriptor), path)
    except PermissionError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_others(status: os.stat_result, path: Any) -> None:
    if not stat.S_ISCHR(status.st_mode) and status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, f"it belongs to user {status.st_uid}", path)
