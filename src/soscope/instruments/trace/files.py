# SPDX-License-Identifier: Apache-2.0
"""Files that a trace may not write to: one is the program, two are the same."""

from __future__ import annotations

import os

from soscope.control.command import Command
from soscope.errors import UsageError
from soscope.instruments.trace.settings import TraceSettings

File = tuple[int, int]  # device and inode


def check_files(settings: TraceSettings, output: File | None, recording: File | None) -> None:
    """Look at the files that are open for writing, before anything is written to them.

    Raises UsageError, and LaunchError where there is no such command.
    """
    if output == recording:
        raise UsageError("--record and -o name the same file")
    if settings.pids:
        programs = [b"/proc/%d/exe" % pid for pid in settings.pids]
    else:
        command = Command(settings.command)
        programs = [command.files[0], os.fsencode(command.program)]
    for file, option in ((recording, "--record"), (output, "-o")):
        if file is not None and file in [file_at(path) for path in programs]:
            raise UsageError(f"{option} names the program that is to be traced")


def file_at(path: str | bytes) -> File | None:
    """Return which file a path names, None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # whoever opens it says why
    return status.st_dev, status.st_ino
