# SPDX-License-Identifier: Apache-2.0
"""`soscope mem live`: show what grows in a running process."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import contextmanager

from soscope.errors import NoSuchProcess, SoscopeError, UsageError
from soscope.verbs.main import Invocation, complain, note, show
from soscope.verbs.options import (
    FORM,
    ONCE,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    duration_option,
    pid_option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.control.outcome import Outcome
    from soscope.instruments.mem.live import LiveBlocks, LiveObjects


_EVERY = 2_000_000_000  # nanoseconds


_LOOK = "what to look at"


VERB = Verb(
    "mem live",
    pid_option(about="it stands still for some milliseconds at each look"),
    _LOOK,
    Option("--blocks", help="native blocks and mappings; without it objects, if there are any"),
    Option("--gc", help="collect garbage before each look"),
    duration_option(
        _LOOK, "look twice, with this time between (60s, 5m), and print once", kind=ONCE
    ),
    Option("--every", kind=ONCE, metavar="TIME", help="refresh so often (2s)"),
    ROWS_LIMIT,
    ROWS_LIMIT.group,
    Option("--qualname", help="types with module and qualified name"),
    *FORM,
    usage="soscope mem live [options] -p PID",
    short="""\
Show which objects of a running Python or Ruby process become more, a minute, by file, line and
type; of other processes, which native blocks do, by where they are made.

  -p
  --blocks
  --duration
  --every
  --gc
  --json

  soscope mem live -p 4711
  soscope mem live -p 4711 --duration 60s
""",
    description="""\
Show which objects of a process become more. Its interpreter records where each object is made, as
with soscope mem attach. On a terminal the table is refreshed in place, otherwise one table follows
the other. At the end the process stops counting, unless it did so before.

If there is no interpreter, or with --blocks, soscope records the native blocks and mappings that
the process makes meanwhile, and shows the ones that stay. Then it takes everything out again.
""",
    epilog="""\
The process stands still for each look at objects, for the time that it takes to read them. Blocks
that it had before are not known.
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process, or it has ended meanwhile.
""",
    needs_pid=True,
)


IN_PLACE = "\x1b[H\x1b[J"  # escape sequences: to the corner, and clear the rest

_NS = 1_000_000_000


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    values, _ = invocation.read(VERB)
    if values.duration is not None and values.every is not None:
        raise UsageError("--duration prints only once, and cannot be combined with --every")
    if values.duration is None and values.json:
        raise UsageError("--json is for --duration TIME, which prints once")
    values.every = values.every or _EVERY
    is_about_objects = values.gc or values.qualname
    if values.blocks and is_about_objects:
        raise UsageError("--gc and --qualname are about objects, and --blocks is not")

    from soscope.instruments.mem.live import LiveObjects, counting, has_interpreter, unhurried

    if values.blocks or not (is_about_objects or has_interpreter(values.pid)):
        return run_blocks(values)
    with unhurried(), counting(values.pid) as goes_on:
        watch = LiveObjects(
            values.pid, collect=values.gc, qualname=values.qualname, goes_on=goes_on
        )
        watch.look()
        return _show(watch, values)


def _show(watch: LiveObjects, values: Values) -> int:
    from soscope.instruments.mem.live import waited
    from soscope.report.mem import live_document, live_text

    make = live_document if values.json else live_text
    if values.duration is not None:
        waited(values.duration / _NS)
        growth = watch.look()
        assert growth is not None
        return 0 if show(values.json.shaped(make(growth, values.rows))) else 1
    before = IN_PLACE if sys.stdout.isatty() else ""
    while waited(values.every / _NS):
        growth = watch.look()
        assert growth is not None
        if not show(before + values.json.shaped(make(growth, values.rows)) + "\n" * (not before)):
            return 1
    return 0


# Growth of blocks in a running process: recorded here, and shown by a child meanwhile.
#
# The process waits for the one that adds its blocks up. So a child does the naming and printing.

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LEAVING = 10  # seconds for the child to end by itself
_BAD = 1


def run_blocks(values: Values) -> int:
    """Show which blocks grow. Return 0, or 1 if not everything could be printed.

    Raises as `run_mem`, and NoSuchProcess if the process has ended meanwhile.
    """
    from soscope.instruments.mem.live import LiveBlocks
    from soscope.verbs.files import nameless
    from soscope.verbs.mem.attach import say_notes
    from soscope.verbs.trace import end

    descriptor = nameless()
    try:
        path = f"/proc/self/fd/{descriptor}"
        watch = LiveBlocks(values.pid, path)
        if values.duration is not None:
            outcome = _record(values, path)
            was_shown = _show_once(watch, values)
        else:
            with _viewer(watch, values) as answer:
                outcome = _record(values, path)
            was_shown = not answer
    finally:
        os.close(descriptor)
    say_notes(outcome)
    if not was_shown:
        return _BAD
    if any(attached.has_ended for attached in outcome.attached):
        raise NoSuchProcess(f"process {values.pid} has ended")
    return end(outcome)


def _record(values: Values, path: str) -> Outcome:
    from soscope.instruments.mem.run import MemSettings, run_mem

    settings = MemSettings(
        [], path, blocks=True, aggregate=True, pid=values.pid, duration_ns=values.duration
    )
    return run_mem(settings, note)


def _show_once(watch: LiveBlocks, values: Values) -> bool:
    from soscope.report.mem import live_document, live_text

    growth = watch.look()
    if growth is None:
        note("nothing is known: the process was not watched for long enough")
        return False
    return show(
        values.json.shaped((live_document if values.json else live_text)(growth, values.rows))
    )


# ---- the child -----------------------------------------------------------------------


@contextmanager
def _viewer(watch: LiveBlocks, values: Values) -> Iterator[list[int]]:
    """Let a child show the growth. At the end the list has its exit status, if that is not 0."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    child = os.fork()
    if not child:
        status = _BAD
        try:
            os.close(writing)
            status = _view(watch, values, reading, parent)
        finally:
            os._exit(status)
    os.close(reading)
    answer: list[int] = []
    try:
        yield answer
    finally:
        os.close(writing)
        if status := _status_of(child):
            answer.append(status)


def _status_of(child: int) -> int:
    """Wait for the child and return its status. Kill a child whose output is not read."""
    try:
        descriptor = os.pidfd_open(child)
        try:
            if not select.select([descriptor], [], [], _LEAVING)[0]:
                os.kill(child, signal.SIGKILL)
        finally:
            os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except (ChildProcessError, ProcessLookupError):
        return 0  # the parent's SIGCHLD setting reaps children at once


def _view(watch: LiveBlocks, values: Values, reading: int, parent: int) -> int:
    """Show one table after the other until `reading` is closed, by the parent or its end."""
    from soscope.report.mem import live_text

    for number in _ENDING:  # only the parent reacts to signals
        signal.signal(number, signal.SIG_IGN)
    before = IN_PLACE if sys.stdout.isatty() else ""
    was_shown = False
    try:
        while not select.select([reading], [], [], values.every / _NS)[0]:
            try:
                growth = watch.look()
            except SoscopeError:
                if was_shown:
                    raise
                continue  # the recording may have no head yet
            if growth is None:
                continue
            was_shown = True
            if not show(before + live_text(growth, values.rows) + "\n" * (not before)):
                return _leave(parent)
    except BrokenPipeError:
        return _leave(parent)
    except SoscopeError as error:
        complain(error)
        return _leave(parent)
    return 0


def _leave(parent: int) -> int:
    """End the parent, too, as the reader is gone."""
    if os.getppid() == parent:
        os.kill(parent, signal.SIGTERM)
    return _BAD
