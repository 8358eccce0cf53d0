# SPDX-License-Identifier: Apache-2.0
"""`soscope inject`: make calls of library functions fail; `--sweep` tries every site."""

from __future__ import annotations

import os
import signal

from soscope.errors import UsageError
from soscope.instruments.inject.instrument import parse_rule
from soscope.instruments.trace.settings import TraceSettings
from soscope.verbs import trace
from soscope.verbs.display import display_from
from soscope.verbs.main import Early, Invocation, die, finish, note
from soscope.verbs.options import (
    COUNT,
    LIST,
    ONCE,
    Option,
    Values,
    Verb,
    duration_option,
    follow_option,
    format_option,
    names,
    parse_count,
    pids_option,
    table,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


# The options of `soscope inject --sweep`, which are rows of inject's table.

GROUP = "sweeping"

_WITHOUT = """rules pids seed duration time durations string_limit relative elements indent column
    places colour record buffer max_size when_full""".split()  # options that a sweep does not use


def _jobs(text: str) -> int:
    jobs = parse_count(text)
    if not 0 < jobs <= 1024:
        raise UsageError(f"'{text}' is no possible number of runs", hint="1 to 1024")
    return jobs


def _functions(text: str) -> str:
    if ":" in text or "=" in text:
        raise UsageError(
            f"'{text}' is not names of functions", hint="names or globs, separated by commas"
        )
    return text


def _callers(text: str) -> str:
    if not text or ":" in text:
        raise UsageError(f"'{text}' is no pattern of an image", hint="? stands for a colon")
    return text


SWEEP_OPTIONS = table(
    GROUP,
    Option(
        "--sweep",
        kind=ONCE,
        metavar="SET",
        convert=_functions,
        help="fail each call site of these functions once, in a run of its own",
    ),
    Option(
        "--from",
        dest="callers",
        kind=LIST,
        metavar="IMAGE",
        convert=_callers,
        help="only call sites in this image (repeatable): a name, a glob, a path, MAIN",
    ),
    Option(
        "--test",
        metavar="SHELL",
        help="status 0 says that the output, its standard input, is right",
    ),
    Option(
        "-j", "--jobs", metavar="N", convert=_jobs, help="runs at a time (the number of processors)"
    ),
    Option(
        "--timeout",
        metavar="TIME",
        help="what takes longer hangs (ten times the first run, at least 5s)",
    ),
)


def _check_rest(values: Values) -> None:
    """Refuse options of a sweep without a sweep, and of a trace with one. Raises UsageError."""
    by_dest = {option.dest: option for option in VERB.options}
    refused = [option.dest for option in SWEEP_OPTIONS] if values.sweep is None else _WITHOUT
    for dest in refused:
        if getattr(values, dest) != by_dest[dest].unset:
            name = by_dest[dest].flags[0]
            if values.sweep is None:
                raise UsageError(f"{name} is for a sweep", hint="--sweep SET names its functions")
            raise UsageError(f"{name} cannot be combined with --sweep")


# The options of `soscope inject`: rules, and options of every trace.


_GROUP = "which calls"
_SHOWING = "how to show them"
_SHARED = {
    "time", "relative", "durations", "string_limit", "elements", "no_demangle", "indent",
    "column", "places", "colour", "quiet", "verbose", "output",
    "prototypes", "record", "buffer", "max_size", "when_full",
}  # fmt: skip
_PID = pids_option(group=_GROUP, about="a process that runs already; several: -p A -p B, -p A,B")


VERB = Verb(
    "inject",
    _PID,
    _GROUP,
    Option(
        "-e",
        dest="rules",
        kind=LIST,
        metavar="RULE",
        convert=parse_rule,
        help="calls that fail, return something else, or wait (repeatable)",
    ),
    Option(
        "--seed", metavar="N", help="what probability= chooses by: the same again for the same N"
    ),
    follow_option(_GROUP, "in children, too", kind=COUNT),
    duration_option(_GROUP, "let all calls through after TIME; the command goes on"),
    Option(
        "--json",
        group=_SHOWING,
        help="JSON Lines, one for each event, the last one of the rules; of a sweep: one document",
    ),
    format_option(_SHOWING),
    *SWEEP_OPTIONS,
    *(option for option in trace.VERB.options if option.dest in _SHARED),
    usage="""\
soscope inject -e RULE... [options] {[--] COMMAND [ARGUMENT...] | -p PID}
       soscope inject --sweep SET [options] [--] COMMAND [ARGUMENT...]""",
    short="""\
Run COMMAND, have calls into shared libraries fail, and show those; -p: of a process.

  -e
  -p
  -f
  --sweep
  -o

  soscope inject -e inject=malloc:error=ENOMEM:when=100 -- ls
  soscope inject --sweep malloc,calloc,realloc -- ls
""",
    description="""\
Run COMMAND. A rule chooses among the calls that cross the boundary of its shared libraries, and
lets them fail, return another value, or wait. Each of them is shown as soscope trace shows it, with
(INJECTED) or (DELAYED) at the end of its line. Other calls are not shown. The command's own output,
exit status and signals stay what they are; the trace goes to standard error, or to FILE with -o.

With --sweep, COMMAND is run many times. Standard output, or FILE, lists the call sites at which a
failure makes it crash, hang or give up. Its own output is not shown; its standard input is empty.
""",
    epilog="""\
RULE is as in strace: inject=SET or fault=SET, and keys after colons. SET is names of functions or
globs, separated by commas. The first rule that chooses a call decides; all count it.

  error=E         the function fails: it returns what it returns when it fails, and errno is E (a
                  name or number); pthread_* and posix_memalign return E; getaddrinfo: EAI_*
  retval=V        it returns V (decimal, 0x..., negative); errno=N beside it sets errno
  when=N          which call: only the Nth; N..M, N+ and N.. (all from there on), N+STEP, N..M+STEP
  probability=P   each of these with this chance: 0 to 1, or 25%; chosen by --seed
  delay_enter=T   it waits before the call, delay_exit=T after it: microseconds, or with s, ms,
                  us, ns; without error= and retval= the function is called
  from=IMAGE      only calls by this image; may be repeated
  site=IMAGE+0xN  only calls that return to this link-time address

fault= without error= takes the first error that the function's manual lists. Calls are counted
for each rule and function, by all threads of a process together, from 1 on.

A sweep runs COMMAND twice as it is, then once for each call site, whose first call fails by the
function's own rule (fault=). The result is an error if the status differs, a crash if a signal
ends it, a hang if it takes too long, and wrong if the status is the same, but not the output.

exit status: COMMAND's, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found. Of a
sweep: 0, or 1 if there was a crash, a hang or wrong output.

examples:
  soscope inject -e inject=malloc,calloc:error=ENOMEM:when=3.. -- prog
  soscope inject -e inject=read:retval=1:when=1:from=MAIN -- cat /etc/hostname
  soscope inject -e fault=open*:probability=10% --seed 7 -f -- make
  soscope inject -e inject=write:delay_enter=5ms -p 4711
  soscope inject --sweep malloc,calloc,realloc --from MAIN -- git status
""",
    runs_command=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    invocation.wraps = not names(VERB.options, invocation.words, _PID)
    values, command = invocation.read(VERB)
    _check_rest(values)
    if values.follow > 1:
        raise UsageError("-ff is for soscope trace", hint="-f follows children")
    if values.sweep is not None:
        VERB.check_target(command)
        invocation.wraps = True
        return sweep(values, command)
    if not values.rules:
        raise VERB.wrong("no rule: -e inject=... or -e fault=... is missing")
    VERB.check_target(command, values.pids)
    trace.check_sizes(values)
    invocation.wraps = not values.pids
    prints = values.record is None or values.output is not None
    symbols = dict.fromkeys(symbol.text for rule in values.rules for symbol in rule.symbols)
    display = display_from(values, several=len(values.pids) > 1)
    settings = TraceSettings(
        command,
        select=[",".join(symbols)],
        follow=bool(values.follow),
        string_limit=values.string_limit,
        prototypes=values.prototypes,
        duration_ns=values.duration,
        buffer=values.buffer,
        limit=values.max_size,
        when_full=values.when_full or ("drop" if values.pids else "block"),
        record=values.record,
        pids=values.pids,
        wants_events=prints,
        debug=invocation.debug,
    )

    from soscope.instruments.inject.instrument import InjectInstrument
    from soscope.instruments.trace.instrument import run_trace
    from soscope.instruments.trace.listener import Listener
    from soscope.report.output import Output
    from soscope.report.trace import json
    from soscope.verbs.trace import end, say_notes

    seed = values.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "little")
    inject = InjectInstrument(
        values.rules,
        seed,
        follow=settings.follow,
        string_limit=settings.string_limit,
        files=settings.prototypes,
    )
    early = Early()
    output = Output.open(values.output)
    listener = Listener()
    if prints:
        listener = json.make(output, display, inject.summary, form=values.json)
    try:
        tell = None if display.quiet else early
        outcome = run_trace(settings, listener, output, tell, inject)
    finally:
        output.close()
    if not output.is_given_up:
        early.finish()
        say_notes(outcome, [output], display)
        if not display.quiet:
            note(*json.rule_notes(inject.summary()), *inject.notes())
    return end(outcome)


# `soscope inject --sweep`: report how a command copes with failures.

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Ends:
    """Turns signals that ask soscope to end into KeyboardInterrupt, only the first one.

    `number` is that signal, 0 if there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._take)

    def _take(self, number: int, _: FrameType | None) -> None:
        if not self.number:
            self.number = number
            raise KeyboardInterrupt


def sweep(values: Values, command: list[str]) -> int:
    """Run the sweep. Return 0, or 1 if there was a crash, a hang or wrong output."""
    from soscope.instruments.inject.sweep.sweep import Sweep, SweepSettings
    from soscope.report import inject
    from soscope.report.output import STDOUT, Output

    work = Sweep(
        SweepSettings(
            command,
            values.sweep.split(","),
            callers=values.callers,
            follow=bool(values.follow),
            test=values.test,
            jobs=values.jobs,
            timeout=values.timeout / 1e9 if values.timeout else None,
        )
    )
    output = Output.open(values.output, STDOUT)
    ends = _Ends()
    result = work.run()
    if result.sites or not result.is_cut:
        output.write(
            inject.document(result, values.json)
            if values.json
            else inject.text(result, every=values.verbose)
        )
    is_told = finish(output)
    if not values.quiet:
        note(*inject.notes(result))
    if result.is_cut:
        return die(ends.number or signal.SIGINT)
    if result.failed:
        return 125
    return 1 if result.has_faults or not is_told else 0
