# SPDX-License-Identifier: Apache-2.0
"""ptrace(2) through ctypes, and write access to a tracee's memory.

All calls for one tracee must come from the thread that seized it. Every function raises OSError
(ProcessLookupError where the thread is gone or not stopped).
"""

from __future__ import annotations

import ctypes
import errno
import os

from soscope.proc.memory import ProcessMemory

CONT = 7
SINGLESTEP = 9
GETREGS = 12
SETREGS = 13
POKEDATA = 5
POKEUSER = 6
DETACH = 17
SYSCALL = 24
SETOPTIONS = 0x4200
GETEVENTMSG = 0x4201
GETSIGINFO = 0x4202
GETREGSET = 0x4204
SETREGSET = 0x4205
SEIZE = 0x4206
INTERRUPT = 0x4207
LISTEN = 0x4208
GETSIGMASK = 0x420A
SETSIGMASK = 0x420B
SECCOMP_GET_FILTER = 0x420C
GET_RSEQ_CONFIGURATION = 0x420F

O_TRACESYSGOOD = 1 << 0
O_TRACEFORK = 1 << 1
O_TRACEVFORK = 1 << 2
O_TRACECLONE = 1 << 3
O_TRACEEXEC = 1 << 4
O_TRACEVFORKDONE = 1 << 5
O_TRACEEXIT = 1 << 6
O_EXITKILL = 1 << 20

EVENT_FORK = 1
EVENT_VFORK = 2
EVENT_CLONE = 3
EVENT_EXEC = 4
EVENT_VFORK_DONE = 5
EVENT_EXIT = 6
EVENT_STOP = 128
AT_SYSCALL = 0x80  # added to SIGTRAP with O_TRACESYSGOOD

_SIGINFO = 128  # bytes; the third int is si_code
_TKILL = 200

WALL = 0x40000000  # __WALL of waitpid(2): children that are threads, too

_PR_SET_DUMPABLE = 4

# libc for all of entry, control and what is above them. A function that gets types must be taken as
# `libc["name"]`, which is a new object, so that no other caller's arguments are converted.
libc = ctypes.CDLL(None, use_errno=True)
_ptrace = libc["ptrace"]
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def failure() -> OSError:
    """Return the error of the last call of libc, by errno."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def request(code: int, tid: int, addr: object = None, data: object = None) -> None:
    """Make a request whose result does not matter."""
    if _ptrace(code, tid, addr, data) == -1:
        raise failure()


def seize(tid: int, options: int) -> None:
    """Become the tracer of a thread without stopping it."""
    request(SEIZE, tid, None, options)


def resume(tid: int, signal: int = 0) -> None:
    """Resume a stopped thread, with a signal."""
    request(CONT, tid, None, signal)


def step(tid: int, signal: int = 0) -> None:
    """Let a stopped thread run one instruction."""
    request(SINGLESTEP, tid, None, signal)


def resume_to_syscall(tid: int, signal: int = 0) -> None:
    """Resume a stopped thread until the next begin or end of a system call."""
    request(SYSCALL, tid, None, signal)


def listen(tid: int) -> None:
    """Leave a thread in the group stop that it reported."""
    request(LISTEN, tid)


def interrupt(tid: int) -> None:
    """Ask a running thread to stop."""
    request(INTERRUPT, tid)


def detach(tid: int, signal: int = 0) -> None:
    """Detach from a stopped thread, which goes on with a signal."""
    request(DETACH, tid, None, signal)


def set_options(tid: int, options: int) -> None:
    """Replace the options given to `seize`."""
    request(SETOPTIONS, tid, None, options)


def event_message(tid: int) -> int:
    """Return the message of the last event: a new thread's id or a former thread id."""
    value = ctypes.c_ulong()
    request(GETEVENTMSG, tid, None, ctypes.byref(value))
    return value.value


