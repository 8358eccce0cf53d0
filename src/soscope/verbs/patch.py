# SPDX-License-Identifier: Apache-2.0
"""`soscope patch`: let calls of a symbol reach another function, in a process or a command."""

from __future__ import annotations

from soscope.control.patch import Replacement
from soscope.errors import AgentError, UsageError
from soscope.instruments.patch.spec import parse_callers, parse_replacement
from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    LIST,
    CommandVerb,
    Option,
    Values,
    follow_option,
    names,
    permuted,
    pid_option,
    quiet_option,
    the_pid,
)
from soscope.wire.patches import Caller

_GROUP = "what to replace"

REPLACE = Option(
    "--replace",
    kind=LIST,
    metavar="SYMBOL=LIB:FUNCTION",
    convert=parse_replacement,
    group=_GROUP,
    help="calls of SYMBOL reach FUNCTION of the library at LIB (repeatable)",
)
FROM = Option(
    "--from",
    dest="from_",
    kind=LIST,
    metavar="IMAGE",
    group=_GROUP,
    help="only calls by this image: soname, file name, glob, /regex/, path or MAIN (repeatable)",
)
CHECK = Option(
    "--check-types",
    dest="check",
    aliases=("--check",),
    group=_GROUP,
    help="refuse a FUNCTION unless it is known that its types are SYMBOL's",
)

ABOUT = """\
Every slot of SYMBOL then leads to FUNCTION, also in libraries that are loaded later, but not in LIB
itself. FUNCTION takes the arguments of SYMBOL. LIB's own calls of SYMBOL reach the original. A call
through the pointer SYMBOL_original reaches it, too, if LIB exports that pointer: soscope sets it
before the first call. If code takes SYMBOL's address, its slot is left unchanged, with a note.

soscope reads the types of FUNCTION from LIB's debug information (cc -g). It reads the types of
SYMBOL from its own declarations, or from the debug information of the library that defines SYMBOL.
If both are known and cannot fit (the number of arguments, the size of one, int for double), nothing
is started or changed. If they are not known, FUNCTION is accepted, unless --check-types is given.
"""


USAGE = """\
soscope patch -p PID --replace SYMBOL=LIB:FUNCTION... [--from IMAGE]... [--check-types]
       soscope patch -p PID --undo [SYMBOL...]
       soscope patch --replace SYMBOL=LIB:FUNCTION... [options] [--] COMMAND [ARGUMENT...]"""

SHORT = f"""\
usage: {USAGE}

Have calls of a running process, or of a command, reach functions of one's own.

  -p
  --replace
  --from
  --check-types
  --undo
  -f
  --json

  soscope patch --replace gettimeofday=./clock.so:slow_clock -- ruby script.rb

soscope patch --help lists all options.
"""

DESCRIPTION = f"""\
Load a library into a running process, by the process's own loader, and redirect calls of a function
to a function of that library. The redirection stays when patch returns, and needs no soscope.
--undo restores the bytes of each slot and closes the library.

With a COMMAND, the library is loaded and the calls are redirected before main. COMMAND's own
output, exit status and signals stay what they are; nothing is added to its environment.

{ABOUT}"""

EPILOG = """\
A second --replace of a symbol replaces the first. One command applies all of its --replace options,
or none. soscope trace -p and inject -p work on a patched process, and leave the patch in place.
soscope detach undoes it, too.

exit status with -p: 0 fine, 1 the library cannot be loaded, something could not be undone, or a
living soscope traces the process, 2 wrong usage, 3 not permitted, 4 no such process.

exit status with a COMMAND: COMMAND's, or soscope dies of the signal that killed it; 125 if
soscope itself failed or was misused, or LIB could not be loaded (COMMAND does not run then), 126
if COMMAND cannot be executed, 127 if it was not found.

examples:
  soscope patch -p 4711 --replace gettimeofday=./clock.so:slow_clock
  soscope patch -p 4711 --replace malloc=./count.so:counting --from 'libssl*'
  soscope patch -p 4711 --undo
  soscope patch --replace gettimeofday=./clock.so:slow_clock -- ruby script.rb
"""

_SHOWING = JSON.group

