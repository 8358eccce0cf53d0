# SPDX-License-Identifier: Apache-2.0
"""Files that a trace must not write to: the program itself, or one file for two outputs."""

from __future__ import annotations

import os

from soscope.control.command import Command
from soscope.errors import UsageError
from soscope.instruments.trace.settings import TraceSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
