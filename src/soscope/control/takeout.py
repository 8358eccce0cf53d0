# SPDX-License-Identifier: Apache-2.0
"""Take an agent out of a running process, and free the memory that it still has there."""

from __future__ import annotations

import os
import time

from soscope.control.shield import check_filters, shielded
from soscope.entry.agent import resident
from soscope.entry.agent.resident import Resident, Taken, Unwinders
from soscope.entry.agent.resting import RestingCode
from soscope.entry.agent.visit import Executed, Visit, shares_now, who_shares
from soscope.entry.guest.frames import who_stays
from soscope.entry.tracee import Borrowed, Faulted, Gone
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import maps, status
from soscope.proc.status import Refused
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.shield import Plain


# Free the memory that an agent still has in a process after it was taken out.
#
# The process may have copied addresses of the agent's trampolines anywhere, so the trampolines
# stay, with the code and data that they use. The rest, which is the blocks of sessions and the
# memory of threads, is unmapped by the agent itself. It is called in a borrowed thread while all
# others are stopped.
#
# Memory is freed only if no thread is in the agent or will return into it, if no context that a
# signal has interrupted in the agent is kept, and if no other process shares the memory. If one of
# these is not certain, all of it stays and the reason is reported. The next soscope that attaches
# or detaches tries again.

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
            tracee.settle(agent.stack)
            if not tracee.find_syscall(visit.facts.syscall_places()):
                raise Refused("no syscall instruction found")
            result = tracee.call(fields["rest"], 0, agent.stack - 8, fields["trap"], limit=_LIMIT)
            if result < 0:
                return f"the agent: {os.strerror(-result).lower()}"
            return code.put_in(tracee)
    finally:
        visit.threads.resume()


# Take an agent out of a running process: every word that it changed is restored.
#
# The agent's code stays mapped, and does nothing any more. No code runs in the process for this.
# Its threads are stopped for the time in which a few thousand words are written.

_LIMIT_TAKEOUT = 15.0  # seconds to wait for a loader that is at work
_TRIES = 3
_MOST_STOPS = 200
_BETWEEN = 0.001  # seconds
_TURN = 0.006  # seconds of restoring while the process is stopped
_MANY = 20  # stops; they restore what an agent changes in 10,000 pages
_LONGEST = 2.0  # seconds of processor time allowed for more stops


def take_out(visit: Visit, agent: Resident) -> Taken:
    """Do `take_out_here` in a child process (see `shielded`)."""

    def work() -> Plain:
        taken = take_out_here(visit, agent)
        counts = taken.restored, taken.returns, taken.kept
        return *counts, taken.left, taken.stays, visit.threads.longest

    taken = Taken()
    taken.restored, taken.returns, taken.kept, *rest = shielded(work)
    taken.left, taken.stays, visit.threads.longest = rest
    agent.look()
    return taken


def give_rest_back(visit: Visit, agent: Resident) -> str:
    """Free the memory of an agent that was taken out before. Return why it stays.

    Returns "" if there is nothing to free. The agent must not be held: the note of its owner goes
    with the memory, and another soscope may begin.
    """
    if not agent.is_known:
        return "another version of soscope has put it in"
    if agent.fields["is_resting"]:
        return ""
    if why := _why_all_stays(agent):
        return why
    session = agent.fields["sessions"]

    def work() -> Plain:
        return give_back(visit, agent, session), visit.threads.longest

    why, visit.threads.longest = shielded(work)
    agent.look()
    return str(why)


def take_out_here(visit: Visit, agent: Resident) -> Taken:
    """Take `agent` out of the visited process. All its threads run afterwards.

    Raises Refused, NotPermitted and NoSuchProcess, and OSError if its memory cannot be written.
    Some words may be restored then, and the rest can be tried again.
    """
    taken = Taken()
    session = agent.fields["sessions"]
    visit.mind_filters()
    agent.stop()
    done = False
    begun, turns = time.process_time(), 0
    while not done:
        turns += 1
        if turns > _MANY and time.process_time() - begun > _LONGEST:
            agent.disown()
            raise Refused(
                f"it says that {agent.fields['change_count']:,} words are changed, which no agent"
                f" does; {taken.restored:,} were put back"
            )
        _stop_prepared(visit, agent, session)
        try:
            visit.threads.lend(*agent.lendable)
            done = agent.take_back(taken, _TURN)
            if done:
                agent.look()
                agent.quiet()
                returns = agent.fields["site_count"] > 1
                if not returns:
                    agent.let_unwinders_go(taken)
                    agent.done()
        finally:
            visit.threads.resume()
    if returns:
        _let_calls_return(visit, agent, taken, session)
    if taken.left:
        taken.stays = "another tool has changed slots or code that led there"
    elif not agent.is_held:  # a held one is freed after `let_go`
        taken.stays = _why_all_stays(agent) or give_back(visit, agent, session)
    return taken


def _why_all_stays(agent: Resident) -> str:
    if agent.has_patches:
        return "functions replace other functions"
    if agent.is_hooked:
        return "calls may still return through it"
    return ""


def _stop_prepared(visit: Visit, agent: Resident, session: int) -> None:
    """Stop the process at a moment when its agent has changed nothing since the preparation.

    Raises Refused if another soscope has started the agent again meanwhile, because its changes
    are not ours. While the process is stopped, no other soscope can start it.
    """
    for left in reversed(range(_TRIES)):
        agent.prepare()
        visit.tries = 0
        visit.stop(limit=_LIMIT_TAKEOUT)
        agent.look()
        if agent.fields["sessions"] != session:
            visit.threads.resume()
            raise Refused("another soscope has begun to trace it meanwhile")
        if agent.is_prepared or not left:  # if the process loads all the time, stop it for longer
            return
        visit.threads.resume()


def _let_calls_return(visit: Visit, agent: Resident, taken: Taken, session: int) -> None:
    """Make open calls return past the agent, so that unwinders do not need it either.

    If shadow stacks hold the same return addresses, all addresses stay. The agent's code handles
    them correctly.
    """
    if visit.has_shadow_stack:
        agent.disown()
        return
    asking = agent.prepare().addresses_of_asked()
    unwinders = Unwinders(visit.memory, maps.read(visit.tid), asking)

    def put_back() -> bool:
        back, held = resident.put_back(visit.memory, agent, visit.threads, unwinders)
        taken.returns += back
        return not held

    if not _at_a_stop(visit, agent, session, put_back):
        agent.disown()
        return
    places = resident.find_anywhere(visit.memory, agent, visit.tid)

    def finish() -> bool:
        if not put_back():
            return False
        taken.returns += resident.put_back_at(visit.memory, agent, places or [])
        agent.let_unwinders_go(taken)
        agent.done()
        return True

    if places is None or not _at_a_stop(visit, agent, session, finish):
        agent.disown()


def _at_a_stop(visit: Visit, agent: Resident, session: int, work: Callable[[], bool]) -> bool:
    """Stop the process repeatedly until `work` succeeds. Return False after too many tries."""
    for _ in range(_MOST_STOPS):
        _stop_prepared(visit, agent, session)
        try:
            if work():
                return True
        finally:
            visit.threads.resume()
        time.sleep(_BETWEEN)
    return False
