# SPDX-License-Identifier: Apache-2.0
"""The shared memory file behind a control block.

It is sparse and has no name, so nothing is left behind whoever dies. Its size is sealed: if
the target could cut the file, a look at the missing part would end soscope with SIGBUS. Pages
can still be given back, and then read as zeros. A limit on file sizes (`ulimit -f`) counts for
the file too, although it takes no disk.
"""

from __future__ import annotations

import errno
import fcntl
import os

from soscope.errors import NoSharedMemory

_MFD_CLOEXEC, _MFD_ALLOW_SEALING = 1, 2
_MFD_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it
# What memfd_create(2) is called with: the first that the system takes.
FLAGS = (
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_NOEXEC_SEAL,
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING,
)
SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(size: int, seals: int = SIZE_SEALS) -> int:
    """Return the descriptor of a new shared memory file of `size` bytes, close-on-exec.

    `seals` are flags of fcntl(2), F_ADD_SEALS. With 0 the caller seals the file later. Raises
    NoSharedMemory if the system has no shared memory, or if a limit forbids so much.
    """
    descriptor = _open()
    resize(descriptor, size, seals if _takes_seals(descriptor) else 0)
    return descriptor


def resize(descriptor: int, size: int, seals: int = SIZE_SEALS) -> None:
    """Give a new file its size and its seals. On failure close it and raise NoSharedMemory."""
    try:
        _resize(descriptor, size)
        if seals:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        if os.fstat(descriptor).st_size != size:  # whoever shares it was quicker than the seals
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    except OSError as error:
        os.close(descriptor)
        reason = (error.strerror or "").lower()
        if error.errno == errno.EFBIG:
            reason = "the limit on file sizes (ulimit -f) is lower"
        raise refusal("create", size, reason, error.errno) from error


def seal_content(descriptor: int) -> None:
    """Let nobody change a file of ours any more. Raises OSError.

    If somebody has it mapped to write to it, the size is all that can be sealed.
    """
    if not _takes_seals(descriptor):
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS | fcntl.F_SEAL_WRITE)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS)


def _takes_seals(descriptor: int) -> bool:
    """Return whether a file is a memory file; one on tmpfs takes no seals."""
    return not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL


def refusal(do: str, size: int, reason: str, number: int | None) -> NoSharedMemory:
    """Return the error of who could not create or map `size` bytes; `number` is the errno."""
    amount = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
    return NoSharedMemory(f"cannot {do} {amount} of shared memory: {reason}", errno=number)


def _open() -> int:
    reason = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    for flags in FLAGS:
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
