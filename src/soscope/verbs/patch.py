# SPDX-License-Identifier: Apache-2.0
"""`soscope patch`: let calls of a symbol reach another function, in a process or a command."""

from __future__ import annotations

from soscope.errors import AgentError, UsageError
from soscope.instruments.patch.spec import parse_callers, parse_replacement
from soscope.verbs.main import Invocation, leave, note, show
from soscope.verbs.options import (
    FORM,
    JSON,
    LIST,
    Option,
    Values,
    Verb,
    follow_option,
    names,
    permuted,
    pid_option,
    quiet_option,
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
_PID = pid_option(about="it stands still for some milliseconds")
_UNDO = Option(
    "--undo",
    group=_GROUP,
    help="give slots their old bytes, of all functions or of SYMBOL...",
)


VERB = Verb(
    "patch",
    _PID,
    REPLACE,
    _GROUP,
    Option(
        "--from",
        dest="from_",
        kind=LIST,
        metavar="IMAGE",
        help="only calls by this image: soname, file name, glob, /regex/, path or MAIN"
        " (repeatable)",
    ),
    Option(
        "--check-types",
        dest="check",
        aliases=("--check",),
        help="refuse a FUNCTION unless it is known that its types are SYMBOL's",
    ),
    _UNDO,
    follow_option(_GROUP, "of a COMMAND: in the programs that it executes and its children, too"),
    *FORM,
    quiet_option(JSON.group, "say nothing but errors"),
    usage="""\
soscope patch -p PID --replace SYMBOL=LIB:FUNCTION... [--from IMAGE]... [--check-types]
       soscope patch -p PID --undo [SYMBOL...]
       soscope patch --replace SYMBOL=LIB:FUNCTION... [options] [--] COMMAND [ARGUMENT...]""",
    short="""\
Have calls of a running process, or of a command, reach functions of one's own.

  -p
  --replace
  --from
  --check-types
  --undo
  -f
  --json

  soscope patch --replace gettimeofday=./clock.so:slow_clock -- ruby script.rb
""",
    description="""\
Load a library into a running process, by the process's own loader, and redirect calls of a function
to a function of that library. The redirection stays when patch returns, and needs no soscope.
--undo restores the bytes of each slot and closes the library.

With a COMMAND, the library is loaded and the calls are redirected before main. COMMAND's own
output, exit status and signals stay what they are; nothing is added to its environment.

Every slot of SYMBOL then leads to FUNCTION, also in libraries that are loaded later, but not in LIB
itself. FUNCTION takes the arguments of SYMBOL. LIB's own calls of SYMBOL reach the original. A call
through the pointer SYMBOL_original reaches it, too, if LIB exports that pointer: soscope sets it
before the first call. If code takes SYMBOL's address, its slot is left unchanged, with a note.

soscope reads the types of FUNCTION from LIB's debug information (cc -g). It reads the types of
SYMBOL from its own declarations, or from the debug information of the library that defines SYMBOL.
If both are known and cannot fit (the number of arguments, the size of one, int for double), nothing
is started or changed. If they are not known, FUNCTION is accepted, unless --check-types is given.
""",
    epilog="""\
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
""",
    runs_command=True,
)


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


def _check(values: Values, rest: list[str]) -> None:
    """Refuse options that do not belong together. Raises UsageError."""
    if values.undo and (values.replace or values.from_):
        raise VERB.wrong("--undo cannot be combined with --replace")
    if values.undo and values.check:
        raise VERB.wrong("--check-types is for --replace")
    if values.undo:
        VERB.check_pid(values)
    elif not values.replace:
        raise VERB.wrong("nothing to do: --replace or --undo is missing")
    elif values.pid is None and not rest:
        raise VERB.wrong("neither a command to run nor -p PID")
    elif values.pid is not None and rest:
        raise VERB.wrong(
            f"'{rest[0]}': -p PID cannot be combined with a command, and SYMBOL is for --undo"
        )
    if values.pid is not None and values.follow:
        raise VERB.wrong("-f is for a command: a process's children are patched, too")
    if values.pid is None and values.json:
        raise UsageError("--json and --format are for -p PID: a command has its own output")


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be put in place or undone.

    With a command, return the command's exit status, or die of its signal.
    """
    invocation.wraps = not names_process(invocation.words)
    invocation.words = _ordered(invocation.words)
    values, rest = invocation.read(VERB)
    _check(values, rest)
    callers = parse_callers(values.from_)
    invocation.wraps = values.pid is None
    if values.pid is None:
        return _run_command(values, callers, rest)
    return _patch_process(values, callers, rest)


def _patch_process(values: Values, callers: list[Caller], symbols: list[str]) -> int:
    from soscope.control.patch import patch, undo
    from soscope.instruments.patch.spec import check_replacements
    from soscope.report.patch import document, text

    if values.undo:
        patched = undo(values.pid, symbols)
    else:
        check_replacements(values.replace, pid=values.pid, is_asked=values.check)
        patched = patch(values.pid, values.replace, callers)
    is_told = True
    if not values.quiet:
        is_told = show(values.json.shaped((document if values.json else text)(patched)))
    return 0 if is_told and not patched.left and not patched.waiting else 1


def _run_command(values: Values, callers: list[Caller], command: list[str]) -> int:
    from soscope.instruments.patch.instrument import run as run_patched
    from soscope.instruments.patch.spec import check_replacements
    from soscope.proc.status import in_full

    check_replacements(values.replace, command=command[0], is_asked=values.check)
    outcome, instrument = run_patched(command, values.replace, callers, follow=values.follow)
    if instrument.failure is not None:
        raise AgentError(instrument.failure)
    if not values.quiet:
        for path, reason in outcome.untraced:
            note(f"{path}: nothing was replaced: {in_full(reason)}")
        note(*outcome.executed.lines(), *instrument.notes, *outcome.remarks)
    return leave(outcome.status, outcome.signal)
