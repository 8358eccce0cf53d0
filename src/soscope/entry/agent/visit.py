# SPDX-License-Identifier: Apache-2.0
"""Visit a running process: read it while it runs, then stop it while its loader is idle.

What can be read without a stop is read before. If the loader is at work, the process is resumed
and stopped again a little later, up to a limit. If a process cannot be visited, it is refused
with the reason, and remains unchanged.
"""

from __future__ import annotations

import errno
import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.entry import loader, seccomp
from soscope.entry.agent import resident
from soscope.entry.agent.install import Facts
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory, libc
from soscope.entry.stopping import LoaderLock, Threads, executable_ranges
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.model.arch import arch_here
from soscope.proc import maps, rights, status
from soscope.proc.status import Refused, frozen_group

# Detect processes that share a process's memory: a child of vfork(2) until its exec.
#
# A change in shared memory changes both processes, and would remain in the one that soscope does
# not know.

_KCMP_VM = 1
_MOST_CHILDREN = 100
# Seconds. Such a child usually calls execve at once, but on a busy machine it first has to wait
# for a processor.
_PATIENCE, _PAUSE = 2.0, 0.002


def who_shares(pid: int) -> int:
    """Return the parent or a child that has the same memory, 0 if there is none.

    Waits a moment for a process that shares it to execute its own program. Returns 0, too, if the
    kernel cannot tell (kcmp(2) needs CONFIG_KCMP, and the right to look at both processes).
    """
    end = time.monotonic() + _PATIENCE
    while other := shares_now(pid):
        if time.monotonic() > end:
            return other
        time.sleep(_PAUSE)
    return 0


def shares_now(pid: int) -> int:
    """Return the same as `who_shares`, without waiting."""
    try:
        parent = status.read_stat(pid).parent
    except NoSuchProcess:
        return 0
    for other in (parent, *status.children(pid)[:_MOST_CHILDREN]):
        if other and _has_same_memory(pid, other):
            return other
    return 0


def _has_same_memory(pid: int, other: int) -> bool:
    # For two processes without memory (zombies, kernel threads) kcmp answers that it is the same.
    same = libc.syscall(arch.KCMP, pid, other, _KCMP_VM, 0, 0) == 0
    return same and bool(os.path.exists(f"/proc/{other}/exe"))


_LIMIT = 5.0  # seconds to wait for a loader that is at work
_PAUSE_VISIT, _LONGEST_PAUSE = 0.0005, 0.003
_TRACED = 0.5  # seconds to wait for another tracer to detach
_TRIES_CLEAR = 20  # stops at which threads should leave code of agent or loader


