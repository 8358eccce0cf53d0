# SPDX-License-Identifier: Apache-2.0
"""Growth of blocks in a running process: recorded here, and shown by a child meanwhile.

The process waits for the one that adds its blocks up. So a child does the naming and printing.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from soscope.cli.main import complain, note
from soscope.cli.mem.live import IN_PLACE
from soscope.errors import NoSuchProcess, SoscopeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome
    from soscope.instruments.mem.live import LiveBlocks
    from soscope.options.mem.live import MemLiveOptions


_NS = 1_000_000_000
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LEAVING = 10  # seconds for the child to end by itself
_BAD = 1


def run_blocks(options: MemLiveOptions) -> int:
    """Show which blocks grow. Return 0, or 1 if not everything could be printed.

    Raises as `run_mem`, and NoSuchProcess if the process has ended meanwhile.
    """
    from soscope.cli.mem.visited import say_notes
    from soscope.cli.nameless import nameless
    from soscope.cli.trace import end
    from soscope.instruments.mem.live import LiveBlocks

    descriptor = nameless()
    try:
        path = f"/proc/self/fd/{descriptor}"
        watch = LiveBlocks(options.pid, path)
        if options.duration is not None:
            outcome = _record(options, path)
            was_shown = _show_once(watch, options)
        else:
            with _viewer(watch, options) as answer:
                outcome = _record(options, path)
            was_shown = not answer
    finally:
        os.close(descriptor)
    say_notes(outcome)
    if not was_shown:
        return _BAD
    if any(attached.has_ended for attached in outcome.attached):
        raise NoSuchProcess(f"process {options.pid} has ended")
    return end(outcome)


def _record(options: MemLiveOptions, path: str) -> Outcome:
    from soscope.instruments.mem.run import MemSettings, run_mem

    settings = MemSettings(
        [], path, blocks=True, aggregate=True, pid=options.pid, duration_ns=options.duration
    )
    return run_mem(settings, note)


def _show_once(watch: LiveBlocks, options: MemLiveOptions) -> bool:
    from soscope.cli.output import show
    from soscope.report.mem import live_document, live_text

    growth = watch.look()
    if growth is None:
        note("nothing is known: the process was not watched for long enough")
        return False
    return show(
        options.json.shaped((live_document if options.json else live_text)(growth, options.limit))
    )


# ---- the child -----------------------------------------------------------------------


@contextmanager
def _viewer(watch: LiveBlocks, options: MemLiveOptions) -> Iterator[list[int]]:
    """Let a child show the growth. At the end the list has its exit status, if that is not 0."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    child = os.fork()
    if not child:
        status = _BAD
        try:
            os.close(writing)
            status = _view(watch, options, reading, parent)
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


def _view(watch: LiveBlocks, options: MemLiveOptions, reading: int, parent: int) -> int:
    """Show one table after the other until `reading` is closed, by the parent or its end."""
    from soscope.cli.output import show
    from soscope.report.mem import live_text

    for number in _ENDING:  # only the parent reacts to signals
        signal.signal(number, signal.SIG_IGN)
    before = IN_PLACE if sys.stdout.isatty() else ""
    was_shown = False
    try:
        while not select.select([reading], [], [], options.every / _NS)[0]:
            try:
                growth = watch.look()
            except SoscopeError:
                if was_shown:
                    raise
                continue  # the recording may have no head yet
            if growth is None:
                continue
            was_shown = True
            if not show(before + live_text(growth, options.limit) + "\n" * (not before)):
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
