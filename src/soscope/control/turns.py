# SPDX-License-Identifier: Apache-2.0
"""Let an agent hook what was there before it, some milliseconds at a time.

In between the process goes on; so no thread of it stands still for long, however much there
is to hook. Images that come meanwhile are hooked by the agent itself, once the program is.
"""

from __future__ import annotations

import time

from soscope.control import takeout
from soscope.control.shield import is_abandoned
from soscope.entry.agent.blob import Blob
from soscope.entry.agent.codechanges import CodeChanges
from soscope.entry.agent.methodchanges import MethodChanges
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.stop.borrowed import Borrowed
from soscope.entry.stop.tracee import Faulted, Gone
from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.proc import status
from soscope.proc.reasons import Refused

_TURN = 6_000_000  # ns of hooking
_BETWEEN = 0.002  # seconds that the process runs at least
_LIMIT = 20.0  # seconds for a turn
_TRIES_CODE = 100  # stops in which no thread may be where code is to be changed


def hook(visit: Visit, agent: Resident, blob: Blob) -> tuple[int, str]:
    """Let `agent` hook all images; return how many had to be left, and why.

    With a reason and 0, all are hooked, and some of their code is not changed. Raises
    NoSuchProcess, NotPermitted, Executed, and Refused with everything undone.
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
    """Do the same in children that were forked meanwhile: each has a copy of the agent.

    One that resists goes on with what was hooked when it was forked.
    """
    for child in status.descendants(pid):
        try:
            visit = Visit(child)
        except (Refused, SoscopeError):
            continue  # what resists goes on with what it has
        try:
            for agent in visit.agents:
                if agent.base == base and agent.is_known and agent.fields["waiting"]:
                    visit.threads.lend(*agent.lendable)
                    hook(visit, agent, blob)
        except (Refused, SoscopeError, OSError):
            continue  # the same
        finally:
            visit.close()


def _turn(visit: Visit, agent: Resident, blob: Blob) -> int:
    with Borrowed(visit.worker()) as tracee:
        return tracee.call(
            agent.base + blob.hook, _TURN, agent.stack - 8, agent.base + blob.trap, limit=_LIMIT
        )