_PID = pid_option(about="it stands still for some milliseconds")
_UNDO = Option(
    "--undo",
    group=REPLACE.group,
    help="give slots their old bytes, of all functions or of SYMBOL...",
)

OPTIONS = [
    DEBUG,
    _PID,
    REPLACE,
    FROM,
    CHECK,
    _UNDO,
    follow_option(
        REPLACE.group, "of a COMMAND: in the programs that it executes and its children, too"
    ),
    JSON,
    FORMAT,
    quiet_option(_SHOWING, "say nothing but errors"),
]

VERB = CommandVerb(
    "patch", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)


class PatchOptions:
    """The parsed options of `soscope patch`: `wanted`, for calls by `callers`, or `symbols`.

    Replacements of `symbols` are to be undone. `pid` is None if `command` is to be run.
    """

    __slots__ = (
        "callers",
        "check",
        "command",
        "debug",
        "follow",
        "json",
        "pid",
        "quiet",
        "symbols",
        "undo",
        "wanted",
    )

    def __init__(self, values: Values, rest: list[str]) -> None:
        self.pid: int | None = values.pid
        self.wanted: list[Replacement] = values.replace
        self.callers: list[Caller] = parse_callers(values.from_)
        self.symbols = [] if self.pid is None else rest
        self.command = rest if self.pid is None else []
        self.undo: bool = values.undo
        self.check: bool = values.check
        self.follow: bool = values.follow
        self.json: Form = values.json
        self.quiet: bool = values.quiet
        self.debug: bool = values.debug


def names_process(arguments: list[str]) -> bool:
    """Return whether words, which may be wrong, are about a process and not a command."""
    words = _ordered(arguments)
    return names(VERB.options, words, _PID) or names(VERB.options, words, _UNDO)


def _ordered(words: list[str]) -> list[str]:
    """Return the words with all options in front, unless they have a command of its own options."""
    is_process = names(VERB.options, words, _PID) or names(VERB.options, words, _UNDO)
    return (
        words
        if names(VERB.options, words, REPLACE) and not is_process
        else permuted(VERB.options, words)
    )


def parse(arguments: list[str]) -> PatchOptions:
    """Parse the words behind `soscope patch`. Raises UsageError, or SystemExit for help."""
    values, rest = VERB.read(_ordered(arguments))
    hint = f"usage: {USAGE}"
    if values.undo and (values.replace or values.from_):
        raise UsageError("--undo cannot be combined with --replace", hint=hint)
    if values.undo and values.check:
        raise UsageError("--check-types is for --replace", hint=hint)
    if values.undo:
        the_pid(values, USAGE)
    elif not values.replace:
        raise UsageError("nothing to do: --replace or --undo is missing", hint=hint)
    elif values.pid is None and not rest:
        raise UsageError("neither a command to run nor -p PID", hint=hint)
    elif values.pid is not None and rest:
        raise UsageError(
            f"'{rest[0]}': -p PID cannot be combined with a command, and SYMBOL is for --undo",
            hint=hint,
        )
    if values.pid is not None and values.follow:
        raise UsageError("-f is for a command: a process's children are patched, too", hint=hint)
    if values.pid is None and values.json:
        raise UsageError("--json and --format are for -p PID: a command has its own output")
    return PatchOptions(values, rest)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be put in place or undone.

    With a command, return the command's exit status, or die of its signal.
    """
    try:
        options = parse(invocation.words)
    except UsageError:
        invocation.wraps = not names_process(invocation.words)
        raise
    invocation.debug |= options.debug
    invocation.wraps = options.pid is None
    if options.pid is None:
        return _run_command(options)
    return _patch_process(options, options.pid)


def _patch_process(options: PatchOptions, pid: int) -> int:
    # Imported late, as --help and usage errors do not need it.
    from soscope.control.patch import patch, undo
    from soscope.instruments.patch.spec import check_replacements
    from soscope.report.patch import document, text
    from soscope.verbs.main import show

    if options.undo:
        patched = undo(pid, options.symbols)
    else:
        check_replacements(options.wanted, pid=pid, is_asked=options.check)
        patched = patch(pid, options.wanted, options.callers)
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(patched)) if options.json else text(patched))
    return 0 if is_told and not patched.left and not patched.waiting else 1


def _run_command(options: PatchOptions) -> int:
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
