# SPDX-License-Identifier: Apache-2.0
"""Give back what an agent that was taken out still has of a process's memory.

The process may have copied addresses of the agent's trampolines anywhere: these stay, with what
they lead to. All else, the blocks of sessions and what threads were given, is unmapped by the
agent itself, which is called in the place of one thread while all others stand still.

That is done if no thread is in the agent or will return there, if no context is kept that a signal
has interrupted there, and if no other process shares the memory. If one of these is not certain,
all of it stays, and that is said. Who attaches or detaches the next time tries again.
"""

from __future__ import annotations

import os
import time

from soscope.control.filtered import check_filters
from soscope.entry.agent import stacks
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.resting import RestingCode
from soscope.entry.agent.sharing import shares_now, who_shares
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.inside import who_stays
from soscope.entry.stop.borrowed import Borrowed
from soscope.entry.stop.tracee import Faulted, Gone
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import status
from soscope.proc.reasons import Refused
from soscope.wire import layout

_LEAVING = 0.5  # seconds in which threads may leave the agent, and handlers return
_PAUSE = 0.002
_LIMIT = 5.0  # seconds for what the agent does


def give_back(visit: Visit, agent: Resident, session: int) -> str:
    """Give memory back, with nothing of the process changed any more; return why it stays.

    That is "" if it was given back, or if nobody needs to know: the process has ended, or another
    soscope has begun to trace it. `session` is the number of the session that has ended. Raises
    nothing.
    """
    try:
        if agent.counts_objects:
            return "it counts its interpreter's objects"
        _check(visit)
        # who comes there afterwards finds that nothing is recorded, and looks at no block
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
    """Say what may lead back into the agent besides threads: contexts that a signal interrupted.

    A handler may have switched to another coroutine. What is left over of handlers that have
    returned looks the same until it is written over.
    """
    if int(status.read_status(visit.tid).get("SigCgt", "1"), 16) == 0:
        return ""  # it has no handlers
    end = time.monotonic() + _LEAVING
    pause = _PAUSE
    while True:
        places = stacks.find_interrupted(visit.memory, agent, visit.tid)
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
            return ""  # it is somebody else's by now
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
