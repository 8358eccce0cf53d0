# SPDX-License-Identifier: Apache-2.0
"""How verbs print their result, and report it if that failed."""

from __future__ import annotations

from soscope.cli.main import note
from soscope.report.output import STDOUT, Output


def show(text: str) -> bool:
    """Print a verb's result on standard output. Return whether all of it was written.

    Raises BrokenPipeError if the reader is gone.
    """
    output = Output.open(None, STDOUT)
    output.write(text)
    return finish(output)


def finish(output: Output) -> bool:
    """Close an output. Return whether all of it was written; if not, a note tells why.

    Raises BrokenPipeError if the reader is gone.
    """
    output.close()
    if output.error is None:
        return True
    if isinstance(output.error, BrokenPipeError):
        raise output.error
    note(f"cannot write {output.name}: {(output.error.strerror or '').lower()}")
    return False
