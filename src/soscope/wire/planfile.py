# SPDX-License-Identifier: Apache-2.0
"""The plan's memory file: it tells the agent what to do, and only soscope writes to it.

soscope maps the file, and then seals it with F_SEAL_FUTURE_WRITE. From then on the file can be
written only through this mapping, whatever the rights of a process are. The target maps the file
to read it. Before Linux 5.1, or if the file is on tmpfs, the target can also write to it, as to a
control block.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os

from soscope.wire import layout, sharedfile

# Linux 5.1; the module has no name for it
SEALS = sharedfile.SIZE_SEALS | 0x10


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
            self._file = sharedfile.Mapped(fd, self.size)
        except PermissionError:  # the file is sealed
            self._is_ours = False
            self._file = sharedfile.Mapped(fd, self.size, mmap.PROT_READ)
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
            descriptor = sharedfile.create(size, 0)
        else:
            sharedfile.resize(descriptor, size, 0)
        try:
            return cls(descriptor)
        except (OSError, MemoryError) as error:
            os.close(descriptor)
            raise sharedfile.not_mapped(size, error) from error

    def seal(self) -> None:
        """Seal the file so that only this mapping can write to it.

        It must be called before the target maps the file. If another process has changed the size
        of the file, raise OSError.
        """
        if sharedfile.takes_seals(self.fd):
            try:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, sharedfile.SIZE_SEALS)
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
