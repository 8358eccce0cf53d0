# SPDX-License-Identifier: Apache-2.0
"""The memory files of a session: files shared with the targets, and the plan file."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os

from soscope.errors import NoSharedMemory
from soscope.wire import layout

# The shared memory files of a control block and its plan.
#
# They are sparse and have no names, so that nothing is left behind if a process dies. Their sizes
# are sealed. If the target could shorten a file, soscope would die of SIGBUS when it accesses the
# missing part. Pages of a block can still be given back to the kernel, and then read as zeros. A
# limit on file sizes (`ulimit -f`) also applies to these files, although they take no disk space.

_NAME = "soscope"
MAPPED = f"/memfd:{_NAME}"  # start of the path of a mapping
_MFD_CLOEXEC, _MFD_ALLOW_SEALING = 1, 2
_MFD_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it
# Flags of memfd_create(2). The first ones that the kernel accepts are used.
FLAGS = (
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_NOEXEC_SEAL,
    _MFD_CLOEXEC | _MFD_ALLOW_SEALING,
)
_PROT = mmap.PROT_READ | mmap.PROT_WRITE
SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(size: int, seals: int = SIZE_SEALS) -> int:
    """Return the descriptor of a new shared memory file of `size` bytes, close-on-exec.

    `seals` are flags of fcntl(2), F_ADD_SEALS. If it is 0, the caller seals the file later. If
    the system has no shared memory, or if a limit forbids this size, raise NoSharedMemory.
    """
    descriptor = _open()
    resize(descriptor, size, seals if takes_seals(descriptor) else 0)
    return descriptor


def resize(descriptor: int, size: int, seals: int = SIZE_SEALS) -> None:
    """Set the size and the seals of a new file. On failure close it and raise NoSharedMemory."""
    try:
        _resize(descriptor, size)
        if seals:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        if os.fstat(descriptor).st_size != size:  # another process has changed it before the seals
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    except OSError as error:
        os.close(descriptor)
        reason = (error.strerror or "").lower()
        if error.errno == errno.EFBIG:
            reason = "the limit on file sizes (ulimit -f) is lower"
        raise refusal("create", size, reason, error.errno) from error


class Mapped:
    """A mapping of a file. The mapping owns the file from here on.

    `fd` is the file's descriptor. Descriptors may be few, and Python's mmap keeps a duplicate of
    its own. If the number of the duplicate is known, `fd` is the duplicate, and the original is
    closed.
    """

    __slots__ = ("_is_apart", "fd", "mapping")

    def __init__(self, descriptor: int, size: int, prot: int = _PROT) -> None:
        """Map `size` bytes. On failure raise OSError or MemoryError and close nothing."""
        number = os.dup(descriptor)
        os.close(number)  # mmap gets the lowest free number, too
        self.mapping = mmap.mmap(descriptor, size, prot=prot)
        try:
            self._is_apart = not os.path.samestat(os.fstat(number), os.fstat(descriptor))
        except OSError:  # another thread took it, or mmap keeps none
            self._is_apart = True
        self.fd = descriptor
        if not self._is_apart:
            os.close(descriptor)
            self.fd = number

    def close(self) -> None:
        """Unmap and close the file. If a view is left, raise BufferError.

        The view then keeps the mapping and its descriptor until it is released.
        """
        if self._is_apart:
            os.close(self.fd)
            self._is_apart = False
        self.fd = -1
        self.mapping.close()


def seal_content(descriptor: int) -> None:
    """Seal the content of a file of soscope, so that it cannot be changed any more.

    If a process has the file mapped for writing, only its size can be sealed. Raises OSError.
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
    """Return whether a file accepts seals. A memory file does, and a file on tmpfs does not."""
    return not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL


def refusal(do: str, size: int, reason: str, number: int | None) -> NoSharedMemory:
    """Return the error for `size` bytes that could not be made or mapped. `number` is errno."""
    amount = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
    return NoSharedMemory(f"cannot {do} {amount} of shared memory: {reason}", errno=number)


def not_mapped(size: int, error: BaseException) -> NoSharedMemory:
    """Return the error for `size` bytes that could not be mapped because of `error`."""
    number = getattr(error, "errno", None) or errno.ENOMEM
    return refusal("map", size, os.strerror(number).lower(), number)


def _open() -> int:
    reason = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    for flags in FLAGS:
        try:
            return os.memfd_create(_NAME, flags)
        except OSError as error:
            reason = error
    # A seccomp filter may forbid memfd_create. An unnamed file on tmpfs serves as well.
    try:
        # The file has no name in this folder, which everyone may write to.
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)  # noqa: S108
    except OSError:
        raise NoSharedMemory(
            f"cannot create shared memory: {(reason.strerror or '').lower()}", errno=reason.errno
        ) from reason


