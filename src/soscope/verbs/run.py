# SPDX-License-Identifier: Apache-2.0
"""`soscope run`: run a command with functions of the user's own in place of others."""

from __future__ import annotations

from soscope.control.patch import Replacement
from soscope.errors import AgentError, UsageError
from soscope.instruments.patch.spec import parse_callers
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import DEBUG, CommandVerb, Option, Values
from soscope.verbs.patch import ABOUT, CHECK, FROM, REPLACE
from soscope.wire.patches import Caller

USAGE = "soscope run --replace SYMBOL=LIB:FUNCTION... [options] [--] COMMAND [ARGUMENT...]"

SHORT = f"""\
usage: {USAGE}

Run COMMAND; its calls of a function reach one of one's own.

  --replace malloc=./mine.so:mine  calls of malloc reach mine, of ./mine.so
  --from IMAGE                     calls by this image alone
  --check                          refuse types that cannot be compared
  -f                               in children, too

  soscope run --replace gettimeofday=./clock.so:slow_clock -- ruby script.rb

soscope run --help lists all options.
"""

DESCRIPTION = f"""\
Run COMMAND with LIB loaded into it and calls of SYMBOL led to FUNCTION before its main. COMMAND's
own output, exit status and signals stay what they are; nothing is added to its environment.

{ABOUT}"""

EPILOG = """\
exit status: that of COMMAND, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, or LIB could not be loaded (COMMAND does not run then), 126 if
COMMAND cannot be executed, 127 if it was not found.
"""

OPTIONS = [
    DEBUG,
    REPLACE,
    FROM,
    CHECK,
    Option(
        "-f",
        "--follow-forks",
        dest="follow",
        group=REPLACE.group,
        help="in the programs that it executes and its children, too",
    ),
    Option("-q", "--quiet", dest="quiet", group="how to show it", help="say nothing but errors"),
]


class RunOptions:
    """The parsed options of `soscope run`."""

    __slots__ = ("callers", "check", "command", "debug", "follow", "quiet", "wanted")

    def __init__(
        self, command: list[str], wanted: list[Replacement], callers: list[Caller], values: Values
    ) -> None:
        self.command = command
        self.wanted = wanted
        self.callers = callers
        self.check: bool = values.check
        self.follow: bool = values.follow
        self.quiet: bool = values.quiet
        self.debug: bool = values.debug


VERB = CommandVerb("run", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> RunOptions:
    """Parse the words behind `soscope run`. Raises UsageError, or SystemExit for help."""
    values, command = VERB.read(arguments)
    hint = f"usage: {USAGE}"
    if not values.replace:
        raise UsageError("nothing to replace: --replace is missing", hint=hint)
    if not command:
        raise UsageError("no command to run", hint=hint)
    return RunOptions(command, values.replace, parse_callers(values.from_), values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.patch.instrument import run as run_patched
    from soscope.instruments.patch.spec import check_replacements
    from soscope.proc.status import in_full
    from soscope.verbs.main import leave

    check_replacements(options.wanted, command=options.command[0], is_asked=options.check)
    outcome, instrument = run_patched(
        options.command, options.wanted, options.callers, follow=options.follow
    )
    if instrument.failure is not None:
        raise AgentError(instrument.failure)
    if not options.quiet:
        for path, reason in outcome.untraced:
            note(f"{path}: nothing was replaced: {in_full(reason)}")
        for line in (*outcome.executed.lines(), *instrument.notes, *outcome.remarks):
            note(line)
    return leave(outcome.status, outcome.signal)
