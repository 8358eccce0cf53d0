# SPDX-License-Identifier: Apache-2.0
"""The threads of a native process, traced by ptrace(2): registers, resuming, detaching.

No thread is stopped in order to be traced, nor to be detached if that can be avoided: a stop
wakes a thread that waits in a system call, and some calls then fail with EINTR. For a detach,
traps are removed first. A thread that sleeps in the kernel afterwards is at no trap, and is
detached by the end of its tracer.
"""

from __future__ import annotations

import ctypes
import os
import time

from soscope.entry import ptrace
from soscope.entry.native.traps import Trap
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.entry.native.machine import NativeMachine

GETFPREGS = 14
POKEUSER = 6
OPTIONS = (
    ptrace.O_TRACECLONE
    | ptrace.O_TRACEFORK
    | ptrace.O_TRACEVFORK
    | ptrace.O_TRACEVFORKDONE
    | ptrace.O_TRACEEXEC
)

_ENDED = "ZXx"
_SEIZING = 2.0  # seconds: threads may be created faster than they are traced
_LETTING_GO = 0.2  # seconds that an old tracer may take to detach
_PAUSE = 0.0005
_WORD = 8  # bytes

# PyDLL: each stop makes five of these calls, which are faster while the interpreter's lock is
# held, and this process has no other thread that needs it.
_libc = ctypes.PyDLL(None, use_errno=True)
_waitpid = _libc.waitpid
_waitpid.restype = ctypes.c_int
_waitpid.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_int)
_ptrace = _libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = (ctypes.c_long,) * 4


class NativeTask:
    """One traced thread, in the memory of process `owner`. `pid` is its own process.

    `is_child` is set if that is another process, which was forked and shares the memory. `inside`
    is the trap to whose copy it was moved last, None if it is in no copy. `is_forking` is set
    while it waits for a child that shares its memory.
    """

    __slots__ = ("inside", "is_child", "is_forking", "owner", "pid", "tid")

    def __init__(self, tid: int, pid: int, owner: int) -> None:
        self.tid = tid
        self.pid = pid
        self.owner = owner
        self.is_child = pid != owner
        self.is_forking = False
        self.inside: Trap | None = None