class Visit:
    """One visit of process `pid`, from one thread of soscope.

    `facts` are what the agent needs to know. `agents` are the agents that are already in the
    process. `threads` are its threads while they are stopped. `tries` counts the stops.
    `filtered` maps threads with seccomp filters that allow the agent to the number of their
    filters. `file` is the device and the inode of its program's file. If a loader was told to run
    the program, `file` is the loader's.
    """

    def __init__(self, pid: int) -> None:
        """Examine the process.

        Raises NoSuchProcess, NotPermitted, and Refused if it cannot be visited.
        """
        self.pid = pid
        self.tries = 0
        self.filtered: dict[int, int] = {}
        self.threads = Threads(pid)
        self._start = _check_process(pid)
        tid = self.tid
        self.path = status.program_path(tid)
        self.file = status.program_file(tid)
        try:
            self.memory = RemoteMemory(tid)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise rights.missing_right(pid, "tracing", error.errno) from error
            raise NoSuchProcess(f"no process {pid}", errno=error.errno) from error
        try:
            self._look(tid)
        except OSError as error:
            self.memory.close()
            if error.errno in (errno.EACCES, errno.EPERM):
                raise rights.missing_right(pid, "tracing", error.errno) from error
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            raise NoSuchProcess(f"process {pid} has ended", errno=error.errno) from error
        except BaseException:
            self.memory.close()
            raise

    @property
    def tid(self) -> int:
        """A living thread: the leader, unless that has ended. Raises NoSuchProcess."""
        return status.living_thread(self.pid)

    def close(self) -> None:
        """Close the memory of the process."""
        self.memory.close()

    # ---- reading ----

    def _look(self, tid: int) -> None:
        vector = _check_program(tid)
        self.facts = facts = Facts(vector, self.memory)
        if not facts.r_debug:
            facts.r_debug = facts.debug_of_program(self.memory)
        debug = loader.read_debug(self.memory, facts.r_debug)
        if debug is not None and loader.is_damaged(self.memory, debug.first):
            raise Refused(status.DAMAGED_LIST)
        if facts.is_by_loader:
            self.path = facts.see_program(tid, self.memory).path
        lock = LoaderLock.find(self.memory, facts.loader, facts.r_debug)
        if lock is None:
            raise Refused(f"{status.UNKNOWN_LOADER}: its locks were not found")
        self._lock = lock
        self._loader_code = executable_ranges(facts.loader)
        facts.look_at_libc(self.memory)
        self.mappings = maps.read(tid)
        self.agents = resident.find(self.memory, self.mappings)

    def check_agents(self, known: list[tuple[int, int, int]]) -> None:
        """Check that the agents in the stopped process are still the `known` ones.

        Raises Executed if another soscope has inserted its agent meanwhile.
        """
        # Most lines are no code at the beginning of a file, and parsing all of them takes
        # milliseconds.
        lines = [line for line in maps.text_of(self.tid).split(b"\n") if b"x" in line[:80]]
        now = resident.find(self.memory, maps.parse(b"\n".join(lines)))
        if [agent.life for agent in now] != known:
            raise Executed("another soscope has put its agent in meanwhile")

    def check_seccomp(self) -> None:
        """Refuse a process whose seccomp filters would have to be tested first (see `seccomp`)."""
        if seccomp.suspects(self.pid):
            raise Refused(status.SECCOMP)

    def mind_filters(self) -> None:
        """Stop threads in a way that does no harm if there are untested seccomp filters."""
        try:
            counts = seccomp.suspects(self.pid)
        except Refused:
            counts = {}  # strict mode: only reads and writes, which restart anyway
        self.threads.makes_again = any(
            self.filtered.get(tid) != count for tid, count in counts.items()
        )

    def worker(self) -> int:
        """Return the stopped thread that is best suited to make system calls.

        Raises Refused if stopped threads have other filters than the tested ones.
        """
        tid, known = self.threads.worker(), self.filtered
        if status.has_shadow_stack(status.read_status(tid)):
            raise Refused("it has a shadow stack, and no call can be made in its place")
        for other, count in seccomp.suspects(self.pid, None if known else [tid]).items():
            if known.get(other, count) != count or count not in known.values():
                raise Refused("it has installed another seccomp filter meanwhile")
        return tid

    # ---- stopping ----

    def stop(
        self,
        *,
        clear_of_loader: bool = False,
        limit: float = _LIMIT,
        idle_for: float | None = None,
    ) -> None:
        """Stop all threads while the loader is idle.

        With `clear_of_loader`, no thread is in the loader's code, binding a slot, if that can be
        achieved. No thread is in an agent's code, if that can be achieved. `is_clear` tells
        whether it was. If the loader is not idle within `idle_for` seconds, the threads may also
        be stopped while it is at work. That needs a loader whose work has changed meanwhile, and
        that tells which threads it works for (`loader_users`). Raises Refused, NotPermitted and
        NoSuchProcess with all threads running.
        """
        start = time.monotonic()
        end = start + limit
        pause = _PAUSE_VISIT
        owner = 0
        activities = {self._lock.activity}
        while True:
            owner = self._lock.owner or owner
            clear = clear_of_loader and self.tries < _TRIES_CLEAR
            is_idle = self._is_idle()
            activities.add(self._lock.activity)
            may_work = (
                idle_for is not None and len(activities) > 1 and time.monotonic() > start + idle_for
            )
            if (is_idle or may_work) and self._try(clear_of_loader=clear, may_work=may_work):
                return
            if time.monotonic() > end:
                self._refuse_busy(owner)
            self.check_same()
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _try(self, *, clear_of_loader: bool, may_work: bool) -> bool:
        self.tries += 1
        try:
            self.threads.stop()
        except ProcessLookupError as error:
            raise NoSuchProcess(f"process {self.pid} has ended") from error
        except PermissionError as error:
            if self._tracer() != "0":  # a killed soscope may be finishing its work
                return False
            raise rights.missing_right(self.pid, "tracing", error.errno) from error
        try:
            self.check_same()
            if (self._is_idle() or (may_work and 0 not in self._lock.owners)) and (
                self.tries > _TRIES_CLEAR or self.is_clear(loader=clear_of_loader)
            ):
                return True
        except BaseException:
            self.threads.resume()
            raise
        self.threads.resume()
        return False

    def _is_idle(self) -> bool:
        return not self._lock.is_held and self._lock.is_ready

    @property
    def loader_users(self) -> list[int]:
        """The threads that the loader works for, while all are stopped: ids in their own namespace.

        An id is 0 if the thread is not known.
        """
        return self._lock.owners

    def loader_locks(self, tid: int) -> list[tuple[int, int]]:
        """Return the loader's mutexes that a stopped thread holds, while its lists are consistent.

        Each is (address, how often it is locked).
        """
        inner = status.inner_pid(tid)
        return self._lock.held_by(inner) if self._lock.is_ready else []

    @property
    def loader_code(self) -> list[tuple[int, int]]:
        """The address ranges of the loader's code."""
        return self._loader_code

    def is_clear(self, *, loader: bool = False) -> bool:
        """Return whether no stopped thread is in an agent's code (or the loader's)."""
        for registers in self.threads.registers().values():
            pc = registers.pc
            if any(agent.holds(pc) for agent in self.agents):
                return False
            if loader and any(start <= pc < end for start, end in self._loader_code):
                return False
        return True

    @property
    def has_shadow_stack(self) -> bool:
        """Return whether a thread has a shadow stack. Return addresses must not change then."""
        for tid in status.threads(self.pid):
            try:
                if status.has_shadow_stack(status.read_status(tid)):
                    return True
            except SoscopeError:
                continue  # the process or thread has ended
        return False

    @property
    def is_there(self) -> bool:
        """Return whether the process still has the memory that was examined."""
        return bool(self.memory.read(self.facts.base, 4))

    def check_same(self) -> None:
        """Check that the process and its program are still the examined ones.

        Raises NoSuchProcess and Executed, and SoscopeError if that cannot be checked.
        """
        try:
            stat = status.read_stat(self.pid)
        except NoSuchProcess as error:
            raise NoSuchProcess(f"process {self.pid} has ended") from error
        if stat.start != self._start:
            raise NoSuchProcess(f"process {self.pid} has ended, and another has its number")
        if not self.is_there:
            if not status.has_memory(self.pid):
                raise NoSuchProcess(f"process {self.pid} has ended")
            raise Executed("it has executed another program meanwhile")

    def _tracer(self) -> str:
        return status.read_status(self.pid).get("TracerPid", "0")

    def _refuse_busy(self, owner: int) -> None:
        if (tracer := self._tracer()) != "0":
            raise Refused(f"process {tracer} traces it already")
        if not owner and not self._lock.is_held and not self._lock.is_ready:
            raise Refused("it is still being loaded")
        where = "dlopen, dlclose, dl_iterate_phdr or a constructor"
        who = f": thread {owner} is in {where}" if owner else ""
        raise Refused(f"its loader is busy{who}")


