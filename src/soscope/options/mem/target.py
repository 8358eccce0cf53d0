# SPDX-License-Identifier: Apache-2.0
"""What the verbs that switch counting on and off in a process have in common: their options."""

from __future__ import annotations

from soscope.options.display import DEBUG
from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.table import Option
from soscope.options.verb import Verb
from soscope.report.form import Form


class TargetOptions:
    """What such a verb was told: the process, and whether to say what was done."""

    __slots__ = ("debug", "json", "pid", "quiet")

    def __init__(self, pid: int, *, json: Form, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


def make_verb(name: str, about: str, description: str) -> Verb:
    """Return the verb `soscope mem NAME`, which does to a process what `about` says."""
    usage = f"soscope mem {name} -p PID"
    short = [
        f"usage: {usage}",
        "",
        about,
        "",
        "  -p PID      the process",
        "  -q          say nothing",
        "  --json      for programs",
        "",
        f"soscope mem {name} --help lists all options.",
        "",
    ]
    return Verb(
        f"mem {name}",
        [
            DEBUG,
            pid_option(about="it stands still for some milliseconds"),
            Option("-q", "--quiet", dest="quiet", group="how to show it", help="say nothing"),
            JSON,
            FORMAT,
        ],
        usage=usage,
        short="\n".join(short),
        description=description,
        epilog="exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not"
        " permitted, 4 no such\nprocess.\n",
    )


def parse_target(verb: Verb, words: list[str]) -> TargetOptions:
    """Parse the words behind such a verb. Raises UsageError, or SystemExit for help."""
    values, _ = verb.read(words)
    pid = the_pid(values, verb.usage)
    return TargetOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)
