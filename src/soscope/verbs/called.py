# SPDX-License-Identifier: Apache-2.0
"""`soscope called`: list exported functions that are called, and functions that never are."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.linker.collect import in_path
from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import (
    FORM,
    JSON,
    LIST,
    Option,
    Verb,
    command_at,
    duration_option,
    follow_option,
    pids_option,
    quiet_option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.called import CalledImage
    from soscope.instruments.trace.outcome import TraceOutcome


_WHAT = "what to show"


VERB = Verb(
    "called",
    _WHAT,
    pids_option(
        group=_WHAT,
        about="a process that runs already, by number or name; several: -p A -p B, -p A,B",
    ),
    Option(
        "-e",
        "--select",
        kind=LIST,
        metavar="FUNCTION",
        help="a function, a glob, or several with commas between them: ask whether it is called",
    ),
    follow_option(_WHAT, "children, too"),
    duration_option(_WHAT, "watch for TIME; the command goes on"),
    Option("--never", help="name the functions that were never called"),
    *FORM,
    quiet_option(JSON.group, "no notes at the end"),
    usage="soscope called [options] [IMAGE...] {-p PID | -- COMMAND [ARGUMENT...]}",
    short="""\
Say which exported functions of libraries are called from other images, and which never are.

  -e
  -p
  --never

  soscope called libz.so.1 -- python3 -c 'import gzip'
  soscope called -e 'png_set_*' -p 1234 --duration 60s
""",
    description="""\
List the exported functions of libraries that other images call while COMMAND runs, or in a process,
with the number of calls, and the functions that are never called. So it answers whether the program
reaches the function of an advisory. IMAGE is the name of a library, or a glob. Without one, all
libraries are shown that were called. Every image is watched, which costs as much as counting.

Only calls through slots are seen: a library may still call its own functions, and a function may be
called by a pointer. If an image takes a function's address, such calls are likely, and the function
is listed as uncertain instead of never called.
""",
    epilog="""\
exit status: 0 fine, 1 a function that -e names was called, or a process was not watched to the
end, 2 wrong usage, soscope failed or COMMAND cannot be watched, 3 not permitted, 4 no such
process; 126 COMMAND cannot be executed, 127 it was not found. How COMMAND ended is a note.
""",
    argument=("IMAGE", "a library, by name or glob (all that are called)"),
    most=None,
)


def _with_dashes(words: list[str], first: int) -> str:
    """Return a hint with the words as they were typed, and `--` in front of the word `first`."""
    import shlex

    line = shlex.join([*words[:first], "--", *words[first:]])
    return f"'--' stands in front of it: soscope called {line}"


def run(invocation: Invocation) -> int:
    """Run the verb. Return 1 if a function that was asked for was called."""
    words = invocation.words
    at = words.index("--") if "--" in words else len(words)
    first = command_at(VERB.options, words)
    if first < at == len(words) and in_path(words[first]) != words[first]:
        raise UsageError("no command to run", hint=_with_dashes(words, first))
    invocation.words, command = words[:at], words[at + 1 :]
    values, images = invocation.read(VERB)
    if values.pids and command:
        raise VERB.wrong("-p PID cannot be combined with a command")
    if not values.pids and not command:
        if images:
            raise UsageError("no command to run", hint=_with_dashes(words, first))
        raise VERB.wrong("no command to run")
    values.select = [glob for word in values.select for glob in word.split(",") if glob]
    invocation.wraps = False

    from soscope.instruments.trace.called import called_in
    from soscope.instruments.trace.instrument import run_trace
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.settings import MODE_COUNT, TraceSettings
    from soscope.report import called
    from soscope.report.trace.display import Display, FunctionNames

    settings = TraceSettings(
        command,
        from_=["all"],
        mode=MODE_COUNT,
        follow=values.follow,
        duration_ns=values.duration,
        pids=values.pids,
        wants_events=False,
        debug=invocation.debug,
    )
    outcome = run_trace(settings, Listener())
    called_images = called_in(outcome, images, values.select)
    notes = _notes(outcome, images, values.select, called_images)
    display = Display()
    names = FunctionNames(display)
    if values.json:
        shown = values.json.shaped(called.document(called_images, outcome, notes, names.full))
    else:
        shown = called.text(
            called_images, names.shown, never=values.never, asked=bool(values.select)
        )
    notes += display.remarks
    was_shown = show(shown)
    if not values.quiet:
        note(*notes)
    if not outcome.programs:  # "not called" would be no answer
        return 1 if values.pids else 2
    failed = outcome.not_attached or any(process.failure for process in outcome.attached)
    was_called = bool(values.select) and any(image.called for image in called_images)
    return int(was_called or bool(failed) or not was_shown)


def _notes(
    outcome: TraceOutcome, patterns: list[str], select: list[str], images: list[CalledImage]
) -> list[str]:
    from soscope.control.outcome import cost_lines
    from soscope.instruments.trace.called import unmatched
    from soscope.model.call import printable
    from soscope.proc.status import signal_name
    from soscope.report.trace.text import unseen_lines, untraced_lines
    from soscope.report.words import attached_lines

    lines = [
        f"no image is called '{printable(pattern)}'" for pattern in unmatched(patterns, outcome)
    ]
    if outcome.command:
        if outcome.signal is not None:
            lines.append(f"the command died of {signal_name(outcome.signal)}")
        elif outcome.status:
            lines.append(f"the command ended with status {outcome.status}")
    lines += untraced_lines(outcome.untraced) + outcome.executed.lines()
    lines += attached_lines(outcome, verbose=False)
    if not outcome.programs:
        return lines
    if select and not any(image.functions for image in images):
        wanted = printable(", ".join(select))
        lines.append(f"no library that was loaded exports {wanted}")
    functions = [function for image in images for function in image.functions]
    if any(function.is_uncertain or function.is_lower_bound for function in functions):
        lines.append("+ and ?: its address is taken; calls through pointers are not seen")
    lines.append("not seen: calls inside one library")
    return [*lines, *unseen_lines(outcome), *cost_lines(outcome.cost, "counting")]