def is_sent(tid: int) -> bool:
    """Return whether a process has sent the signal at which a thread stopped (sigaction(2))."""
    value = (ctypes.c_int * (_SIGINFO // 4))()
    request(GETSIGINFO, tid, None, ctypes.byref(value))
    return value[2] <= 0


def send(tid: int, signal: int) -> None:
    """Send a signal to one thread (tkill(2))."""
    if libc.syscall(_TKILL, tid, signal) == -1:
        raise failure()


def signal_mask(tid: int) -> int:
    """Return the blocked signals of a stopped thread: bit N - 1 is signal N."""
    value = ctypes.c_uint64()
    request(GETSIGMASK, tid, 8, ctypes.byref(value))
    return value.value


def set_signal_mask(tid: int, mask: int) -> None:
    """Replace the blocked signals of a stopped thread."""
    request(SETSIGMASK, tid, 8, ctypes.byref(ctypes.c_uint64(mask)))


def seccomp_filter(tid: int, index: int, buffer: ctypes.Array[ctypes.c_char]) -> int:
    """Read filter number `index` of a stopped thread into `buffer` of 4096 times 8 bytes.

    Returns the number of its instructions. Raises OSError with ENOENT if there is no such filter.
    """
    size = int(_ptrace(SECCOMP_GET_FILTER, tid, index, ctypes.addressof(buffer)))
    if size < 0:
        raise failure()
    return size


def rseq(tid: int) -> tuple[int, int]:
    """Return the address of a stopped thread's `struct rseq`, 0 for none, and its signature.

    Before Linux 5.13 this raises OSError.
    """
    value = (ctypes.c_uint32 * 6)()  # address (2 words), size, signature, flags, padding
    request(GET_RSEQ_CONFIGURATION, tid, ctypes.sizeof(value), ctypes.byref(value))
    return value[1] << 32 | value[0], value[3]


class Iovec(ctypes.Structure):
    """`struct iovec` of <sys/uio.h>."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def register_set(tid: int, kind: int, most: int) -> bytes:
    """Return a register set of a stopped thread (NT_… of <elf.h>), at most `most` bytes."""
    buffer = ctypes.create_string_buffer(most)
    piece = Iovec(ctypes.addressof(buffer), most)
    request(GETREGSET, tid, kind, ctypes.byref(piece))
    return buffer.raw[: piece.size]


def set_register_set(tid: int, kind: int, data: bytes) -> None:
    """Replace a register set of a stopped thread."""
    buffer = ctypes.create_string_buffer(data, len(data))
    request(SETREGSET, tid, kind, ctypes.byref(Iovec(ctypes.addressof(buffer), len(data))))


def poke(tid: int, addr: int, word: int) -> None:
    """Write 8 bytes, whatever protection their page has."""
    request(POKEDATA, tid, addr, word)


def forbid_dump() -> None:
    """Disable core dumps of this process, and tracing it by other processes (prctl(2))."""
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


# Write to the memory of another process.
#
# A tracer may write to any page by /proc/PID/mem, even to read-only pages. Systems that forbid that
# (proc_mem.force_override=never) still have PTRACE_POKEDATA.


class RemoteMemory(ProcessMemory):
    """The memory of the process of thread `tid`, for reading and writing."""

    __slots__ = ()

    def __init__(self, tid: int) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(tid, os.O_RDWR)

    def write(self, addr: int, data: bytes) -> None:
        """Write `data` at `addr`. A write of one aligned word is atomic for its readers.

        Raises OSError if the write is refused, or if the memory reads back differently.
        """
        try:
            written = os.pwrite(self._descriptor, data, addr)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPERM, errno.EACCES):
                raise
            self._poke(addr, data)
        else:
            if written < len(data):
                raise OSError(errno.EFAULT, f"no memory at {addr + written:#x}")
        if self.read(addr, len(data)) != data:
            raise OSError(errno.EIO, f"memory at {addr:#x} does not keep what is written")

    def _poke(self, addr: int, data: bytes) -> None:
        start = addr & ~7
        end = addr + len(data) + 7 & ~7
        old = self.read(start, end - start)
        if len(old) < end - start:
            raise OSError(errno.EFAULT, f"no memory at {addr:#x}")
        new = old[: addr - start] + data + old[addr - start + len(data) :]
        for at in range(0, len(new), 8):
            poke(self._tid, start + at, int.from_bytes(new[at : at + 8], "little"))
