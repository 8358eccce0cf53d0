# SPDX-License-Identifier: Apache-2.0
"""`soscope detach`: remove whatever soscope keeps or has left in a process."""

from __future__ import annotations

from soscope.verbs.main import Invocation, show
from soscope.verbs.options import FORM, JSON, Verb, pid_option, quiet_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed


VERB = Verb(
    "detach",
    pid_option(about="it stands still for some milliseconds"),
    *FORM,
    quiet_option(JSON.group, "say nothing"),
    usage="soscope detach [options] -p PID",
    short="""\
Remove everything that soscope keeps in a process or has left there.

  -p
  -q
  --json
""",
    description="""\
Remove everything that soscope keeps in a process or has left there. detach finds out what that
is. A soscope that has attached to the process (trace -p, prof attach) ends as it does at Ctrl-C,
and has shown or written what it has recorded when detach returns. An interpreter that counts its
objects (mem attach) stops that. Every word that a killed soscope or a patch has changed gets its
old value again. The process's threads stand still for some milliseconds, and the process goes on.
""",
    epilog="""\
exit status: 0 fine, or a message that there was nothing to undo, 1 not everything could be undone,
or soscope has started the process and observes it to its end, 2 wrong usage, 3 not permitted, 4 no
such process.
""",
    needs_pid=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone.

    If the interpreter of the process cannot be asked to stop counting, everything else is undone
    and printed before that error is raised.
    """
    values, _ = invocation.read(VERB)

    from soscope.control.detach import detach, stop_owner
    from soscope.errors import AttachError
    from soscope.report.detach import document, text

    owner = stop_owner(values.pid)
    removed = detach(values.pid)
    removed.owner = owner
    failure: AttachError | None = None
    if removed.counts:
        try:
            _stop_counting(removed)
        except AttachError as error:
            failure = error
    is_told = True
    if not values.quiet:
        is_told = show(values.json.shaped((document if values.json else text)(removed)))
    if failure is not None:
        raise failure
    if not is_told or any(taken.left or taken.kept for _, taken in removed.agents):
        return 1
    return 0


def _stop_counting(removed: Removed) -> None:
    """Make the interpreter stop counting its objects, and read what stays in the process.

    Raises as `soscope.instruments.mem.live.detach`.
    """
    from soscope.control.detach import detach
    from soscope.instruments.mem import live

    removed.was_counting, removed.notes = live.detach(removed.pid)
    rest = detach(removed.pid)
    removed.agents += rest.agents
    removed.inert, removed.remains = rest.inert, rest.remains
    removed.longest_stop = max(removed.longest_stop, rest.longest_stop)
