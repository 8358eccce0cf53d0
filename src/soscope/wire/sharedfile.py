# SPDX-License-Identifier: Apache-2.0
"""The shared memory file behind a control block.

It is sparse and has no name, so nothing is left behind whoever dies. A limit on file sizes
(`ulimit -f`) counts for it too, although it takes no disk.
"""

from __future__ import annotations

import errno
import os

from soscope.errors import NoSharedMemory

_MFD_CLOEXEC = 1
_MFD_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it


def create(size: int) -> int:
    """Return the descriptor of a new shared memory file of `size` bytes, close-on-exec.

    Raises NoSharedMemory where the system has none or a limit is in the way.
    """
    descriptor = _open()
    resize(descriptor, size)
    return descriptor


def resize(descriptor: int, size: int) -> None:
    """Give a new file its size; closes it where that fails, and raises NoSharedMemory."""
    try:
        _resize(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        reason = (error.strerror or "").lower()
        if error.errno == errno.EFBIG:
            reason = "the limit on file sizes (ulimit -f) is lower"
        raise refusal("create", size, reason, error.errno) from error


def refusal(do: str, size: int, reason: str, number: int | None) -> NoSharedMemory:
    """Return the error of who could not create or map `size` bytes; `number` is the errno."""
    amount = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
    return NoSharedMemory(f"cannot {do} {amount} of shared memory: {reason}", errno=number)


def _open() -> int:
    reason = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    for flags in (_MFD_CLOEXEC | _MFD_NOEXEC_SEAL, _MFD_CLOEXEC):
        try:
            return os.memfd_create("soscope", flags)
        except OSError as error:
            reason = error
    # A seccomp filter may not know memfd_create; an unnamed file on tmpfs is the same thing.
    try:
        # no name in a folder that all may write to: nobody can guess it
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)  # noqa: S108
    except OSError:
        raise NoSharedMemory(
            f"cannot create shared memory: {(reason.strerror or '').lower()}", errno=reason.errno
        ) from reason


def _resize(descriptor: int, size: int) -> None:
    """Give the file its size, lifting our own limit on file sizes for the moment.

    Later stores through mappings are not checked against the limit, so the program that
    inherits it can use the file.
    """
    try:
        os.ftruncate(descriptor, size)  # Python ignores SIGXFSZ
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
    else:
        return
    import resource  # rarely needed

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    unlimited = resource.RLIM_INFINITY
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
    except (OSError, ValueError):  # only root may raise the hard limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (before[1], before[1]))
    try:
        os.ftruncate(descriptor, size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
