# SPDX-License-Identifier: Apache-2.0
"""Options of the verbs that undo something in a process."""

from __future__ import annotations

from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import Option


class TargetOptions:
    """The parsed options of such a verb: the process, and whether to print what was done."""

    __slots__ = ("debug", "json", "pid", "quiet")

    def __init__(self, pid: int, *, json: Form, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


def make_verb(name: str, about: str, description: str, epilog: str) -> Verb:
    """Return the verb `soscope NAME`. `about` describes its effect on a process."""
    usage = f"soscope {name} [options] -p PID"
    short = [
        f"usage: {usage}",
        "",
        about,
        "",
        "  -p PID  the process",
        "  -q      say nothing",
        "  --json  for programs",
        "",
        f"soscope {name} --help lists all options.",
        "",
    ]
    return Verb(
        name,
        [
            DEBUG,
            pid_option(about="it stands still for some milliseconds"),
            JSON,
            FORMAT,
            Option("-q", "--quiet", dest="quiet", group=JSON.group, help="say nothing"),
        ],
        usage=usage,
        short="\n".join(short),
        description=description,
        epilog=epilog,
    )


def parse_target(verb: Verb, words: list[str]) -> TargetOptions:
    """Parse the words behind such a verb. Raises UsageError, or SystemExit for help."""
    values, _ = verb.read(words)
    pid = the_pid(values, verb.usage)
    return TargetOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)
