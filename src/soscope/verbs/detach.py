# SPDX-License-Identifier: Apache-2.0
"""`soscope detach`: remove whatever soscope keeps or has left in a process."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, FORMAT, JSON, Verb, pid_option, quiet_option, the_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed


USAGE = "soscope detach [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Remove everything that soscope keeps in a process or has left there.

  -p
  -q
  --json

soscope detach --help lists all options.
"""

DESCRIPTION = """\
Remove everything that soscope keeps in a process or has left there. detach finds out what that
is. A soscope that has attached to the process (trace -p, prof attach) ends as it does at Ctrl-C,
and has shown or written what it has recorded when detach returns. An interpreter that counts its
objects (mem attach) stops that. Every word that a killed soscope or a patch has changed gets its
old value again. The process's threads stand still for some milliseconds, and the process goes on.
"""

EPILOG = """\
exit status: 0 fine, or a message that there was nothing to undo, 1 not everything could be undone,
or soscope has started the process and observes it to its end, 2 wrong usage, 3 not permitted, 4 no
such process.
"""

VERB = Verb(
    "detach",
    [
        DEBUG,
        pid_option(about="it stands still for some milliseconds"),
        JSON,
        FORMAT,
        quiet_option(JSON.group, "say nothing"),
    ],
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
)


class DetachOptions:
    """The parsed options of `soscope detach`."""

    __slots__ = ("debug", "json", "pid", "quiet")

    def __init__(self, pid: int, *, json: Form, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


def parse(arguments: list[str]) -> DetachOptions:
    """Parse the words behind `soscope detach`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    pid = the_pid(values, USAGE)
    return DetachOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone.

    If the interpreter of the process cannot be asked to stop counting, everything else is undone
    and printed before that error is raised.
    """
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.control.detach import detach, stop_owner
    from soscope.errors import AttachError
    from soscope.report.detach import document, text
    from soscope.verbs.main import show

    owner = stop_owner(options.pid)
    removed = detach(options.pid)
    removed.owner = owner
    failure: AttachError | None = None
    if removed.counts:
        try:
            _stop_counting(removed)
        except AttachError as error:
            failure = error
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(removed)) if options.json else text(removed))
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
