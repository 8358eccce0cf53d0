# SPDX-License-Identifier: Apache-2.0
"""Take an agent out of a running process: every word that it changed is restored.

The agent's code stays mapped, and does nothing any more. No code runs in the process for this.
Its threads are stopped for the time in which a few thousand words are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from soscope.control.giveback import give_back
from soscope.control.shield import shielded
from soscope.entry.agent import resident
from soscope.entry.agent.resident import Resident, Taken, Unwinders
from soscope.entry.agent.visit import Visit
from soscope.proc import maps
from soscope.proc.status import Refused

_LIMIT = 15.0  # seconds to wait for a loader that is at work
_TRIES = 3
_MOST_STOPS = 200
_BETWEEN = 0.001  # seconds
_TURN = 0.006  # seconds of restoring while the process is stopped
_MANY = 20  # stops; they restore what an agent changes in 10,000 pages
_LONGEST = 2.0  # seconds of processor time allowed for more stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.shield import Plain


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
        taken.stays = "somebody else has changed what led there"
    elif not agent.is_held:  # a held one is freed after `let_go`
        taken.stays = _why_all_stays(agent) or give_back(visit, agent, session)
    return taken


def _why_all_stays(agent: Resident) -> str:
    if agent.has_patches:
        return "functions stand in the place of others"
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
        visit.stop(limit=_LIMIT)
        agent.look()
        if agent.fields["sessions"] != session:
            visit.threads.resume()
            raise Refused("another soscope has begun to trace it meanwhile")
        if agent.is_prepared or not left:  # if the process loads all the time, stop it for longer
            return
        visit.threads.resume()


def _let_calls_return(visit: Visit, agent: Resident, taken: Taken, session: int) -> None:
    """Make open calls return past the agent, so that unwinders need it no more either.

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
