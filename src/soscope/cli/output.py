# SPDX-License-Identifier: Apache-2.0
"""How verbs print their result, and what they say where that did not work."""

from __future__ import annotations

from soscope.cli.main import note
from soscope.report.output import STDOUT, Output


def show(text: str) -> bool:
    """Print a verb's result on standard output; return whether all of it was written.

    Raises BrokenPipeError where nobody reads any more.
    """
    output = Output.open(None, STDOUT)
    output.write(text)
    return finish(output)


def finish(output: Output) -> bool:
    """Close an output and return whether all of it was written; a note says why it was not.

    Raises BrokenPipeError where nobody reads any more.
    """
    output.close()
    if output.error is None:
        return True
    if isinstance(output.error, BrokenPipeError):
        raise output.error
    note(f"cannot write {output.name}: {(output.error.strerror or '').lower()}")
    return False
