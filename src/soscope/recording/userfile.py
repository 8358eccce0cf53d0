# SPDX-License-Identifier: Apache-2.0
"""Open the files that soscope will write: new files, or existing files of the user.

soscope's output contains arguments of calls, and soscope often runs as root. In a folder that all
users may write to, another user may have put something in place of a file that root is about to
write: a link to a file of root's, or a file or pipe that the other user can read. So a new file
is readable only by its owner, a link is followed only if it belongs to root or the user, and
another user's file or pipe is refused. A file that the user has open already (`/dev/stdout`,
`/dev/fd/63`) is used as it is.
"""

from __future__ import annotations

import errno
import os
import stat

_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
_MODE = 0o600
_STDERR = 2
_MOST_LINKS = 40  # as many links as the kernel follows


def open_to_write(path: str, flags: int = 0) -> tuple[int, bool]:
    """Open or make a file for writing. Return its descriptor, and whether it is new.

    The content of the file stays. The descriptor is never 0, 1 or 2: if soscope was started with
    one of them closed, the target inherits it closed. Raises OSError; PermissionError if the file
    is another user's, or if another user's link leads to it (symlink(7)).

    >>> import os
    >>> from soscope.recording.userfile import open_to_write
    >>> descriptor, is_new = open_to_write("/dev/null")
    >>> os.close(descriptor)
    >>> is_new
    False
    """
    place = end_of_links(path)
    try:
        return above_stderr(os.open(place, _FLAGS | flags | os.O_CREAT | os.O_EXCL, _MODE)), True
    except FileExistsError:
        pass
    if _is_descriptor(place):
        return above_stderr(os.open(place, _FLAGS | flags)), False
    # Opening a pipe without a reader waits, so its owner is checked before.
    file = os.open(place, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        status = os.fstat(file)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))  # the link did not exist before
        is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
        if not is_device and status.st_uid != os.geteuid():
            raise _of_somebody_else("it belongs", status.st_uid)
        try:
            descriptor = os.open(f"/proc/self/fd/{file}", _FLAGS | flags)
        except FileNotFoundError:  # no /proc
            descriptor = os.open(place, _FLAGS | flags | os.O_NOFOLLOW)
        return above_stderr(descriptor), False
    finally:
        os.close(file)


def above_stderr(descriptor: int) -> int:
    """Move a descriptor above the numbers of the standard streams. Raises OSError."""
    if descriptor > _STDERR:
        return descriptor
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    finally:
        os.close(descriptor)


def end_of_links(path: str) -> str:
    """Follow the links at `path`, and return the path of the file behind them.

    Raises OSError; PermissionError if one of the links is another user's.
    """
    for _ in range(_MOST_LINKS):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return path
        if not stat.S_ISLNK(status.st_mode) or _is_descriptor(path):
            return path
        if status.st_uid not in (0, os.geteuid()):
            raise _of_somebody_else("it is a link that belongs", status.st_uid)
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_descriptor(path: str) -> bool:
    """Return whether a path denotes an open file of a process, as /proc/PID/fd/N does."""
    return os.path.realpath(os.path.dirname(path)).startswith("/proc/") and os.path.islink(path)


def _of_somebody_else(what: str, owner: int) -> PermissionError:
    return PermissionError(errno.EACCES, f"{what} to user {owner}")