class NativeThreads:
    """The threads of process `pid`, and `values`: the registers of the last one in `fetch`.

    `tasks` are the threads of all processes that are traced together, by their numbers. It also
    has the interface of `RemoteStub` for one stopped thread: `registers`, `get` and `get_bytes`.
    All methods must be called from one thread of soscope.
    """

    order = "<"

    def __init__(self, pid: int, machine: NativeMachine, tasks: dict[int, NativeTask]) -> None:
        self.pid = pid
        self.tid = 0
        self.tasks = tasks
        self.values = (ctypes.c_uint64 * machine.register_count)()
        self.registers: dict[str, object] = {
            **machine.registers,
            **machine.floats,
            **machine.apart,
        }
        self._machine = machine
        self._pc_offset = machine.pc_offset
        self._floats = ctypes.create_string_buffer(machine.floats_size)
        self._has_floats = False
        self._set, self._at = machine.word_set, ctypes.addressof(self.values)
        self._get, self._put = ptrace.GETREGS, ptrace.SETREGS
        if self._set:
            self._get, self._put = ptrace.GETREGSET, ptrace.SETREGSET
            self._piece = ptrace.Iovec(self._at, ctypes.sizeof(self.values))
            self._at = ctypes.addressof(self._piece)

    # ---- all threads ----

    def seize(self) -> None:
        """Trace all threads, without stopping them. Raises OSError if that is refused."""
        end = time.monotonic() + _SEIZING
        while new := [tid for tid in self._listed() if tid not in self.tasks]:
            for tid in new:
                if self._seize_one(tid):
                    self.tasks[tid] = NativeTask(tid, self.pid, self.pid)
            if time.monotonic() > end:
                raise PermissionError("its threads come faster than they can be traced")
        if not any(task.owner == self.pid for task in self.tasks.values()):
            raise ProcessLookupError("it has ended")

    def _seize_one(self, tid: int) -> bool:
        end = time.monotonic() + _LETTING_GO
        while True:
            try:
                ptrace.seize(tid, OPTIONS)
            except ProcessLookupError:
                return False  # the process or thread has ended
            except PermissionError:
                if self.is_ours(tid):
                    return True  # traced already, by its creator
                if status.state_of(tid) in _ENDED:
                    return False
                if time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)  # a tracer that ends detaches from it
                continue
            return True

    def _listed(self) -> Iterator[int]:
        try:
            names = os.listdir(f"/proc/{self.pid}/task")
        except OSError:
            return  # the process has ended
        for tid in map(int, names):
            if status.state_of(tid) not in _ENDED:
                yield tid

    @staticmethod
    def is_ours(tid: int) -> bool:
        """Return whether this process traces a thread."""
        try:
            return status.read_status(tid).get("TracerPid") == str(os.getpid())
        except NoSuchProcess:
            return False  # the thread has ended

    # ---- a stopped thread ----

    def fetch(self, tid: int) -> None:
        """Read the registers of a stopped thread. Raises OSError."""
        if _ptrace(self._get, tid, self._set, self._at):
            raise ptrace.failure()
        self.tid = tid
        self._has_floats = False

    def store(self, tid: int) -> None:
        """Set a thread's registers to `values`. Raises OSError."""
        if _ptrace(self._put, tid, self._set, self._at):
            raise ptrace.failure()

    def move(self, tid: int, pc: int) -> None:
        """Set the program counter of the fetched thread. Raises OSError."""
        if not self._pc_offset:
            self._machine.move(self.values, pc)
            self.store(tid)
        elif _ptrace(POKEUSER, tid, self._pc_offset, pc):
            raise ptrace.failure()

    @staticmethod
    def resume(tid: int) -> None:
        """Resume a stopped thread. Raises OSError."""
        if _ptrace(ptrace.CONT, tid, 0, 0):
            raise ptrace.failure()

    @staticmethod
    def has_met_trap(tid: int) -> bool:
        """Return whether a thread, stopped by an event, will stop at a breakpoint next.

        If a thread runs into a breakpoint just before an event, the kernel reports the event
        first and the breakpoint's signal afterwards (get_signal in kernel/signal.c). If the
        thread has no tracer by then, the signal kills it. Raises ProcessLookupError.
        """
        fields = status.read_status(tid)
        pending = int(fields["SigPnd"], 16) & ~int(fields["SigBlk"], 16)
        return bool(pending >> signal.SIGTRAP - 1 & 1)

    def get(self, name: str) -> int:
        """Return a register of the fetched thread."""
        place = self._machine.registers.get(name)
        if place is not None:
            return self.values[place]
        word = ptrace.register_set(self.tid, self._machine.apart[name], _WORD)
        return int.from_bytes(word, "little")

    def upper_half(self, _name: str) -> bytes:
        """Return b"", because all registers are read as a whole."""
        return b""

    def get_bytes(self, name: str) -> bytes:
        """Return the bytes of a register, including floating-point registers."""
        place = self._machine.floats.get(name)
        if place is None:
            return self.get(name).to_bytes(8, "little")
        if not self._has_floats:
            self._fetch_floats()
        return self._floats.raw[place[0] : place[0] + place[1]]

    def _fetch_floats(self) -> None:
        machine = self._machine
        if machine.float_set:
            self._floats.raw = ptrace.register_set(self.tid, machine.float_set, machine.floats_size)
        else:
            ptrace.request(GETFPREGS, self.tid, None, ctypes.addressof(self._floats))
        self._has_floats = True

    # ---- positions of running threads ----

    def sleeps_at(self, task: NativeTask) -> tuple[bool, int]:
        """Return whether a thread is in a call that makes a process or thread, and its pc.

        The pc is 0 if the thread is running, or if it is not known.
        """
        try:
            with open(f"/proc/{task.pid}/task/{task.tid}/syscall", "rb", buffering=0) as file:
                words = file.read(512).split()
        except OSError:
            return False, 0  # the thread has ended, or the kernel has no such file
        if len(words) < 3:
            return False, 0
        return int(words[0]) in self._machine.making, int(words[-1], 16)


class Waiting:
    """Waits for all threads that this thread traces."""

    __slots__ = ("_at", "_status")

    def __init__(self) -> None:
        self._status = ctypes.c_int()
        self._at = ctypes.addressof(self._status)

    def wait(self) -> tuple[int, int]:
        """Return the next thread that stops or ends, and its wait status.

        Return (0, 0) if a signal came instead, and (-1, 0) if there are no threads any more.
        """
        tid = _waitpid(-1, self._at, ptrace.WALL)
        if tid > 0:
            return tid, self._status.value
        return (0, 0) if ctypes.get_errno() == 4 else (-1, 0)
