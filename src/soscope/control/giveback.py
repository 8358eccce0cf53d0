# SPDX-License-Identifier: Apache-2.0
"""Free the memory that an agent still has in a process after it was taken out.

The process may have copied addresses of the agent's trampolines anywhere, so the trampolines
stay, with the code and data that they use. The rest, which is the blocks of sessions and the
memory of threads, is unmapped by the agent itself. It is called in a borrowed thread while all
others are stopped.

Memory is freed only if no thread is in the agent or will return into it, if no context that a
signal has interrupted in the agent is kept, and if no other process shares the memory. If one of
these is not certain, all of it stays and the reason is reported. The next soscope that attaches
or detaches tries again.
"""

from __future__ import annotations

import os
import time

from soscope.control.filtered import check_filters
from soscope.entry.agent import resident
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.resting import RestingCode
from soscope.entry.agent.visit import Executed, Visit, shares_now, who_shares
from soscope.entry.guest.frames import who_stays
from soscope.entry.stop.tracee import Borrowed, Faulted, Gone
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import status
from soscope.proc.status import Refused
from soscope.wire import layout

_LEAVING = 0.5  # seconds in which threads must have left the agent
_PAUSE = 0.002
_LIMIT = 5.0  # seconds that the agent may take to unmap memory


def give_back(visit: Visit, agent: Resident, session: int) -> str:
    """Free the agent's memory once all words of the process are restored. Return why it stays.

    Returns "" if the memory was freed, or if the reason does not matter: the process has ended,
    or another soscope has begun to trace it. `session` is the number of the session that has
    ended. Raises nothing.
    """
    try:
        if agent.counts_objects:
            return "it counts its interpreter's objects"
        _check(visit)
        # A thread that enters the agent from here on finds that nothing is recorded and uses no
        # block.
        end = agent.base + layout.BLOB_TEXT_MAX
        if tid := who_stays(visit, agent.base, end, _LEAVING):
            return f"thread {tid} is in the agent"
        if reason := _who_may_return(visit, agent):
            return reason
        with RestingCode(visit, agent) as code:
            return _rest(visit, agent, code, session)
    except (NoSuchProcess, Executed, Gone):
        return ""
    except Refused as refused:
        return refused.reason
    except Faulted as fault:
        return f"a call in it: {fault}"
    except SoscopeError as error:
        return error.message
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _check(visit: Visit) -> None:
    """Refuse a process in which nothing may be called. Raises NotPermitted, NoSuchProcess."""
    if not visit.filtered:
        check_filters(visit)
    if other := who_shares(visit.pid):
        raise Refused(f"it shares its memory with process {other}")


def _who_may_return(visit: Visit, agent: Resident) -> str:
    """Return a sentence about contexts interrupted in the agent that may return there, or "".

    A signal handler may have switched to another coroutine. Remains of handlers that have
    returned look the same until they are overwritten, so the search is repeated for a while.
    """
    if int(status.read_status(visit.tid).get("SigCgt", "1"), 16) == 0:
        return ""  # the process has no signal handlers
    end = time.monotonic() + _LEAVING
    pause = _PAUSE
    while True:
        places = resident.find_interrupted(visit.memory, agent, visit.tid)
        if places is None:
            return "it has too much memory to look for contexts that return to the agent"
        if not places:
            return ""
        if time.monotonic() > end:
            return f"a context that was interrupted in the agent is kept at {places[0]:#x}"
        time.sleep(pause)
        pause *= 2


def _rest(visit: Visit, agent: Resident, code: RestingCode, session: int) -> str:
    visit.tries = 0
    visit.stop()
    try:
        agent.look()
        fields = agent.fields
        if (
            fields["sessions"] != session
            or fields["change_count"]
            or agent.owner not in (0, os.getpid(), os.getppid())
        ):
            return ""  # another soscope owns the agent by now
        if not agent.base <= fields["rest"] < agent.base + layout.BLOB_TEXT_MAX:
            return "it says of itself what no agent says"
        if other := shares_now(visit.pid):
            raise Refused(f"it shares its memory with process {other}")
        stubs = agent.stubs()
        for tid, registers in visit.threads.registers().items():
            if any(0 <= word - at < layout.PAGE for word in registers.words() for at in stubs):
                return f"thread {tid} is in the agent"
        with Borrowed(visit.worker()) as tracee:
            tracee.area = agent.stack
            if not tracee.find_syscall(visit.facts.syscall_places()):
                raise Refused("no syscall instruction found")
            result = tracee.call(fields["rest"], 0, agent.stack - 8, fields["trap"], limit=_LIMIT)
            if result < 0:
                return f"the agent: {os.strerror(-result).lower()}"
            return code.put_in(tracee)
    finally:
        visit.threads.resume()