def _resize(descriptor: int, size: int) -> None:
    """Set the size of the file, and lift soscope's own limit on file sizes for the moment.

    Later stores through mappings are not checked against the limit, so a program that inherits
    the limit can use the file.
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


# The plan's memory file: it tells the agent what to do, and only soscope writes to it.
#
# soscope maps the file, and then seals it with F_SEAL_FUTURE_WRITE. From then on the file can be
# written only through this mapping, whatever the rights of a process are. The target maps the file
# to read it. Before Linux 5.1, or if the file is on tmpfs, the target can also write to it, as to a
# control block.

# Linux 5.1; the module has no name for it
SEALS = SIZE_SEALS | 0x10


class PlanFile:
    """A mapped plan. `fd` is its file, and `size` is its size in bytes.

    If this process has opened the plan after it was sealed, `writer` is (pid, addr) of another
    process of soscope that can write to it. `users` is the number of blocks that use the plan.
    """

    __slots__ = ("_file", "_is_ours", "_u8", "mapping", "size", "users", "writer")

    def __init__(self, fd: int, writer: tuple[int, int] | None = None) -> None:
        """Map the file `fd`. The plan owns the file from here on. Raises OSError and ValueError."""
        self.size = os.fstat(fd).st_size
        self.writer = writer
        self.users = 0
        self._is_ours = True
        try:
            self._file = Mapped(fd, self.size)
        except PermissionError:  # the file is sealed
            self._is_ours = False
            self._file = Mapped(fd, self.size, mmap.PROT_READ)
        self.mapping = self._file.mapping
        self._u8 = memoryview(self.mapping)

    @property
    def fd(self) -> int:
        """The descriptor of the file."""
        return self._file.fd

    @classmethod
    def create(cls, size: int, descriptor: int | None = None) -> PlanFile:
        """Return a new plan of `size` bytes, which is not sealed yet.

        `descriptor` is an empty shared file to use. If it is None, a file is created. Raises
        NoSharedMemory.
        """
        if descriptor is None:
            descriptor = create(size, 0)
        else:
            resize(descriptor, size, 0)
        try:
            return cls(descriptor)
        except (OSError, MemoryError) as error:
            os.close(descriptor)
            raise not_mapped(size, error) from error

    def seal(self) -> None:
        """Seal the file so that only this mapping can write to it.

        It must be called before the target maps the file. If another process has changed the size
        of the file, raise OSError.
        """
        if takes_seals(self.fd):
            try:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SIZE_SEALS)
        if os.fstat(self.fd).st_size != self.size:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    @property
    def is_sealed(self) -> bool:
        """Return whether no other process can write to the file."""
        return not self._is_ours or fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & SEALS == SEALS

    @property
    def addr(self) -> int:
        """The address at which the file is mapped. The mapping must be writable."""
        start = ctypes.c_char.from_buffer(self.mapping)
        addr = ctypes.addressof(start)
        del start  # a reference would keep the mapping from being closed
        return addr

    def close(self) -> None:
        """Close the file and unmap it if no other block uses it."""
        self.users -= 1
        if self.users > 0:
            return
        self._u8.release()
        self._file.close()

    # ---- its bytes ----

    def read(self, at: int, size: int) -> bytes:
        """Return `size` bytes at offset `at`, or fewer at the end of the file."""
        return self.mapping[at : at + size]

    def write(self, at: int, data: bytes) -> bool:
        """Write `data` at offset `at`. Return whether that was possible."""
        if not 0 <= at <= at + len(data) <= self.size:
            return False
        if self._is_ours:
            self._u8[at : at + len(data)] = data
            return True
        return self.writer is not None and self._write_there(*self.writer, at, data)

    def _write_there(self, pid: int, addr: int, at: int, data: bytes) -> bool:
        try:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            try:
                return os.pwrite(memory, data, addr + at) == len(data)
            finally:
                os.close(memory)
        except OSError:
            return False  # the process or thread has ended

    def field(self, name: str) -> int:
        """Return an integer of the first page."""
        at, size, _ = layout.PLAN_HEAD.fields[name]
        return int.from_bytes(self.mapping[at : at + size], "little")

    def set_field(self, name: str, value: int) -> bool:
        """Change an integer of the first page. Return whether that was possible."""
        at, size, _ = layout.PLAN_HEAD.fields[name]
        return self.write(at, value.to_bytes(size, "little"))
