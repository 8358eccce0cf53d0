# SPDX-License-Identifier: Apache-2.0
"""Visit a running process: look at it while it runs, then stop it where its loader is idle.

What can be read without stopping is read before. A process whose loader is at work is let go
of and stopped again a little later, up to a limit; one that cannot be visited is refused with
the reason, and nothing has happened to it.
"""

from __future__ import annotations

import errno
import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.entry import byloader, linkmap
from soscope.entry.agent import resident
from soscope.entry.agent.install import Facts
from soscope.entry.agent.sharing import who_shares
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.entry.seccomp import filters
from soscope.entry.stop.loaderlock import LoaderLock, executable_ranges
from soscope.entry.stop.stopping import Threads
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.model.arch import arch_here
from soscope.proc import auxv, maps, reasons, rights, status
from soscope.proc.freezer import frozen_group
from soscope.proc.reasons import Refused

_LIMIT = 5.0  # seconds to wait for a loader that is at work
_PAUSE, _LONGEST_PAUSE = 0.0005, 0.003
_TRACED = 0.5  # seconds to wait for somebody who traces it to let go
_TRIES_CLEAR = 20  # stops in which some thread runs code that we would rather see left


class Visit:
    """One visit of process `pid`, from one thread of ours.

    `facts` says what the agent has to know, `agents` are those that lie there already,
    `threads` are the threads while they are stopped. `tries` counts the stops. `filtered` are
    threads with seccomp filters that allow the agent: tid -> how many. `file` is the device and
    the inode of what it runs; where a loader was told to run the program, that is the loader.
    """

    __slots__ = (
        "_loader_code",
        "_lock",
        "_start",
        "agents",
        "facts",
        "file",
        "filtered",
        "mappings",
        "memory",
        "path",
        "pid",
        "threads",
        "tries",
    )

    def __init__(self, pid: int) -> None:
        """Look at the process.

        Raises NoSuchProcess, NotPermitted, and Refused where there is no way in.
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
        """A thread that lives; the leader, unless that one has ended. Raises NoSuchProcess."""
        return status.living_thread(self.pid)

    def close(self) -> None:
        """Close its memory."""
        self.memory.close()

    # ---- looking ----

    def _look(self, tid: int) -> None:
        vector = _check_program(tid)
        self.facts = facts = Facts(vector, self.memory)
        if not facts.r_debug:
            facts.r_debug = facts.debug_of_program(self.memory)
        debug = linkmap.read_debug(self.memory, facts.r_debug)
        if debug is not None and linkmap.is_damaged(self.memory, debug.first):
            raise Refused(reasons.DAMAGED_LIST)
        if facts.is_by_loader:
            self.path = facts.see_program(tid, self.memory).path
        lock = LoaderLock.find(self.memory, facts.loader, facts.r_debug)
        if lock is None:
            raise Refused(f"{reasons.UNKNOWN_LOADER}: its locks were not found")
        self._lock = lock
        self._loader_code = executable_ranges(facts.loader)
        facts.look_at_libc(self.memory)
        self.mappings = maps.read(tid)
        self.agents = resident.find(self.memory, self.mappings)

    def check_agents(self, known: list[tuple[int, int, int]]) -> None:
        """Make sure that the agents in it still are the `known` ones, while it stands still.

        Raises Executed where another soscope has been in it meanwhile.
        """
        # most lines are none of code that begins its file: reading them all takes milliseconds
        lines = [line for line in maps.text_of(self.tid).split(b"\n") if b"x" in line[:80]]
        now = resident.find(self.memory, maps.parse(b"\n".join(lines)))
        if [agent.life for agent in now] != known:
            raise Executed("another soscope has put its agent in meanwhile")

    def check_seccomp(self) -> None:
        """Refuse a process with filters that would have to be asked first (see `filters`)."""
        if filters.suspects(self.pid):
            raise Refused(reasons.SECCOMP)

    def mind_filters(self) -> None:
        """Stop threads so that it does no harm where filters are that nobody has asked."""
        try:
            counts = filters.suspects(self.pid)
        except Refused:
            counts = {}  # strict: it only reads and writes, which is made again anyway
        self.threads.makes_again = any(
            self.filtered.get(tid) != count for tid, count in counts.items()
        )

    def worker(self) -> int:
        """Return the stopped thread in whose place system calls are made best.

        Raises Refused where filters of stopped threads are not those that were asked.
        """
        tid, known = self.threads.worker(), self.filtered
        if status.has_shadow_stack(status.read_status(tid)):
            raise Refused("it has a shadow stack, and no call can be made in its place")
        for other, count in filters.suspects(self.pid, None if known else [tid]).items():
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
        """Stop all threads with the loader idle.

        `clear_of_loader`: no thread is in the loader's code, binding a slot, if that can be
        had. No thread is in an agent's code, if that can be had: `is_clear` says. Raises
        Refused, NotPermitted and NoSuchProcess with everything running.

        `idle_for`: after so many seconds the loader may be at work, if it is not always the same
        work and it tells for whom (`loader_users`).
        """
        start = time.monotonic()
        end = start + limit
        pause = _PAUSE
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
            if self._tracer() != "0":  # one that was killed may finish what it has begun
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
        """For whom the loader works, while all threads are stopped: ids in their own namespace.

        0: it is not known for whom.
        """
        return self._lock.owners

    def loader_locks(self, tid: int) -> list[tuple[int, int]]:
        """Return the loader's mutexes that a stopped thread holds, while its lists are whole.

        They are (address, how often).
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
        """Return whether some thread's return addresses must stay what they are."""
        for tid in status.threads(self.pid):
            try:
                if status.has_shadow_stack(status.read_status(tid)):
                    return True
            except SoscopeError:
                continue  # it has ended
        return False

    @property
    def is_there(self) -> bool:
        """Return whether the process still has the memory that was looked at."""
        return bool(self.memory.read(self.facts.base, 4))

    def check_same(self) -> None:
        """Make sure that it is still the process, and the program, that was looked at.

        Raises NoSuchProcess and Executed, and SoscopeError if that cannot be looked at.
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
    """The process is not as it was looked at: it runs another program, or another agent."""


def _check_process(pid: int) -> int:
    """Return when the process started, in clock ticks since boot.

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
    """Return the status of a process, a moment later if somebody traces it just now.

    A soscope that was killed may still finish what it has begun.
    """
    end = time.monotonic() + _TRACED
    while True:
        fields = status.read_status(pid)
        if fields.get("TracerPid", "0") == "0" or time.monotonic() > end:
            return fields
        time.sleep(_LONGEST_PAUSE)


def _check_program(pid: int) -> dict[int, int]:
    """Return the auxiliary vector of a program that can have an agent.

    Raises Refused, and OSError where it may not be looked at.
    """
    with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
        try:
            program = ElfImage.from_descriptor(file.fileno(), "program")
        except FormatError as error:
            raise Refused(reasons.FOREIGN) from error
        header = program.header
        assert header is not None
        if header.encoding.bits != arch.BITS or header.machine != arch.MACHINE:
            here = arch_here()
            is_native = here is not None and header.machine == here.number
            raise Refused(reasons.NO_AGENT if is_native else reasons.FOREIGN)
        try:
            vector = auxv.read(pid)
        except FormatError as error:
            raise Refused(f"its auxiliary vector: {error}") from error
        if vector.get(auxv.AT_SECURE):
            raise Refused(reasons.SETUID)
        if not vector.get(auxv.AT_BASE) and not byloader.is_loader(program):
            raise Refused(reasons.static(status.program_path(pid)))
        return vector
