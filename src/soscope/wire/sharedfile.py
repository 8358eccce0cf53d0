# SPDX-License-Identifier: Apache-2.0
"""The shared memory files behind a control block and its plan.

They are sparse and have no names, so nothing is left behind whoever dies. Their sizes are sealed:
if the target could cut a file, a look at the missing part would end soscope with SIGBUS. Pages
of a block can still be given back, and then read as zeros. A limit on file sizes (`ulimit -f`)
counts for the files too, although they take no disk.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os

from soscope.errors import NoSharedMemory

_NAME = "soscope"
MAPPED = f"/memfd:{_NAME}"  # how the path of a mapping begins
_MFD_CLOEXEC, _MFD_ALLOW_SEALING = 1, 2
_MFD_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it
# What memfd_create(2) is called with: the first that the system takes.
FLAGS = (
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_NOEXEC_SEAL,
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING,
)
_PROT = mmap.PROT_READ | mmap.PROT_WRITE
SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(size: int, seals: int = SIZE_SEALS) -> int:
    """Return the descriptor of a new shared memory file of `size` bytes, close-on-exec.

    `seals` are flags of fcntl(2), F_ADD_SEALS. With 0 the caller seals the file later. Raises
    NoSharedMemory if the system has no shared memory, or if a limit forbids so much.
    """
    descriptor = _open()
    resize(descriptor, size, seals if takes_seals(descriptor) else 0)
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


class Mapped:
    """A mapping of a file that belongs to the mapping from here on.

    `fd` is its descriptor. Descriptors may be few, and a mapping keeps a duplicate of its own: that
    one is used, if it is known which one it is, and the other one is closed.
    """

    __slots__ = ("_is_apart", "fd", "mapping")

    def __init__(self, descriptor: int, size: int, prot: int = _PROT) -> None:
        """Map `size` bytes. Raises OSError and MemoryError, with nothing closed."""
        number = os.dup(descriptor)
        os.close(number)  # the mapping gets the lowest one that is free, too
        self.mapping = mmap.mmap(descriptor, size, prot=prot)
        try:
            self._is_apart = not os.path.samestat(os.fstat(number), os.fstat(descriptor))
        except OSError:  # another thread was quicker, or a mapping keeps none
            self._is_apart = True
        self.fd = descriptor
        if not self._is_apart:
            os.close(descriptor)
            self.fd = number

    def close(self) -> None:
        """Unmap and close. Raises BufferError if a view is left; then both go with it."""
        if self._is_apart:
            os.close(self.fd)
            self._is_apart = False
        self.fd = -1
        self.mapping.close()


def seal_content(descriptor: int) -> None:
    """Let nobody change a file of ours any more. Raises OSError.

    If somebody has it mapped to write to it, the size is all that can be sealed.
    """
    if not takes_seals(descriptor):
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS | fcntl.F_SEAL_WRITE)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS)


def takes_seals(descriptor: int) -> bool:
    """Return whether a file is a memory file; one on tmpfs takes no seals."""
    return not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL


def refusal(do: str, size: int, reason: str, number: int | None) -> NoSharedMemory:
    """Return the error of who could not create or map `size` bytes; `number` is the errno."""
    amount = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
    return NoSharedMemory(f"cannot {do} {amount} of shared memory: {reason}", errno=number)


def not_mapped(size: int, error: BaseException) -> NoSharedMemory:
    """Return the error of who could not map `size` bytes because of `error`."""
    number = getattr(error, "errno", None) or errno.ENOMEM
    return refusal("map", size, os.strerror(number).lower(), number)


def _open() -> int:
    reason = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    for flags in FLAGS:
        try:
            return os.memfd_create(_NAME, flags)
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
