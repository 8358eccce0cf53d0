# SPDX-License-Identifier: Apache-2.0
"""Take an agent out of a running process: every word that it changed gets its old value back.

The agent's code stays mapped, and does nothing any more. Nothing is run in the process; its
threads stand still for as long as a few thousand words take to be written.
"""

from __future__ import annotations

from soscope.control.guard import guarded
from soscope.process.agent import stacks
from soscope.process.agent.resident import Resident, Taken
from soscope.process.agent.visit import Visit
from soscope.wire import layout

_LIMIT = 15.0  # seconds to wait for a loader that is at work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.guard import Plain


def take_out(visit: Visit, agent: Resident) -> Taken:
    """Do `take_out_here` in a process of its own, which nobody kills."""

    def work() -> Plain:
        taken = take_out_here(visit, agent)
        return taken.restored, taken.left, taken.returns, taken.kept, visit.threads.longest

    taken = Taken()
    taken.restored, taken.left, taken.returns, taken.kept, visit.threads.longest = guarded(work)
    agent.look()
    return taken


def take_out_here(visit: Visit, agent: Resident) -> Taken:
    """Take `agent` out of the process that is visited; all its threads run afterwards.

    Raises Refused, NotPermitted and NoSuchProcess, and OSError where its memory cannot be
    written: then some words may be restored, and the rest can be tried again.
    """
    taken = Taken()
    visit.tries = 0
    agent.stop()
    agent.prepare()
    visit.stop(limit=_LIMIT)
    try:
        agent.look()
        visit.threads.lend(agent.fields["scratch"], layout.SCRATCH)
        returns = agent.fields["site_count"] > 1
        agent.take_back(taken, unwinding=not returns)
        agent.quiet()
        taken.returns = stacks.put_back(visit.memory, agent, visit.threads)
        if not returns:
            agent.done()
    finally:
        visit.threads.resume()
    if returns:
        _let_unwinders_go(visit, agent, taken)
    return taken


def _let_unwinders_go(visit: Visit, agent: Resident, taken: Taken) -> None:
    """Look for calls that are still to return through the agent; then unwinders need it no more."""
    places = stacks.find_anywhere(visit.memory, agent, visit.tid)
    visit.tries = 0
    agent.prepare()
    visit.stop(limit=_LIMIT)
    try:
        agent.look()
        taken.returns += stacks.put_back(visit.memory, agent, visit.threads)
        if places is not None:
            taken.returns += stacks.put_back_at(visit.memory, agent, places)
            again = Taken()
            agent.take_back(again, unwinding=True)
            taken.restored += again.restored
            taken.kept = 0
            agent.done()
        else:
            agent.disown()
    finally:
        visit.threads.resume()
