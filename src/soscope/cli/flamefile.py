# SPDX-License-Identifier: Apache-2.0
"""Writes a flame graph to a file."""

from __future__ import annotations

import os

from soscope.cli.output import finish
from soscope.errors import UsageError
from soscope.report.output import Output


def write_flame(text: str, path: str, recording: str) -> bool:
    """Write a picture or a page. Return whether all of it was written.

    Raises UsageError if the file is the recording itself, and SoscopeError if it cannot be
    opened.
    """
    if os.path.exists(path) and os.path.samefile(path, recording):
        raise UsageError("-o names the recording itself")
    output = Output.open(path)
    output.write(text)
    return finish(output)
