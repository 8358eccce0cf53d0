# SPDX-License-Identifier: Apache-2.0
"""Let an agent hook the images that were loaded before it, a few milliseconds at a time.

The process runs in between, so none of its threads is stopped for long, however much there is to
hook. Images that are loaded meanwhile are hooked by the agent itself, once the program is hooked.
"""

from __future__ import annotations

import time

from soscope.control import takeout
from soscope.control.shield import is_abandoned
from soscope.entry.agent.changes import CodeChanges, MethodChanges
from soscope.entry.agent.install import Blob
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.stop.tracee import Borrowed, Faulted, Gone
from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.proc import status
from soscope.proc.status import Refused

_TURN = 6_000_000  # ns of hooking in one turn
_BETWEEN = 0.002  # seconds that the process runs between turns, at least
_LIMIT = 20.0  # seconds for a turn
_TRIES_CODE = 100  # stops at which no thread may be at code to be changed


def hook(visit: Visit, agent: Resident, blob: Blob) -> tuple[int, str]:
    """Let `agent` hook all images. Return how many were not hooked, and why.

    If the number is 0 and there is a reason, all are hooked, but some of their code is not
    changed. Raises NoSuchProcess, NotPermitted, Executed, and Refused with everything undone.
    """
    waiting = 1
    code = CodeChanges(visit, agent)
    methods = MethodChanges(visit, agent)
    tries, left = _TRIES_CODE, 0
    while (waiting or (code.waiting and tries)) and not is_abandoned():
        time.sleep(_BETWEEN)
        visit.tries = 0
        try:
            methods.prepare()
            visit.stop(clear_of_loader=True)
            methods.look()
            if waiting:
                waiting = _turn(visit, agent, blob)
            else:
                tries -= 1
            code.apply()
            if not tries:
                left = code.give_up()
        except Executed:
            raise
        except (Refused, NotPermitted) as error:
            agent.look()
            reason = error.reason if isinstance(error, Refused) else error.message
            return agent.fields["waiting"], reason
        except Gone as error:
            raise NoSuchProcess(f"process {visit.pid} has ended") from error
        except (Faulted, OSError) as error:
            visit.threads.resume()
            takeout.take_out_here(visit, agent)
            raise Refused(f"hooking: {error}") from error
        finally:
            visit.threads.resume()
    said = []
    if left:
        said.append(f"entries left, to the middle of which signal handlers return: {left}")
    if code.refused:
        said.append(f"entries left, as code cannot be written: {code.refused}")
    if methods.are_left:
        said.append(
            "Python's method tables left, as a thread may be working out a function's hash for long"
            " (a program that soscope starts shows them)"
        )
    return 0, "; ".join(said)


def hook_children(pid: int, base: int, blob: Blob) -> None:
    """Let the agents in children that were forked meanwhile hook all images.

    Each child has a copy of the agent. A child in which that fails goes on with the hooks that it
    had when it was forked.
    """
    for child in status.descendants(pid):
        try:
            visit = Visit(child)
        except (Refused, SoscopeError):
            continue  # the child keeps the hooks that it has
        try:
            for agent in visit.agents:
                if agent.base == base and agent.is_known and agent.fields["waiting"]:
                    visit.threads.lend(*agent.lendable)
                    hook(visit, agent, blob)
        except (Refused, SoscopeError, OSError):
            continue  # the child keeps the hooks that it has
        finally:
            visit.close()


def _turn(visit: Visit, agent: Resident, blob: Blob) -> int:
    with Borrowed(visit.worker()) as tracee:
        return tracee.call(
            agent.base + blob.hook, _TURN, agent.stack - 8, agent.base + blob.trap, limit=_LIMIT
        )
