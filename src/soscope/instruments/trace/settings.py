# SPDX-License-Identifier: Apache-2.0
"""Settings of a trace, from command-line options or from soscope.trace() arguments."""

from __future__ import annotations

import os

from soscope.control.settings import SessionSettings
from soscope.errors import UsageError
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# What is recorded of the calls.
MODE_TRACE = "trace"  # every call, as it happens
MODE_SUMMARY = "summary"  # -c: calls, errors and times by function
MODE_COUNT = "count"  # --count-only: calls by function

INSTRUMENTS = {  # numbers of the agent's instruments
    MODE_TRACE: layout.INSTRUMENT_TRACE,
    MODE_SUMMARY: layout.INSTRUMENT_STATS,
    MODE_COUNT: layout.INSTRUMENT_COUNT,
}

DEFAULT_STRING_LIMIT = 32
MOST_STRING_LIMIT = 4096


class TraceSettings(SessionSettings):
    """What to trace, and how, in addition to the settings of every session.

    `select`, `from_` and `to` are the arguments of -e, --from and --to, as the user wrote them.
    `mode` is one of the MODE_ constants of this module. `entry_only` means that exits are not
    recorded, and so no results and durations. `string_limit` is how many bytes of a string are
    kept. `wants_events` means that events are read as they come. `stacks` is how many frames of its
    stack each call has, 0: none. `on` and `off` are filter expressions, too. Recording begins with
    the calls of `on` and ends with the calls of `off`. If there is an `on`, it is off at first.
    """

    select: Sequence[str] = ()
    from_: Sequence[str] = ()
    to: Sequence[str] = ()
    mode: str = MODE_TRACE
    entry_only: bool = False
    string_limit: int = DEFAULT_STRING_LIMIT
    prototypes: Sequence[str] = ()
    wants_events: bool = True
    stacks: int = 0
    debug: bool = False
    on: Sequence[str] = ()
    off: Sequence[str] = ()

    @property
    def gate(self) -> bool | None:
        """Return whether the gates of processes are open at first, None if there are no gates."""
        return not (self.on or self.toggle) if self.on or self.off or self.toggle else None


# Files that a trace must not write to: the program itself, or one file for two outputs.

File = tuple[int, int]  # device and inode


def check_files(settings: TraceSettings, written: Sequence[tuple[str, File | None]]) -> None:
    """Check the files that will be written, each with its option, before any is written.

    Raises UsageError, and LaunchError if the command does not exist.
    """
    programs: list[bytes]
    if settings.pids:
        programs = [b"/proc/%d/exe" % pid for pid in settings.pids]
    elif settings.remote is not None:
        programs = [os.fsencode(path) for path in settings.command]
    else:
        from soscope.control.command import Command  # readers of recordings need no commands

        command = Command(settings.command)
        programs = [command.files[0], os.fsencode(command.program)]
    known: dict[File, str] = {}
    for option, file in written:
        if file is None:
            continue
        if file in known:
            raise UsageError(f"{known[file]} and {option} name the same file")
        if file in [file_at(path) for path in programs]:
            raise UsageError(f"{option} names the program that is to be traced")
        known[file] = option


def file_at(path: str | bytes) -> File | None:
    """Return device and inode of the file at a path, None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # opening it will report why
    return status.st_dev, status.st_ino