class Executed(Refused):
    """The process has changed since it was examined: it has another program or another agent."""


def _check_process(pid: int) -> int:
    """Return the start time of the process, in clock ticks since boot.

    Raises NoSuchProcess and Refused.
    """
    if not status.is_our_proc():
        raise Refused("/proc shows another process namespace than the one that soscope is in")
    stat = status.read_stat(pid)
    fields = _without_tracer(pid)
    if fields.get("Tgid", str(pid)) != str(pid):
        raise Refused(f"{pid} is a thread of process {fields['Tgid']}")
    status.living_thread(pid)  # raises for a zombie
    if stat.flags & status.PF_KTHREAD:
        raise Refused("it is a thread of the kernel")
    if pid == os.getpid():
        raise Refused("it is soscope itself")
    if (tracer := fields.get("TracerPid", "0")) != "0":
        raise Refused(f"process {tracer} traces it already")
    if group := frozen_group(pid):
        raise Refused(f"it is frozen, as by docker pause ({group})")
    if other := who_shares(pid):
        raise Refused(f"it shares its memory with process {other}, as after vfork")
    return stat.start


def _without_tracer(pid: int) -> dict[str, str]:
    """Return the status of a process, a moment later if it is traced just now.

    A soscope that was killed may still be finishing its work.
    """
    end = time.monotonic() + _TRACED
    while True:
        fields = status.read_status(pid)
        if fields.get("TracerPid", "0") == "0" or time.monotonic() > end:
            return fields
        time.sleep(_LONGEST_PAUSE)


def _check_program(pid: int) -> dict[int, int]:
    """Return the auxiliary vector of a program that can take an agent.

    Raises Refused, and OSError if it may not be read.
    """
    with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
        try:
            program = ElfImage.from_descriptor(file.fileno(), "program")
        except FormatError as error:
            raise Refused(status.FOREIGN) from error
        header = program.header
        assert header is not None
        if header.encoding.bits != arch.BITS or header.machine != arch.MACHINE:
            here = arch_here()
            is_native = here is not None and header.machine == here.number
            raise Refused(status.NO_AGENT if is_native else status.FOREIGN)
        try:
            vector = maps.read_auxv(pid)
        except FormatError as error:
            raise Refused(f"its auxiliary vector: {error}") from error
        if vector.get(maps.AT_SECURE):
            raise Refused(status.SETUID)
        if not vector.get(maps.AT_BASE) and not loader.is_loader(program):
            raise Refused(status.static(status.program_path(pid)))
        return vector
