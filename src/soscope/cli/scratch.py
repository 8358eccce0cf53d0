# SPDX-License-Identifier: Apache-2.0
"""A recording that is not kept: it is shown, then deleted."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from soscope.errors import RecordingError


@contextmanager
def scratch_recording(what: str) -> Iterator[str]:
    """Yield the path of a recording in a temporary directory, which is deleted afterwards.

    `what` describes its content in the message. Raises RecordingError if no such directory can be
    made.

    >>> import os
    >>> from soscope.cli.scratch import scratch_recording
    >>> with scratch_recording("the calls") as path:
    ...     os.path.basename(path)
    'run.sosr'
    """
    try:
        directory = tempfile.TemporaryDirectory(prefix="soscope-")
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise RecordingError(f"no room for {what}: {reason}") from error
    with directory as place:
        yield os.path.join(place, "run.sosr")
