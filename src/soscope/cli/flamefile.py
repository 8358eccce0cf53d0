# SPDX-License-Identifier: Apache-2.0
"""Write a flame graph into a file."""

from __future__ import annotations

import os

from soscope.cli.output import finish
from soscope.errors import UsageError
from soscope.report.output import Output


def write_flame(text: str, path: str, recording: str) -> bool:
    """Write a picture or a page; return whether all of it was written.

    Raises UsageError where the file is the recording that it is of, SoscopeError where it cannot be
    opened.
    """
    if os.path.exists(path) and os.path.samefile(path, recording):
        raise UsageError("-o names the recording itself")
    output = Output.open(path)
    output.write(text)
    return finish(output)
